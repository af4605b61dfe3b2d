//! `wasi:config/store`: no settings, as long as none can be granted.

use crate::instance::Instance;
use wasmtime::StoreContextMut;
use wasmtime::component::{ComponentType, Lift, Linker, Lower};

/// The versions that toolchains import; they differ in nothing but their number.
pub(crate) const VERSIONS: [&str; 2] = ["0.2.0-draft", "0.2.0-rc.1"];

/// Why a setting could not be read.
#[derive(ComponentType, Lift, Lower)]
#[component(variant)]
enum Error {
    #[component(name = "upstream")]
    Upstream(String),
    #[component(name = "io")]
    Io(String),
}

type Setting = Result<Option<String>, Error>;
type Settings = Result<Vec<(String, String)>, Error>;

pub(crate) fn add_empty(linker: &mut Linker<Instance>) -> wasmtime::Result<()> {
    for version in VERSIONS {
        let mut store = linker.instance(&format!("wasi:config/store@{version}"))?;
        store.func_wrap("get", |_: StoreContextMut<'_, Instance>, (_key,): (String,)| {
            Ok((Setting::Ok(None),))
        })?;
        store.func_wrap("get-all", |_: StoreContextMut<'_, Instance>, (): ()| {
            Ok((Settings::Ok(Vec::new()),))
        })?;
    }
    Ok(())
}
