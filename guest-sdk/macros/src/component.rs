//! `component! { id: "notes", tools: [add, list] }`.

use crate::name::check_id;
use crate::state::KeyUse;
use proc_macro2::{Span, TokenStream};
use quote::{ToTokens, quote, quote_spanned};
use syn::parse::{Parse, ParseStream};
use syn::punctuated::Punctuated;
use syn::spanned::Spanned;
use syn::{Expr, Ident, LitStr, Path, Token};

/// The fields of `component!`.
pub(crate) struct Component {
    id: LitStr,
    version: Option<Expr>,
    tools: Vec<Path>,
    state: Vec<KeyUse>,
}

impl Parse for Component {
    fn parse(input: ParseStream<'_>) -> syn::Result<Self> {
        let mut fields = Fields::default();
        while !input.is_empty() {
            let field: Ident = input.parse()?;
            input.parse::<Token![:]>()?;
            fields.parse_one(&field, input)?;
            if !input.is_empty() {
                input.parse::<Token![,]>()?;
            }
        }
        let missing = |what| syn::Error::new(Span::call_site(), what);
        let tools = fields.tools.ok_or_else(|| missing("a component needs `tools: [...]`"))?;
        Ok(Self {
            id: fields.id.ok_or_else(|| missing("a component needs `id: \"...\"`"))?,
            version: fields.version,
            tools,
            state: fields.state.unwrap_or_default(),
        })
    }
}

#[derive(Default)]
struct Fields {
    id: Option<LitStr>,
    version: Option<Expr>,
    tools: Option<Vec<Path>>,
    state: Option<Vec<KeyUse>>,
}

impl Fields {
    fn parse_one(&mut self, field: &Ident, input: ParseStream<'_>) -> syn::Result<()> {
        let twice = match field.to_string().as_str() {
            "id" => {
                let id: LitStr = input.parse()?;
                check_id(&id.value(), id.span())?;
                self.id.replace(id).is_some()
            }
            "version" => self.version.replace(input.parse()?).is_some(),
            "tools" => self.tools.replace(tools(input)?).is_some(),
            "state" => self.state.replace(list(input)?.into_iter().collect()).is_some(),
            _ => {
                return Err(syn::Error::new(
                    field.span(),
                    format!("a component has no `{field}`; it has `id`, `version`, `tools`, `state`"),
                ));
            }
        };
        if twice {
            return Err(syn::Error::new(field.span(), format!("`{field}` is given twice")));
        }
        Ok(())
    }
}

fn list<T: Parse>(input: ParseStream<'_>) -> syn::Result<Punctuated<T, Token![,]>> {
    let inner;
    syn::bracketed!(inner in input);
    Punctuated::parse_terminated(&inner)
}

fn tools(input: ParseStream<'_>) -> syn::Result<Vec<Path>> {
    let span = input.span();
    let tools = list::<Path>(input)?;
    if tools.is_empty() || tools.len() > 64 {
        return Err(syn::Error::new(span, "a component has 1 to 64 tools"));
    }
    let mut seen: Vec<String> = Vec::new();
    for tool in &tools {
        let text = tool.to_token_stream().to_string();
        if seen.contains(&text) {
            return Err(syn::Error::new_spanned(tool, "this tool is listed twice"));
        }
        seen.push(text);
    }
    Ok(tools.into_iter().collect())
}

impl Component {
    /// Generates the component's type and its exports on wasm.
    pub(crate) fn expand(&self) -> TokenStream {
        let Self { id, tools, state, .. } = self;
        let version = match &self.version {
            Some(version) => version.to_token_stream(),
            None => quote!(::core::env!("CARGO_PKG_VERSION")),
        };
        let tools = tools.iter().map(|tool| quote_spanned!(tool.span()=> &#tool {}));
        quote! {
            /// The component of this crate.
            pub struct Exported;

            impl ::tollgate_sdk::Component for Exported {
                const ID: &'static str = #id;
                const VERSION: &'static str = #version;

                fn tools() -> &'static [&'static dyn ::tollgate_sdk::Tool] {
                    &[#(#tools),*]
                }

                fn state() -> ::std::vec::Vec<::tollgate_sdk::StateAccess> {
                    ::std::vec::Vec::from([#(#state),*])
                }
            }

            ::tollgate_sdk::export!(Exported);
        }
    }
}
