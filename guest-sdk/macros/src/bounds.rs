//! Checks `#[schemars(...)]` on a parameter: it may only bound the accepted values.
//!
//! Calls are read by serde, which ignores this attribute. Options that would show the
//! model another name, default or shape than serde reads are rejected.

use quote::ToTokens;
use syn::punctuated::Punctuated;
use syn::{Attribute, Meta, Token};

/// The options that bound values or show an example.
const ACCEPTED: [&str; 14] = [
    "range", "length", "regex", "pattern", "contains", "inner", "required", "email", "url", "ip", "ipv4",
    "ipv6", "extend", "example",
];

/// Rejects options that are not bounds, with their spans.
///
/// # Errors
/// Returns an error for any other option.
pub(crate) fn check(attribute: &Attribute) -> syn::Result<()> {
    let list = attribute.meta.require_list()?;
    for meta in list.parse_args_with(Punctuated::<Meta, Token![,]>::parse_terminated)? {
        let name = meta.path().to_token_stream().to_string().replace(' ', "");
        if !ACCEPTED.contains(&name.as_str()) {
            return Err(syn::Error::new_spanned(&meta, refusal(&name)));
        }
    }
    Ok(())
}

fn refusal(name: &str) -> String {
    let why = match name {
        "rename" => {
            "the model would use a name by which no argument is read; name the parameter so, or take a struct with `#[args]` whose field has `#[serde(rename = ...)]`"
        }
        "default" => {
            "a call without the argument would be refused all the same; write `#[default = 5]`, or `#[default]` for what the type says"
        }
        "description" => "its doc comment describes it; write `/// ...` above it",
        _ => {
            "there it has bounds only, such as `range`, `length`, `regex`, `inner` and `extend`; for the rest take a struct with `#[args]`, and write it at the field"
        }
    };
    format!("`#[schemars({name})]` is not for a parameter: {why}")
}
