//! Settings given by an operator, read through `wasi:config`.

/// Returns the setting with this name. Natively, where tests run, there are none.
#[cfg(not(target_family = "wasm"))]
pub(crate) fn get(_name: &str) -> Option<String> {
    None
}

#[cfg(target_family = "wasm")]
pub(crate) fn get(name: &str) -> Option<String> {
    bindings::wasi::config::store::get(name).ok().flatten()
}

#[cfg(target_family = "wasm")]
#[allow(unsafe_code, missing_docs, unreachable_pub, clippy::all)]
mod bindings {
    wit_bindgen::generate!({
        inline: "
            package tollgate:weather;
            world settings { import wasi:config/store@0.2.0-rc.1; }
            package wasi:config@0.2.0-rc.1 {
                interface store {
                    variant error { upstream(string), io(string) }
                    get: func(key: string) -> result<option<string>, error>;
                }
            }
        ",
        generate_all,
    });
}
