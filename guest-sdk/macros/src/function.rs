//! The parsed function of a tool: its name, description and parameters.

use crate::attributes::Attributes;
use crate::description::{self, Description};
use crate::name::{check_name, check_tool_id};
use crate::parameter::{Argument, Parameter};
use syn::{Error, ItemFn, Type};

/// A function that can be a tool.
pub(crate) struct Function {
    pub(crate) item: ItemFn,
    pub(crate) id: String,
    pub(crate) name: String,
    /// The tool's purpose, for the model.
    pub(crate) summary: String,
    pub(crate) parameters: Vec<Parameter>,
}

impl Function {
    /// Parses a function and removes the macro's attributes from its parameters.
    pub(crate) fn read(attributes: &Attributes, mut item: ItemFn) -> syn::Result<Self> {
        check_signature(&item)?;
        let mut parameters =
            item.sig.inputs.iter_mut().map(Parameter::take).collect::<syn::Result<Vec<_>>>()?;
        check_parameters(&item, &parameters)?;
        let described = describe(&item, &mut parameters)?;
        Ok(Self {
            id: id(attributes, &item)?,
            name: name(attributes, &item)?,
            summary: summary(attributes, &item, described)?,
            parameters,
            item,
        })
    }

    /// Returns the parameters that the model provides, in order.
    pub(crate) fn arguments(&self) -> impl Iterator<Item = &Argument> {
        self.parameters.iter().filter_map(Parameter::argument)
    }

    /// Returns the author's own struct of arguments.
    pub(crate) fn whole(&self) -> Option<&Type> {
        self.parameters.iter().find_map(|parameter| match parameter {
            Parameter::Whole(ty) => Some(&**ty),
            _ => None,
        })
    }
}

fn check_signature(item: &ItemFn) -> syn::Result<()> {
    let signature = &item.sig;
    if !signature.generics.params.is_empty() {
        return Err(Error::new_spanned(
            &signature.generics,
            "a tool is not generic: its schema is made of its parameters' types",
        ));
    }
    match &signature.unsafety {
        Some(unsafety) => Err(Error::new_spanned(unsafety, "a tool is not `unsafe`")),
        None => Ok(()),
    }
}

fn check_parameters(item: &ItemFn, parameters: &[Parameter]) -> syn::Result<()> {
    let inputs = &item.sig.inputs;
    let count = |is: fn(&Parameter) -> bool| parameters.iter().filter(|one| is(one)).count();
    let contexts = count(|one| matches!(one, Parameter::Context(_)));
    let wholes = count(|one| matches!(one, Parameter::Whole(_)));
    let arguments = count(|one| matches!(one, Parameter::Argument(_)));
    if contexts > 1 {
        return Err(Error::new_spanned(inputs, "a tool has one context"));
    }
    if wholes > 1 || (wholes == 1 && arguments > 0) {
        return Err(Error::new_spanned(
            inputs,
            "`#[args]` is all of the arguments: only the context may stand beside it",
        ));
    }
    Ok(())
}

/// Gives each argument without a description of its own the one from the function's doc
/// comment.
fn describe(item: &ItemFn, parameters: &mut [Parameter]) -> syn::Result<Description> {
    let names: Vec<String> = parameters.iter().filter_map(Parameter::shown_name).collect();
    let lines = description::lines(&item.attrs);
    let described = Description::read(&lines, |name| names.iter().any(|known| known == name));
    for (name, text) in &described.parameters {
        let Some(parameter) = parameters.iter_mut().find(|one| one.shown_name().as_deref() == Some(name))
        else {
            return Err(undescribable(item, parameters, name));
        };
        if let Parameter::Argument(argument) = parameter
            && argument.doc.is_empty()
        {
            argument.doc.clone_from(text);
        }
    }
    Ok(described)
}

/// Explains a description without a parameter, most likely one that was renamed.
fn undescribable(item: &ItemFn, parameters: &[Parameter], name: &str) -> Error {
    let hint = match parameters.iter().any(|one| matches!(one, Parameter::Whole(_))) {
        true => "; the fields of `#[args]` are described where they are declared",
        false => "",
    };
    Error::new(
        item.sig.ident.span(),
        format!("the doc comment describes `{name}`, which is not a parameter{hint}"),
    )
}

fn id(attributes: &Attributes, item: &ItemFn) -> syn::Result<String> {
    if let Some(id) = &attributes.id {
        return Ok(id.value());
    }
    let ident = &item.sig.ident;
    let id = shown(ident).trim_matches('_').replace('_', "-");
    check_tool_id(&id, ident.span()).map_err(|error| or_say(&error, "id"))?;
    Ok(id)
}

fn name(attributes: &Attributes, item: &ItemFn) -> syn::Result<String> {
    if let Some(name) = &attributes.name {
        return Ok(name.value());
    }
    let ident = &item.sig.ident;
    let name = shown(ident);
    check_name(&name, ident.span()).map_err(|error| or_say(&error, "name"))?;
    Ok(name)
}

/// Suggests the attribute to use if the function's own name is unsuitable.
fn or_say(error: &Error, attribute: &str) -> Error {
    Error::new(error.span(), format!("{error}; give it one with `{attribute} = \"...\"`"))
}

/// Returns an identifier without its `r#` prefix.
pub(crate) fn shown(ident: &syn::Ident) -> String {
    let text = ident.to_string();
    match text.strip_prefix("r#") {
        Some(text) => text.to_owned(),
        None => text,
    }
}

fn summary(attributes: &Attributes, item: &ItemFn, described: Description) -> syn::Result<String> {
    let summary = match &attributes.description {
        Some(description) => description.value(),
        None => described.summary,
    };
    if summary.trim().is_empty() {
        return Err(Error::new(
            item.sig.ident.span(),
            "a model has to know what the tool does: \
             write a doc comment, or `description = \"...\"`",
        ));
    }
    Ok(summary)
}
