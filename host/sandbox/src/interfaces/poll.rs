//! `wasi:io/poll`, recording the results of waits. A replay returns the recorded results
//! immediately instead of waiting again.

use crate::charge::charge;
use crate::instance::{GuestStore, Instance, WASI_VERSION};
use wasmtime::component::{Linker, Resource};
use wasmtime_wasi::p2::DynPollable;
use wasmtime_wasi::p2::bindings::io::poll::{Host, HostPollable};

/// The fuel cost of each handle that is waited for: roughly its actual cost.
const EACH_FUEL: usize = 64;

type Pollable = Resource<DynPollable>;

/// Replaces the interface's functions.
pub(crate) fn add_recorded(linker: &mut Linker<Instance>) -> wasmtime::Result<()> {
    let mut poll = linker.instance(&format!("wasi:io/poll@{WASI_VERSION}"))?;
    poll.func_wrap_async("poll", |mut store: GuestStore<'_>, (among,): (Vec<Pollable>,)| {
        Box::new(async move {
            charge(&mut store, among.len() * EACH_FUEL)?;
            Ok((wait(store.data_mut(), among).await?,))
        })
    })?;
    poll.func_wrap_async("[method]pollable.block", |mut store: GuestStore<'_>, (on,): (Pollable,)| {
        Box::new(async move {
            let instance = store.data_mut();
            if !instance.is_replay() {
                instance.table.block(on).await?;
            }
            Ok(())
        })
    })?;
    poll.func_wrap_async("[method]pollable.ready", |mut store: GuestStore<'_>, (on,): (Pollable,)| {
        Box::new(async move { Ok((is_ready(store.data_mut(), on).await?,)) })
    })
}

async fn wait(instance: &mut Instance, among: Vec<Pollable>) -> wasmtime::Result<Vec<u32>> {
    if instance.is_replay() && !among.is_empty() {
        let places = u32::try_from(among.len())?;
        let mut ready = instance.world().played_wait().unwrap_or_else(|| (0..places).collect());
        ready.retain(|place| *place < places);
        return Ok(ready);
    }
    let ready = instance.table.poll(among).await?;
    instance.world().record_wait(&ready);
    Ok(ready)
}

async fn is_ready(instance: &mut Instance, on: Pollable) -> wasmtime::Result<bool> {
    if instance.is_replay() {
        return Ok(instance.world().played_wait().is_none_or(|ready| !ready.is_empty()));
    }
    let ready = instance.table.ready(on).await?;
    instance.world().record_wait(if ready { &[0] } else { &[] });
    Ok(ready)
}
