//! The code that `#[tool]` generates beside a function.

use crate::attributes::Attributes;
use crate::function::Function;
use crate::parameter::{Argument, Parameter};
use proc_macro2::{Span, TokenStream};
use quote::{format_ident, quote, quote_spanned};
use syn::spanned::Spanned;
use syn::{Ident, ItemFn, ReturnType};

/// Returns the unchanged function followed by the tool.
pub(crate) fn tool(attributes: Attributes, item: ItemFn) -> syn::Result<TokenStream> {
    let function = Function::read(&attributes, item)?;
    let tool = Expansion { attributes, function };
    Ok(tool.write())
}

struct Expansion {
    attributes: Attributes,
    function: Function,
}

impl Expansion {
    fn write(&self) -> TokenStream {
        let item = &self.function.item;
        let conditions: Vec<_> =
            item.attrs.iter().filter(|attribute| attribute.path().is_ident("cfg")).collect();
        let (visibility, ident) = (&item.vis, &item.sig.ident);
        let doc = format!("The tool `{}`, for `component!` to list.", self.function.name);
        let types = self.types();
        let arguments = self.arguments_struct();
        let implementation = self.implementation();
        quote! {
            #item

            #(#conditions)*
            #[doc = #doc]
            #[allow(non_camel_case_types)]
            #visibility struct #ident {}

            #(#conditions)*
            #[allow(clippy::all, clippy::pedantic)]
            const _: () = {
                #types
                #arguments
                #implementation
            };
        }
    }

    /// Generates checks of each type's traits, so that the compiler reports a missing
    /// one first and at the type itself.
    fn types(&self) -> TokenStream {
        let whole = self.function.whole().into_iter();
        let types = self.function.arguments().map(|argument| &argument.owned).chain(whole);
        let checks = types.map(|ty| quote_spanned!(ty.span()=> ::tollgate_sdk::private::argument::<#ty>();));
        quote! {
            const _: fn() = || {
                #(#checks)*
            };
        }
    }

    /// Generates the struct that the arguments are parsed into, unless the author
    /// provides one.
    fn arguments_struct(&self) -> Option<TokenStream> {
        if self.function.whole().is_some() {
            return None;
        }
        let fields = self.function.arguments().map(field);
        let defaults = self.function.arguments().filter_map(default_function);
        Some(quote! {
            #[derive(::tollgate_sdk::serde::Deserialize, ::tollgate_sdk::schemars::JsonSchema)]
            #[serde(crate = "::tollgate_sdk::serde", deny_unknown_fields)]
            #[schemars(crate = "::tollgate_sdk::schemars")]
            struct __Arguments {
                #(#fields,)*
            }

            #(#defaults)*
        })
    }

    fn implementation(&self) -> TokenStream {
        let ident = &self.function.item.sig.ident;
        let name = &self.function.name;
        let descriptor = self.descriptor();
        let state = self.state();
        let validate = self.validate();
        let execute = self.execute();
        quote! {
            impl ::tollgate_sdk::Tool for #ident {
                fn descriptor(&self) -> ::tollgate_sdk::ToolDescriptor {
                    #descriptor
                }

                fn answers_to(
                    &self,
                    tool_name: &::core::primitive::str,
                ) -> ::core::primitive::bool {
                    tool_name == #name
                }

                #state
                #validate
                #execute
            }
        }
    }

    fn descriptor(&self) -> TokenStream {
        let Function { id, name, summary, .. } = &self.function;
        let Attributes { category, timeout_ms, max_retries, idempotent, validate, .. } = &self.attributes;
        let arguments = self.arguments_type();
        let category = category.as_ref().map(|category| quote!(.with_category(#category)));
        let timeout = timeout_ms.map(|ms| {
            let ms = u64::from(ms);
            quote!(.with_timeout(::core::time::Duration::from_millis(#ms)))
        });
        let retries = max_retries.map(|retries| quote!(.with_max_retries(#retries)));
        let idempotent = idempotent.then(|| quote!(.idempotent()));
        let validates = validate.as_ref().map(|_| quote!(.validates()));
        quote! {
            ::tollgate_sdk::ToolDescriptor::new(#id, #name, #summary)
                .with_parameters(::tollgate_sdk::arguments_schema::<#arguments>())
                #category #timeout #retries #idempotent #validates
        }
    }

    fn state(&self) -> Option<TokenStream> {
        let state = &self.attributes.state;
        if state.is_empty() {
            return None;
        }
        Some(quote! {
            fn state(&self) -> ::std::vec::Vec<::tollgate_sdk::StateAccess> {
                ::std::vec::Vec::from([#(#state),*])
            }
        })
    }

    fn validate(&self) -> TokenStream {
        let Some(check) = &self.attributes.validate else {
            return quote! {
                fn validates(&self) -> ::core::primitive::bool {
                    false
                }
            };
        };
        let args = args();
        let parse = self.parse_arguments();
        let passed = match self.function.whole() {
            Some(_) => quote!(&#args),
            None => {
                let names = self.function.arguments().map(|argument| &argument.name);
                quote!(#(&#args.#names),*)
            }
        };
        quote! {
            fn validate_args(
                &self,
                #args: ::tollgate_sdk::Arguments<'_>,
            ) -> ::core::result::Result<(), ::tollgate_sdk::ToolError> {
                #parse
                ::tollgate_sdk::private::checked(#check(#passed))
            }
        }
    }

    fn execute(&self) -> TokenStream {
        let signature = &self.function.item.sig;
        let ident = &signature.ident;
        let (args, ctx) = (args(), ctx());
        let parse = self.parse_arguments();
        let passed = self.function.parameters.iter().map(passed);
        let call = quote!(#ident(#(#passed),*));
        let call = match signature.asyncness {
            Some(_) => quote!(::tollgate_sdk::block_on(#call)?),
            None => call,
        };
        let span = match &signature.output {
            ReturnType::Default => Span::call_site(),
            ReturnType::Type(_, ty) => ty.span(),
        };
        let output = quote_spanned! {span=>
            ::tollgate_sdk::private::ReturnedValue(#call).into_output()
        };
        quote! {
            fn execute(
                &self,
                #args: ::tollgate_sdk::Arguments<'_>,
                #ctx: &mut ::tollgate_sdk::Context,
            ) -> ::core::result::Result<::tollgate_sdk::ToolOutput, ::tollgate_sdk::ToolError> {
                #[allow(unused_imports)]
                use ::tollgate_sdk::private::ReturnedData as _;
                #parse
                #output
            }
        }
    }

    fn parse_arguments(&self) -> TokenStream {
        let arguments = self.arguments_type();
        let args = args();
        quote!(let #args: #arguments = #args.parse()?;)
    }

    fn arguments_type(&self) -> TokenStream {
        match self.function.whole() {
            Some(ty) => quote!(#ty),
            None => quote!(__Arguments),
        }
    }
}

fn field(argument: &Argument) -> TokenStream {
    let Argument { name, owned, schema, doc, .. } = argument;
    let doc = (!doc.is_empty()).then(|| quote!(#[schemars(description = #doc)]));
    let default = argument.default.as_ref().map(|_| {
        let function = default_name(argument).to_string();
        quote!(#[serde(default = #function)])
    });
    quote!(#doc #(#schema)* #default #name: #owned)
}

fn default_function(argument: &Argument) -> Option<TokenStream> {
    let value = argument.default_value()?;
    let name = default_name(argument);
    let owned = &argument.owned;
    Some(quote! {
        fn #name() -> #owned {
            #value
        }
    })
}

fn default_name(argument: &Argument) -> syn::Ident {
    format_ident!("__default_{}", argument.shown_name())
}

/// Returns the expression that is passed to the function for a parameter.
fn passed(parameter: &Parameter) -> TokenStream {
    let (args, ctx) = (args(), ctx());
    match parameter {
        Parameter::Context(_) => quote!(#ctx),
        Parameter::Whole(_) => quote!(#args),
        Parameter::Argument(argument) => {
            let name = &argument.name;
            match argument.borrowed {
                true => quote!(&#args.#name),
                false => quote!(#args.#name),
            }
        }
    }
}

/// Returns the name of the arguments; hygiene hides it from the author's own `args`.
fn args() -> Ident {
    Ident::new("args", Span::mixed_site())
}

/// Returns the name of the context; hygiene hides it from the author's own `ctx`.
fn ctx() -> Ident {
    Ident::new("ctx", Span::mixed_site())
}

#[cfg(test)]
#[path = "expand_tests.rs"]
mod tests;
