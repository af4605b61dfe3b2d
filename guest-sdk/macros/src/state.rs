//! A tool's use of a key: `ITEMS`, `read(CITY)`, `write(LOG)`.

use proc_macro2::TokenStream;
use quote::{ToTokens, quote};
use syn::parse::{Parse, ParseStream};
use syn::{Path, Token};

/// A key and how it is used.
pub(crate) struct KeyUse {
    key: Path,
    access: Access,
}

#[derive(Clone, Copy)]
enum Access {
    Unstated,
    Read,
    Write,
}

impl Parse for KeyUse {
    fn parse(input: ParseStream<'_>) -> syn::Result<Self> {
        let key: Path = input.parse()?;
        if !input.peek(syn::token::Paren) {
            return Ok(Self { key, access: Access::Unstated });
        }
        let access = if key.is_ident("read") {
            Access::Read
        } else if key.is_ident("write") {
            Access::Write
        } else {
            return Err(syn::Error::new_spanned(key, "a key is used as `KEY`, `read(KEY)` or `write(KEY)`"));
        };
        let inner;
        syn::parenthesized!(inner in input);
        let key = inner.parse()?;
        inner.parse::<Option<Token![,]>>()?;
        if !inner.is_empty() {
            return Err(inner.error("one key in each `read(...)` and `write(...)`"));
        }
        Ok(Self { key, access })
    }
}

impl ToTokens for KeyUse {
    fn to_tokens(&self, tokens: &mut TokenStream) {
        let key = &self.key;
        let call = match self.access {
            Access::Unstated => quote!(::tollgate_sdk::Key::used(&#key)),
            Access::Read => quote!(::tollgate_sdk::Key::read(&#key)),
            Access::Write => quote!(::tollgate_sdk::Key::write(&#key)),
        };
        tokens.extend(call);
    }
}
