//! From a function to a tool.

use crate::attributes::{Attributes, derived};
use crate::description::{self, Description};
use crate::name::{check_id, check_name};
use crate::parameter::{Argument, Parameter};
use proc_macro2::TokenStream;
use quote::quote;
use syn::{ItemFn, Type};

/// The function as it was, and the tool beside it.
pub(crate) fn tool(attributes: Attributes, mut function: ItemFn) -> syn::Result<TokenStream> {
    check(&function)?;
    let parameters = function
        .sig
        .inputs
        .iter_mut()
        .map(Parameter::take)
        .collect::<syn::Result<Vec<_>>>()?;
    let plan = Plan::new(attributes, &function, parameters)?;
    let tool = plan.expand(&function);
    Ok(quote! {
        #function
        #tool
    })
}

fn check(function: &ItemFn) -> syn::Result<()> {
    let signature = &function.sig;
    if !signature.generics.params.is_empty() {
        return Err(syn::Error::new_spanned(
            &signature.generics,
            "a tool is not generic: its schema is made of its parameters' types",
        ));
    }
    if let Some(unsafety) = &signature.unsafety {
        return Err(syn::Error::new_spanned(unsafety, "a tool is not `unsafe`"));
    }
    Ok(())
}

/// All that the expansion needs to know.
struct Plan {
    id: String,
    name: String,
    summary: String,
    attributes: Attributes,
    parameters: Vec<Parameter>,
    /// Of each argument, in the order of the parameters.
    descriptions: Vec<String>,
}

impl Plan {
    fn new(
        attributes: Attributes,
        function: &ItemFn,
        parameters: Vec<Parameter>,
    ) -> syn::Result<Self> {
        check_context_and_whole(function, &parameters)?;
        let (id, name) = names(&attributes, function)?;
        let names: Vec<String> = arguments(&parameters).map(Argument::shown_name).collect();
        let lines = description::lines(&function.attrs);
        let described = Description::read(&lines, |name| names.iter().any(|known| known == name));
        check_described(function, &parameters, &described)?;
        let summary = match &attributes.description {
            Some(description) => description.value(),
            None => described.summary,
        };
        if summary.is_empty() {
            return Err(syn::Error::new(
                function.sig.ident.span(),
                "a model needs to know what the tool does: write a doc comment, or `description = \"...\"`",
            ));
        }
        let find = |argument: &Argument| {
            let name = argument.shown_name();
            let found = described
                .parameters
                .iter()
                .find(|(known, _)| *known == name);
            match found {
                Some((_, text)) if argument.doc.is_empty() => text.clone(),
                _ => argument.doc.clone(),
            }
        };
        let descriptions = arguments(&parameters).map(find).collect();
        Ok(Self {
            id,
            name,
            summary,
            attributes,
            parameters,
            descriptions,
        })
    }

    fn expand(&self, function: &ItemFn) -> TokenStream {
        let ident = &function.sig.ident;
        let visibility = &function.vis;
        let doc = format!("The tool `{}`, for `component!` to list.", self.name);
        let name = &self.name;
        let arguments = self.arguments_struct();
        let descriptor = self.descriptor();
        let state = self.state();
        let validate = self.validate();
        let execute = self.execute(function);
        quote! {
            #[doc = #doc]
            #[allow(non_camel_case_types)]
            #visibility struct #ident {}

            #[allow(clippy::all, clippy::pedantic)]
            const _: () = {
                #arguments

                impl ::tollgate_sdk::Tool for #ident {
                    fn descriptor(&self) -> ::tollgate_sdk::ToolDescriptor {
                        #descriptor
                    }

                    fn answers_to(&self, tool_name: &::core::primitive::str) -> ::core::primitive::bool {
                        tool_name == #name
                    }

                    #state
                    #validate
                    #execute
                }
            };
        }
    }

    /// The struct that the arguments are parsed into, unless it is the author's.
    fn arguments_struct(&self) -> TokenStream {
        if self.whole().is_some() {
            return TokenStream::new();
        }
        let fields = arguments(&self.parameters)
            .zip(&self.descriptions)
            .map(|(argument, text)| {
                let Argument { name, owned, .. } = argument;
                let doc = (!text.is_empty()).then(|| quote!(#[schemars(description = #text)]));
                let default = argument.default.as_ref().map(|_| {
                    let path = format!("__Arguments::{}", default_name(argument));
                    quote!(#[serde(default = #path)])
                });
                quote!(#doc #default #name: #owned)
            });
        let defaults = arguments(&self.parameters).filter_map(|argument| {
            let value = argument.default_value()?;
            let owned = &argument.owned;
            let name = quote::format_ident!("{}", default_name(argument));
            Some(quote!(fn #name() -> #owned { #value }))
        });
        quote! {
            #[derive(::tollgate_sdk::serde::Deserialize, ::tollgate_sdk::schemars::JsonSchema)]
            #[serde(crate = "::tollgate_sdk::serde", deny_unknown_fields)]
            #[schemars(crate = "::tollgate_sdk::schemars")]
            struct __Arguments {
                #(#fields,)*
            }

            impl __Arguments {
                #(#defaults)*
            }
        }
    }

    fn descriptor(&self) -> TokenStream {
        let Self {
            id, name, summary, ..
        } = self;
        let Attributes {
            category,
            timeout_ms,
            max_retries,
            idempotent,
            validate,
            ..
        } = &self.attributes;
        let arguments = self.arguments_type();
        let category = category
            .as_ref()
            .map(|category| quote!(.with_category(#category)));
        let timeout = timeout_ms.map(|ms| {
            let ms = u64::from(ms);
            quote!(.with_timeout(::core::time::Duration::from_millis(#ms)))
        });
        let retries = max_retries.map(|retries| quote!(.with_max_retries(#retries)));
        let idempotent = idempotent.then(|| quote!(.idempotent()));
        let validates = validate.as_ref().map(|_| quote!(.validates()));
        quote! {
            ::tollgate_sdk::ToolDescriptor::new(#id, #name, #summary)
                .with_parameters(::tollgate_sdk::private::arguments_schema::<#arguments>())
                #category #timeout #retries #idempotent #validates
        }
    }

    fn state(&self) -> Option<TokenStream> {
        let state = &self.attributes.state;
        (!state.is_empty()).then(|| {
            quote! {
                fn state(&self) -> ::std::vec::Vec<::tollgate_sdk::StateAccess> {
                    ::std::vec![#(#state),*]
                }
            }
        })
    }

    fn validate(&self) -> Option<TokenStream> {
        let check = self.attributes.validate.as_ref()?;
        let parse = self.parse_arguments();
        let passed = match self.whole() {
            Some(_) => quote!(&args),
            None => {
                let names = arguments(&self.parameters).map(|argument| &argument.name);
                quote!(#(&args.#names),*)
            }
        };
        Some(quote! {
            fn validate_args(
                &self,
                args: ::tollgate_sdk::Arguments<'_>,
            ) -> ::core::result::Result<(), ::tollgate_sdk::ToolError> {
                #parse
                ::tollgate_sdk::private::checked(#check(#passed))
            }
        })
    }

    fn execute(&self, function: &ItemFn) -> TokenStream {
        let ident = &function.sig.ident;
        let parse = self.parse_arguments();
        let passed = self.parameters.iter().map(|parameter| match parameter {
            Parameter::Context => quote!(ctx),
            Parameter::Whole(_) => quote!(args),
            Parameter::Argument(argument) => {
                let name = &argument.name;
                if argument.borrowed {
                    quote!(&args.#name)
                } else {
                    quote!(args.#name)
                }
            }
        });
        let call = quote!(#ident(#(#passed),*));
        let call = match function.sig.asyncness {
            Some(_) => quote!(::tollgate_sdk::block_on(#call)?),
            None => call,
        };
        quote! {
            fn execute(
                &self,
                args: ::tollgate_sdk::Arguments<'_>,
                ctx: &mut ::tollgate_sdk::Context,
            ) -> ::core::result::Result<::tollgate_sdk::ToolOutput, ::tollgate_sdk::ToolError> {
                #[allow(unused_imports)]
                use ::tollgate_sdk::private::ReturnedData as _;
                #parse
                ::tollgate_sdk::private::Returned(#call).into_output()
            }
        }
    }

    fn parse_arguments(&self) -> TokenStream {
        let arguments = self.arguments_type();
        quote!(let args: #arguments = args.parse()?;)
    }

    fn arguments_type(&self) -> TokenStream {
        match self.whole() {
            Some(ty) => quote!(#ty),
            None => quote!(__Arguments),
        }
    }

    fn whole(&self) -> Option<&Type> {
        self.parameters
            .iter()
            .find_map(|parameter| match parameter {
                Parameter::Whole(ty) => Some(&**ty),
                _ => None,
            })
    }
}

fn arguments(parameters: &[Parameter]) -> impl Iterator<Item = &Argument> {
    parameters.iter().filter_map(|parameter| match parameter {
        Parameter::Argument(argument) => Some(&**argument),
        _ => None,
    })
}

fn default_name(argument: &Argument) -> String {
    format!("default_{}", argument.shown_name())
}

fn names(attributes: &Attributes, function: &ItemFn) -> syn::Result<(String, String)> {
    let ident = &function.sig.ident;
    let id = match &attributes.id {
        Some(id) => id.value(),
        None => {
            let (id, span) = derived(ident, true);
            check_id(&id, span)?;
            id
        }
    };
    let name = match &attributes.name {
        Some(name) => name.value(),
        None => {
            let (name, span) = derived(ident, false);
            check_name(&name, span)?;
            name
        }
    };
    Ok((id, name))
}

fn check_context_and_whole(function: &ItemFn, parameters: &[Parameter]) -> syn::Result<()> {
    let contexts = parameters
        .iter()
        .filter(|one| matches!(one, Parameter::Context))
        .count();
    if contexts > 1 {
        return Err(syn::Error::new_spanned(
            &function.sig.inputs,
            "a tool has one context",
        ));
    }
    let wholes = parameters
        .iter()
        .filter(|one| matches!(one, Parameter::Whole(_)))
        .count();
    if wholes > 1 || (wholes == 1 && arguments(parameters).count() > 0) {
        return Err(syn::Error::new_spanned(
            &function.sig.inputs,
            "`#[args]` is all of the arguments: no other parameter stands beside it, save the context",
        ));
    }
    Ok(())
}

/// A description of nothing is most likely a parameter that was renamed.
fn check_described(
    function: &ItemFn,
    parameters: &[Parameter],
    described: &Description,
) -> syn::Result<()> {
    if parameters
        .iter()
        .any(|parameter| matches!(parameter, Parameter::Whole(_)))
    {
        return Ok(());
    }
    let known = |name: &str| arguments(parameters).any(|argument| argument.shown_name() == name);
    match described
        .parameters
        .iter()
        .find(|(name, _)| !known(name) && name != "ctx")
    {
        Some((name, _)) => Err(syn::Error::new(
            function.sig.ident.span(),
            format!("the doc comment describes `{name}`, which is no parameter"),
        )),
        None => Ok(()),
    }
}
