//! `wasi:sockets`: never granted. Requests for a socket or an address are refused and recorded.

use crate::charge::{charge, text};
use crate::grants::Power;
use crate::instance::{GuestStore, Instance, WASI_VERSION};
use wasmtime::component::{Linker, Resource, WasmStr};
use wasmtime_wasi::p2::bindings::sockets::ip_name_lookup::ResolveAddressStream;
use wasmtime_wasi::p2::bindings::sockets::network::{ErrorCode, IpAddressFamily};
use wasmtime_wasi::p2::{Network, TcpSocket, UdpSocket};

/// The longest part of a name that a refusal quotes, in bytes; no longer name can be looked up.
const MAX_SHOWN_BYTES: usize = 253;

type SocketAnswer<T> = wasmtime::Result<(Result<Resource<T>, ErrorCode>,)>;

/// Replaces the functions that return a socket or an address.
pub(crate) fn add_refused(linker: &mut Linker<Instance>) -> wasmtime::Result<()> {
    linker.instance(&format!("wasi:sockets/tcp-create-socket@{WASI_VERSION}"))?.func_wrap(
        "create-tcp-socket",
        |mut store: GuestStore<'_>, _: (IpAddressFamily,)| -> SocketAnswer<TcpSocket> {
            charge(&mut store, 0)?;
            refuse(&store, "a TCP socket")
        },
    )?;
    linker.instance(&format!("wasi:sockets/udp-create-socket@{WASI_VERSION}"))?.func_wrap(
        "create-udp-socket",
        |mut store: GuestStore<'_>, _: (IpAddressFamily,)| -> SocketAnswer<UdpSocket> {
            charge(&mut store, 0)?;
            refuse(&store, "a UDP socket")
        },
    )?;
    linker.instance(&format!("wasi:sockets/ip-name-lookup@{WASI_VERSION}"))?.func_wrap(
        "resolve-addresses",
        |mut store: GuestStore<'_>,
         (_, name): (Resource<Network>, WasmStr)|
         -> SocketAnswer<ResolveAddressStream> {
            let name = text(&mut store, &name, MAX_SHOWN_BYTES)?;
            refuse(&store, &format!("the address of {name}"))
        },
    )
}

fn refuse<T: 'static>(store: &GuestStore<'_>, what: &str) -> SocketAnswer<T> {
    store.data().deny(Power::Sockets, what);
    Ok((Err(ErrorCode::AccessDenied),))
}
