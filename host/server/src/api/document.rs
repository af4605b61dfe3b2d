//! The OpenAPI document.

use super::protocols::{self, KEY};
use crate::parts::Parts;
use crate::problem::ProblemDocument;
use serde_json::Value;
use utoipa::openapi::schema::{AdditionalProperties, Schema, SchemaType, Type};
use utoipa::openapi::security::{ApiKey, ApiKeyValue, HttpAuthScheme, HttpBuilder, SecurityScheme};
use utoipa::openapi::{
    Content, OpenApi as Document, RefOr, Required, Response, ResponseBuilder, path::PathItem,
};
use utoipa::{OpenApi, ToSchema};

#[derive(OpenApi)]
#[openapi(
    info(
        title = "Tollgate",
        description = "Runs untrusted agent tools behind a gate. Requests carry a key as `Authorization: Bearer tg_…`. \
                       The scopes of each operation are listed with its security requirements; one of the \
                       alternatives suffices. Times are milliseconds since the Unix epoch. Errors are problem \
                       documents (RFC 9457) with a stable `code`.",
    ),
    components(schemas(ProblemDocument))
)]
struct Base;

/// Returns the document without paths.
pub(super) fn base() -> Document {
    let mut document = Base::openapi();
    let components = document.components.get_or_insert_default();
    let key = HttpBuilder::new()
        .scheme(HttpAuthScheme::Bearer)
        .bearer_format("tg_<id>_<secret>")
        .description(Some("A key that `tollgate keys add` printed."))
        .build();
    components.add_security_scheme(KEY, SecurityScheme::Http(key));
    document
}

/// Adds the parts that all operations have in common: unique ids, and the answer of requests that
/// fail.
fn complete(mut document: Document) -> Document {
    let optional = bodies_without_required_members(&document);
    for item in document.paths.paths.values_mut() {
        for operation in operations(item) {
            // Functions of different files have the same names.
            let tag = operation.tags.iter().flatten().next().cloned().unwrap_or_default();
            operation.operation_id = operation.operation_id.take().map(|name| format!("{tag}_{name}"));
            if let Some(RefOr::T(body)) = &mut operation.request_body
                && body.content.values().any(|content| optional.iter().any(|name| refers_to(content, name)))
            {
                // An empty body stands for an object without members.
                body.required = Some(Required::False);
            }
            // A parameter has a value, or is left out.
            for parameter in operation.parameters.iter_mut().flatten() {
                if let RefOr::T(parameter) = parameter
                    && let Some(RefOr::T(Schema::Object(schema))) = &mut parameter.schema
                {
                    without_null(&mut schema.schema_type);
                }
            }
            let responses = &mut operation.responses.responses;
            responses.entry("default".to_owned()).or_insert_with(|| RefOr::T(problem()));
        }
    }
    let schemas = document.components.as_mut().map(|components| &mut components.schemas);
    if let Some(RefOr::T(Schema::OneOf(answer))) = schemas.and_then(|schemas| schemas.get_mut("Answer")) {
        // An answer has one member, as it is read.
        for variant in &mut answer.items {
            if let RefOr::T(Schema::Object(variant)) = variant
                && !variant.properties.is_empty()
            {
                variant.additional_properties = Some(Box::new(AdditionalProperties::FreeForm(false)));
            }
        }
    }
    document
}

/// Removes `null` from the types of a schema.
fn without_null(types: &mut SchemaType) {
    if let SchemaType::Array(all) = types {
        all.retain(|one| *one != Type::Null);
        if let [one] = all.as_slice() {
            *types = SchemaType::Type(one.clone());
        }
    }
}

/// Returns the names of the object schemas that require no member.
fn bodies_without_required_members(document: &Document) -> Vec<String> {
    let schemas = document.components.iter().flat_map(|components| &components.schemas);
    let without = schemas.filter(|(_, schema)| match schema {
        RefOr::T(Schema::Object(object)) => object.required.is_empty(),
        _ => false,
    });
    without.map(|(name, _)| name.clone()).collect()
}

fn refers_to(content: &RefOr<Content>, name: &str) -> bool {
    match content {
        RefOr::T(Content { schema: Some(RefOr::Ref(reference)), .. }) => {
            reference.ref_location.rsplit('/').next() == Some(name)
        }
        _ => false,
    }
}

/// Completes the document of the native API with these protocols and the cookie of sessions.
pub(super) fn completed(mut native: Document, parts: &Parts, cookie: &str) -> Value {
    let cookie = ApiKeyValue::with_description(cookie, "The cookie of a session, in browsers.");
    let session = SecurityScheme::ApiKey(ApiKey::Cookie(cookie));
    native.components.get_or_insert_default().add_security_scheme("session", session);
    let native = complete(native);
    let mut document = serde_json::to_value(native).unwrap_or_default();
    protocols::describe(&mut document, parts);
    document
}

fn problem() -> Response {
    let schema = RefOr::Ref(utoipa::openapi::Ref::from_schema_name(ProblemDocument::name()));
    ResponseBuilder::new()
        .description("The request made no run; the document says why.")
        .content("application/problem+json", Content::new(Some(schema)))
        .build()
}

/// Returns the operations of a path.
fn operations(item: &mut PathItem) -> impl Iterator<Item = &mut utoipa::openapi::path::Operation> {
    [&mut item.get, &mut item.post, &mut item.put, &mut item.delete, &mut item.patch]
        .into_iter()
        .filter_map(Option::as_mut)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use crate::api::document;
    use crate::parts::{Part, Parts};
    use serde_json::Value;

    fn references<'a>(value: &'a Value, found: &mut Vec<&'a str>) {
        match value {
            Value::Object(members) => {
                found.extend(members.get("$ref").and_then(Value::as_str));
                members.values().for_each(|value| references(value, found));
            }
            Value::Array(items) => items.iter().for_each(|value| references(value, found)),
            _ => {}
        }
    }

    #[test]
    fn every_schema_that_is_referred_to_is_part_of_the_document() {
        let whole = document(&Parts::all(), "cookie");
        let mut found = Vec::new();
        references(&whole, &mut found);
        assert!(found.contains(&"#/components/schemas/ChatCompletionRequest"));
        for reference in found {
            assert!(whole.pointer(reference.strip_prefix('#').unwrap()).is_some(), "{reference}");
        }
        let native = document(&Parts::all().without(Part::ALL), "cookie");
        assert!(native["components"]["schemas"].get("ChatCompletionRequest").is_none());
    }
}
