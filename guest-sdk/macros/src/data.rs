//! `#[data]`: three derives that find their crates through the SDK.

use proc_macro2::TokenStream;
use quote::quote;

/// Adds the derives to the item.
pub(crate) fn expand(attributes: TokenStream, item: TokenStream) -> TokenStream {
    if !attributes.is_empty() {
        return syn::Error::new_spanned(attributes, "`#[data]` takes nothing in parentheses")
            .into_compile_error();
    }
    quote! {
        #[derive(
            ::tollgate_sdk::serde::Serialize,
            ::tollgate_sdk::serde::Deserialize,
            ::tollgate_sdk::schemars::JsonSchema,
        )]
        #[serde(crate = "::tollgate_sdk::serde")]
        #[schemars(crate = "::tollgate_sdk::schemars")]
        #item
    }
}
