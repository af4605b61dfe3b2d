use tollgate_sdk::tool;

/// Adds.
#[tool]
fn renamed(#[schemars(rename = "b")] a: i64) {}

/// Adds.
#[tool]
fn with_default(#[schemars(range(min = 1), default)] a: i64) {}

/// Adds.
#[tool]
fn described(#[schemars(description = "A number.")] a: i64) {}

/// Adds.
#[tool]
fn skipped(#[schemars(skip)] a: i64) {}

/// Adds.
#[tool]
fn otherwise(#[schemars(schema_with = "other")] a: i64) {}

/// Adds.
#[tool]
fn empty(#[schemars] a: i64) {}

fn main() {}
