//! `tollgate:tool/settings`: the granted settings, by name. Not for secrets.

use super::call::charge;
use super::config;
use crate::instance::Instance;
use crate::v0_1_0;
use wasmtime::StoreContextMut;
use wasmtime::component::Linker;

pub(crate) fn add(linker: &mut Linker<Instance>) -> wasmtime::Result<()> {
    let mut settings = linker.instance(&format!("tollgate:tool/settings@{}", v0_1_0::VERSION))?;
    settings.func_wrap("get", |mut store: StoreContextMut<'_, Instance>, (name,): (String,)| {
        let value = config::get(&mut store, &name)?;
        charge(&mut store, name.len() + value.as_ref().map_or(0, String::len))?;
        Ok((value,))
    })
}
