//! The patterns that the contract requires of ids and names.

use proc_macro2::Span;

/// Checks that a component's id is `[a-z][a-z0-9-]{0,63}` and not reserved for the host.
pub(crate) fn check_id(id: &str, span: Span) -> syn::Result<()> {
    check(id, span, |byte| byte == b'-', "`-`")
}

/// Checks that a tool's id is `[a-z][a-z0-9_-]{0,63}` and not reserved for the host.
pub(crate) fn check_tool_id(id: &str, span: Span) -> syn::Result<()> {
    check(id, span, |byte| byte == b'-' || byte == b'_', "`-` and `_`")
}

fn check(id: &str, span: Span, joins: impl Fn(u8) -> bool, shown: &str) -> syn::Result<()> {
    let mut bytes = id.bytes();
    let fits = bytes.next().is_some_and(|first| first.is_ascii_lowercase())
        && bytes.all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || joins(byte))
        && id.len() <= 64;
    if !fits {
        return Err(syn::Error::new(
            span,
            format!(
                "`{id}` is no id: an id is a lower-case letter, then up to 63 lower-case \
                 letters, digits and {shown}"
            ),
        ));
    }
    if matches!(id, "host" | "tollgate") {
        return Err(syn::Error::new(span, format!("the id `{id}` is reserved for the host")));
    }
    Ok(())
}

/// Checks that a name is `[a-zA-Z0-9_-]{1,64}` and not reserved for the host.
pub(crate) fn check_name(name: &str, span: Span) -> syn::Result<()> {
    let fits = (1..=64).contains(&name.len())
        && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'-');
    if !fits {
        return Err(syn::Error::new(
            span,
            format!("`{name}` is not a valid tool name: a name is 1 to 64 letters, digits, `_` and `-`"),
        ));
    }
    if matches!(name, "transfer_to_agent" | "search_history") || name.starts_with("tollgate_") {
        return Err(syn::Error::new(span, format!("the name `{name}` is reserved for the host")));
    }
    Ok(())
}
