//! Parses the arguments of `#[tool(...)]`.

use crate::duration;
use crate::name::{check_name, check_tool_id};
use crate::state::KeyUse;
use syn::parse::{Parse, ParseStream};
use syn::punctuated::Punctuated;
use syn::{Expr, Ident, LitBool, LitInt, LitStr, Path, Token};

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
                self.timeout_ms = Some(duration::milliseconds(&value::<Expr>(attribute, input)?)?);
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
