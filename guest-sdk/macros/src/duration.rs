//! Durations: `"5s"`, `"500ms"`, `"2m"`, or a number of milliseconds.

use syn::{Expr, ExprLit, Lit};

/// Returns the value of an expression in milliseconds.
pub(crate) fn milliseconds(value: &Expr) -> syn::Result<u32> {
    let milliseconds = match value {
        Expr::Lit(ExprLit { lit: Lit::Int(number), .. }) => number.base10_parse::<u32>()?,
        Expr::Lit(ExprLit { lit: Lit::Str(text), .. }) => parse(&text.value()).ok_or_else(|| wrong(value))?,
        _ => return Err(wrong(value)),
    };
    if milliseconds == 0 {
        return Err(syn::Error::new_spanned(
            value,
            "a timeout of zero sets none: leave `timeout` out, or give it a length",
        ));
    }
    Ok(milliseconds)
}

fn parse(text: &str) -> Option<u32> {
    let digits = text.bytes().take_while(u8::is_ascii_digit).count();
    let (number, unit) = text.split_at(digits);
    let factor = match unit.trim_start() {
        "ms" => 1,
        "s" => 1_000,
        "m" => 60_000,
        _ => return None,
    };
    number.parse::<u32>().ok()?.checked_mul(factor)
}

fn wrong(value: &Expr) -> syn::Error {
    syn::Error::new_spanned(value, "`timeout` is \"5s\", \"500ms\", \"2m\", or a number of milliseconds")
}
