//! `wasi:config/store`: the granted settings, by name. Not for secrets.

use crate::grants::Power;
use crate::instance::Instance;
use wasmtime::StoreContextMut;
use wasmtime::component::{ComponentType, Lift, Linker, Lower};

/// The versions that toolchains import; they differ only in their number.
pub(crate) const VERSIONS: [&str; 2] = ["0.2.0-draft", "0.2.0-rc.1"];

/// The reason why a setting could not be read.
#[derive(ComponentType, Lift, Lower)]
#[component(variant)]
enum Error {
    #[component(name = "upstream")]
    Upstream(String),
    #[component(name = "io")]
    Io(String),
}

type Store<'a> = StoreContextMut<'a, Instance>;
type Setting = Result<Option<String>, Error>;
type Settings = Result<Vec<(String, String)>, Error>;

pub(crate) fn add(linker: &mut Linker<Instance>) -> wasmtime::Result<()> {
    for version in VERSIONS {
        let mut store = linker.instance(&format!("wasi:config/store@{version}"))?;
        store.func_wrap("get", |mut store: Store<'_>, (name,): (String,)| {
            Ok((Setting::Ok(get(&mut store, &name)?),))
        })?;
        store.func_wrap("get-all", |mut store: Store<'_>, (): ()| {
            note(&mut store);
            let all: Vec<_> =
                store.data().settings().map(|(name, value)| (name.clone(), value.clone())).collect();
            let bytes: usize = all.iter().map(|(name, value)| name.len() + value.len()).sum();
            store.data().boundary.enter(bytes as u64)?;
            Ok((Settings::Ok(all),))
        })?;
    }
    Ok(())
}

/// Returns a setting, counting the bytes that enter the guest.
pub(super) fn get(store: &mut Store<'_>, name: &str) -> wasmtime::Result<Option<String>> {
    note(store);
    let value = store.data().settings().find(|(known, _)| *known == name);
    let value = value.map(|(_, value)| value.clone());
    store.data().boundary.enter(value.as_ref().map_or(0, String::len) as u64)?;
    Ok(value)
}

/// Settings may have changed when a call is replayed.
fn note(store: &mut Store<'_>) {
    if store.data().settings().next().is_some() {
        store.data_mut().world().used(Power::Settings);
    }
}
