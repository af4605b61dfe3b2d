//! One parameter of a tool's function.

use crate::description;
use crate::function::shown;
use proc_macro2::{TokenStream, TokenTree};
use quote::{ToTokens, quote};
use syn::punctuated::Punctuated;
use syn::{Attribute, Expr, ExprLit, FnArg, Ident, Lit, Meta, Pat, PatType, Token, Type, TypePath};

/// The role of a parameter.
pub(crate) enum Parameter {
    /// The call in progress, with the parameter's name.
    Context(String),
    /// A struct whose fields are the arguments.
    Whole(Box<Type>),
    /// One argument.
    Argument(Box<Argument>),
}

/// One argument.
pub(crate) struct Argument {
    pub(crate) name: Ident,
    /// The type that it is parsed as: `String` for `&str`.
    pub(crate) owned: Type,
    /// Whether it is passed by reference.
    pub(crate) borrowed: bool,
    pub(crate) default: Option<Default>,
    /// `#[schemars(range(...))]` and similar attributes, for the field of the generated
    /// struct.
    pub(crate) schema: Vec<Attribute>,
    /// The parameter's own doc comment.
    pub(crate) doc: String,
}

/// The default of an argument.
pub(crate) enum Default {
    /// `#[default]`: the type's default.
    OfType,
    /// `#[default = 5]`.
    Value(Box<Expr>),
}

impl Parameter {
    /// Parses a parameter and removes the macro's attributes from it.
    pub(crate) fn take(input: &mut FnArg) -> syn::Result<Self> {
        let parameter = match input {
            FnArg::Receiver(receiver) => {
                return Err(syn::Error::new_spanned(receiver, "a tool is a free function: it has no `self`"));
            }
            FnArg::Typed(parameter) => parameter,
        };
        let own = OwnAttributes::take(&mut parameter.attrs)?;
        let is_context = is_context(&parameter.ty);
        if let Some(schema) = own.schema.first().filter(|_| is_context || own.whole) {
            return Err(syn::Error::new_spanned(
                schema,
                "`#[schemars]` is for one argument; the fields of `#[args]` have it where they are declared",
            ));
        }
        if is_context {
            return Ok(Self::Context(pattern_name(&parameter.pat)));
        }
        if own.whole {
            return Ok(Self::Whole(parameter.ty.clone()));
        }
        Argument::new(parameter, own).map(Box::new).map(Self::Argument)
    }

    /// Returns the argument that the model provides, if it is one.
    pub(crate) fn argument(&self) -> Option<&Argument> {
        match self {
            Self::Argument(argument) => Some(argument),
            _ => None,
        }
    }

    /// Returns the name that doc comments use for it.
    pub(crate) fn shown_name(&self) -> Option<String> {
        match self {
            Self::Context(name) => Some(name.clone()),
            Self::Whole(_) => None,
            Self::Argument(argument) => Some(argument.shown_name()),
        }
    }
}

/// The macro's own attributes on a parameter.
struct OwnAttributes {
    whole: bool,
    default: Option<Default>,
    schema: Vec<Attribute>,
    doc: String,
}

impl OwnAttributes {
    fn take(attributes: &mut Vec<Attribute>) -> syn::Result<Self> {
        let lines = description::lines(attributes);
        let doc = lines.iter().map(|line| line.trim()).filter(|line| !line.is_empty());
        let doc = doc.collect::<Vec<_>>().join(" ");
        let mut own = Self { whole: false, default: None, schema: Vec::new(), doc };
        for attribute in attributes.iter() {
            if attribute.path().is_ident("args") {
                attribute.meta.require_path_only()?;
                own.whole = true;
            }
            if attribute.path().is_ident("default") {
                own.default = Some(default(&attribute.meta)?);
            }
            if attribute.path().is_ident("schemars") {
                check_bounds(attribute)?;
                own.schema.push(attribute.clone());
            }
        }
        attributes.retain(|attribute| {
            !["args", "default", "doc", "schemars"].iter().any(|name| attribute.path().is_ident(name))
        });
        Ok(own)
    }
}

fn default(meta: &Meta) -> syn::Result<Default> {
    match meta {
        Meta::Path(_) => Ok(Default::OfType),
        Meta::NameValue(pair) => Ok(Default::Value(Box::new(pair.value.clone()))),
        Meta::List(list) => Err(syn::Error::new_spanned(
            list,
            "a default is `#[default = 5]`, or `#[default]` for what the type says",
        )),
    }
}

impl Argument {
    fn new(parameter: &PatType, own: OwnAttributes) -> syn::Result<Self> {
        let Pat::Ident(pattern) = &*parameter.pat else {
            return Err(syn::Error::new_spanned(
                &parameter.pat,
                "a tool's parameter is a plain name: the model calls it by that name",
            ));
        };
        let (owned, borrowed) = owned(&parameter.ty)?;
        let name = pattern.ident.clone();
        Ok(Self { name, owned, borrowed, default: own.default, schema: own.schema, doc: own.doc })
    }

    /// Returns the name that the model sees.
    pub(crate) fn shown_name(&self) -> String {
        shown(&self.name)
    }

    /// Returns an expression of the default value, of the argument's type.
    pub(crate) fn default_value(&self) -> Option<TokenStream> {
        let value = match self.default.as_ref()? {
            Default::OfType => return Some(quote!(::core::default::Default::default())),
            Default::Value(value) => value,
        };
        Some(match option_inner(&self.owned) {
            Some(inner) if matches!(**value, Expr::Lit(_) | Expr::Unary(_)) => {
                let value = literal(value, inner);
                quote!(::core::option::Option::Some(#value))
            }
            _ => literal(value, &self.owned),
        })
    }
}

fn pattern_name(pattern: &Pat) -> String {
    match pattern {
        Pat::Ident(pattern) => shown(&pattern.ident),
        _ => String::new(),
    }
}

/// Converts a literal to the target type: a text to a `String`, `5` to a float.
fn literal(value: &Expr, target: &Type) -> TokenStream {
    let unsigned = match value {
        Expr::Unary(negated) if matches!(negated.op, syn::UnOp::Neg(_)) => &negated.expr,
        _ => value,
    };
    match unsigned {
        Expr::Lit(ExprLit { lit: Lit::Str(_), .. }) => {
            quote!(<#target as ::core::convert::From<&::core::primitive::str>>::from(#value))
        }
        Expr::Lit(ExprLit { lit: Lit::Int(_), .. }) if is_named(target, &["f32", "f64"]) => {
            quote!(#value as #target)
        }
        _ => quote!(#value),
    }
}

/// Returns whether a type is `&Context` or `&mut Context`.
fn is_context(ty: &Type) -> bool {
    match ty {
        Type::Reference(reference) => is_named(&reference.elem, &["Context"]),
        _ => false,
    }
}

/// Returns the type that a parameter is parsed as, and whether it is borrowed.
fn owned(ty: &Type) -> syn::Result<(Type, bool)> {
    match ty {
        Type::Reference(reference) if reference.mutability.is_none() => match &*reference.elem {
            elem if is_named(elem, &["str"]) => Ok((syn::parse_quote!(::std::string::String), true)),
            Type::Slice(slice) => {
                let elem = &slice.elem;
                Ok((syn::parse_quote!(::std::vec::Vec<#elem>), true))
            }
            elem => Ok((elem.clone(), true)),
        },
        Type::Reference(_) => {
            Err(syn::Error::new_spanned(ty, "arguments are values: only the context is `&mut`"))
        }
        Type::ImplTrait(_) => Err(syn::Error::new_spanned(
            ty,
            "a tool's parameter has a type of its own: its schema is made of it",
        )),
        _ if has_reference(ty) => Err(syn::Error::new_spanned(
            ty,
            "an argument owns what is in it: `Option<String>`, not `Option<&str>`",
        )),
        _ if is_named(ty, &["Context"]) => {
            Err(syn::Error::new_spanned(ty, "the context comes by reference: `&Context`"))
        }
        _ => Ok((ty.clone(), false)),
    }
}

fn has_reference(ty: &Type) -> bool {
    fn within(tokens: TokenStream) -> bool {
        tokens.into_iter().any(|token| match token {
            TokenTree::Group(group) => within(group.stream()),
            TokenTree::Punct(punct) => punct.as_char() == '&',
            _ => false,
        })
    }
    within(ty.to_token_stream())
}

fn is_named(ty: &Type, names: &[&str]) -> bool {
    let Type::Path(TypePath { qself: None, path }) = ty else {
        return false;
    };
    path.segments
        .last()
        .is_some_and(|last| last.arguments.is_none() && names.iter().any(|name| last.ident == name))
}

fn option_inner(ty: &Type) -> Option<&Type> {
    let Type::Path(TypePath { qself: None, path }) = ty else {
        return None;
    };
    let last = path.segments.last().filter(|last| last.ident == "Option")?;
    let syn::PathArguments::AngleBracketed(arguments) = &last.arguments else {
        return None;
    };
    match arguments.args.first() {
        Some(syn::GenericArgument::Type(inner)) => Some(inner),
        _ => None,
    }
}

/// The options of `#[schemars(...)]` that bound values or show an example.
const ACCEPTED: [&str; 14] = [
    "range", "length", "regex", "pattern", "contains", "inner", "required", "email", "url", "ip", "ipv4",
    "ipv6", "extend", "example",
];

/// Rejects options of `#[schemars(...)]` that are not bounds, with their spans. Calls are read by serde,
/// which ignores this attribute. Options that would show the model another name, default or shape than
/// serde reads are rejected.
///
/// # Errors
/// Returns an error for any other option.
fn check_bounds(attribute: &Attribute) -> syn::Result<()> {
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
