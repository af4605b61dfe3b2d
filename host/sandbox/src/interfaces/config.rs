//! `wasi:config/store`: the granted settings, by name. Not for secrets.

use crate::charge::charge;
use crate::grants::Power;
use crate::instance::{GuestStore, Instance};
use wasmtime::component::{ComponentType, Lift, Linker, Lower, WasmStr};

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

type Setting = Result<Option<String>, Error>;
type Settings = Result<Vec<(String, String)>, Error>;

pub(crate) fn add(linker: &mut Linker<Instance>) -> wasmtime::Result<()> {
    for version in VERSIONS {
        let mut store = linker.instance(&format!("wasi:config/store@{version}"))?;
        store.func_wrap("get", |mut store: GuestStore<'_>, (name,): (WasmStr,)| {
            Ok((Setting::Ok(get(&mut store, &name)?),))
        })?;
        store.func_wrap("get-all", |mut store: GuestStore<'_>, (): ()| {
            record_read(&mut store);
            let sizes = store.data().settings().map(|(name, value)| name.len() + value.len());
            let bytes: usize = sizes.sum();
            charge(&mut store, bytes)?;
            store.data().boundary.enter(bytes as u64)?;
            let all = store.data().settings().map(|(name, value)| (name.clone(), value.clone())).collect();
            Ok((Settings::Ok(all),))
        })?;
    }
    Ok(())
}

/// Returns a setting. Charges its name and its value.
pub(super) fn get(store: &mut GuestStore<'_>, name: &WasmStr) -> wasmtime::Result<Option<String>> {
    record_read(store);
    let named = name.to_str(&*store)?;
    let found = store.data().settings().find(|(known, _)| **known == *named);
    let (left, value) = (named.len(), found.map(|(_, value)| value.clone()));
    let entered = value.as_ref().map_or(0, String::len);
    charge(store, left + entered)?;
    store.data().boundary.leave(left as u64)?;
    store.data().boundary.enter(entered as u64)?;
    Ok(value)
}

/// Settings may have changed when a call is replayed.
fn record_read(store: &mut GuestStore<'_>) {
    if store.data().settings().next().is_some() {
        store.data_mut().world().record_power(Power::Settings);
    }
}
