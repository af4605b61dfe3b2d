//! Parses the arguments of `#[tool(...)]`.

use crate::name::{check_name, check_tool_id};
use crate::state::KeyUse;
use syn::parse::{Parse, ParseStream};
use syn::punctuated::Punctuated;
use syn::{Expr, ExprLit, Ident, Lit, LitBool, LitInt, LitStr, Path, Token};

const KNOWN: &[&str] =
    &["id", "name", "description", "category", "timeout", "max_retries", "idempotent", "validate", "state"];

/// The attributes of one tool.
#[derive(Default)]
pub(crate) struct Attributes {
    pub(crate) id: Option<LitStr>,
    pub(crate) name: Option<LitStr>,
    pub(crate) description: Option<LitStr>,
    pub(crate) category: Option<LitStr>,
    pub(crate) timeout_ms: Option<u32>,
    pub(crate) max_retries: Option<u32>,
    pub(crate) idempotent: bool,
    pub(crate) validate: Option<Path>,
    pub(crate) state: Vec<KeyUse>,
}

impl Parse for Attributes {
    fn parse(input: ParseStream<'_>) -> syn::Result<Self> {
        let mut attributes = Self::default();
        let mut seen: Vec<Ident> = Vec::new();
        while !input.is_empty() {
            let attribute: Ident = input.parse()?;
            if seen.contains(&attribute) {
                return Err(syn::Error::new(attribute.span(), format!("`{attribute}` is given twice")));
            }
            attributes.parse_one(&attribute, input)?;
            seen.push(attribute);
            if !input.is_empty() {
                input.parse::<Token![,]>()?;
            }
        }
        Ok(attributes)
    }
}

impl Attributes {
    fn parse_one(&mut self, attribute: &Ident, input: ParseStream<'_>) -> syn::Result<()> {
        match attribute.to_string().as_str() {
            "id" => {
                let id = text(attribute, input)?;
                check_tool_id(&id.value(), id.span())?;
                self.id = Some(id);
            }
            "name" => {
                let name = text(attribute, input)?;
                check_name(&name.value(), name.span())?;
                self.name = Some(name);
            }
            "description" => self.description = Some(text(attribute, input)?),
            "category" => self.category = Some(text(attribute, input)?),
            "timeout" => {
                self.timeout_ms = Some(milliseconds(&value::<Expr>(attribute, input)?)?);
            }
            "max_retries" => self.max_retries = Some(retries(&value(attribute, input)?)?),
            "idempotent" => self.idempotent = flag(input)?,
            "validate" => self.validate = Some(value(attribute, input)?),
            "state" => self.state = keys(attribute, input)?,
            _ => return Err(unknown(attribute)),
        }
        Ok(())
    }
}

fn unknown(attribute: &Ident) -> syn::Error {
    let known = KNOWN.iter().map(|name| format!("`{name}`")).collect::<Vec<_>>().join(", ");
    syn::Error::new(attribute.span(), format!("`#[tool]` has no attribute `{attribute}`; it has {known}"))
}

fn value<T: Parse>(attribute: &Ident, input: ParseStream<'_>) -> syn::Result<T> {
    if !input.peek(Token![=]) {
        return Err(syn::Error::new(
            attribute.span(),
            format!("`{attribute}` needs a value: `{attribute} = ...`"),
        ));
    }
    input.parse::<Token![=]>()?;
    input.parse()
}

fn text(attribute: &Ident, input: ParseStream<'_>) -> syn::Result<LitStr> {
    let expression: Expr = value(attribute, input)?;
    match &expression {
        Expr::Lit(syn::ExprLit { lit: syn::Lit::Str(text), .. }) => Ok(text.clone()),
        _ => Err(syn::Error::new_spanned(
            &expression,
            format!("`{attribute}` needs a string: `{attribute} = \"...\"`"),
        )),
    }
}

fn retries(value: &LitInt) -> syn::Result<u32> {
    match value.base10_parse::<u32>()? {
        retries @ 0..=10 => Ok(retries),
        _ => Err(syn::Error::new(value.span(), "`max_retries` is at most 10")),
    }
}

/// Parses `idempotent` or `idempotent = true`.
fn flag(input: ParseStream<'_>) -> syn::Result<bool> {
    if input.parse::<Option<Token![=]>>()?.is_none() {
        return Ok(true);
    }
    Ok(input.parse::<LitBool>()?.value)
}

fn keys(attribute: &Ident, input: ParseStream<'_>) -> syn::Result<Vec<KeyUse>> {
    if !input.peek(syn::token::Paren) {
        return Err(syn::Error::new(
            attribute.span(),
            "`state` lists the keys: `state(ITEMS, read(CITY), write(LOG))`",
        ));
    }
    let inner;
    syn::parenthesized!(inner in input);
    let keys = Punctuated::<KeyUse, Token![,]>::parse_terminated(&inner)?;
    Ok(keys.into_iter().collect())
}

/// Returns a duration in milliseconds: `"5s"`, `"500ms"`, `"2m"`, or a number of milliseconds.
fn milliseconds(value: &Expr) -> syn::Result<u32> {
    let milliseconds = match value {
        Expr::Lit(ExprLit { lit: Lit::Int(number), .. }) => number.base10_parse::<u32>()?,
        Expr::Lit(ExprLit { lit: Lit::Str(text), .. }) => {
            duration(&text.value()).ok_or_else(|| no_duration(value))?
        }
        _ => return Err(no_duration(value)),
    };
    if milliseconds == 0 {
        return Err(syn::Error::new_spanned(
            value,
            "a timeout of zero sets none: leave `timeout` out, or give it a length",
        ));
    }
    Ok(milliseconds)
}

fn duration(text: &str) -> Option<u32> {
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

fn no_duration(value: &Expr) -> syn::Error {
    syn::Error::new_spanned(value, "`timeout` is \"5s\", \"500ms\", \"2m\", or a number of milliseconds")
}
