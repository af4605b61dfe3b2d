//! `tollgate:tool/settings`: the granted settings, by name. Not for secrets.

use super::config;
use crate::instance::Instance;
use crate::v0_1_0;
use wasmtime::StoreContextMut;
use wasmtime::component::{Linker, WasmStr};

pub(crate) fn add(linker: &mut Linker<Instance>) -> wasmtime::Result<()> {
    let mut settings = linker.instance(&format!("tollgate:tool/settings@{}", v0_1_0::VERSION))?;
    settings.func_wrap("get", |mut store: StoreContextMut<'_, Instance>, (name,): (WasmStr,)| {
        Ok((config::get(&mut store, &name)?,))
    })
}
