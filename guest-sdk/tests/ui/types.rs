use tollgate_sdk::{Deserialize, data, tool};

#[derive(Deserialize)]
#[serde(crate = "tollgate_sdk::serde")]
struct Point {
    x: i64,
}

struct Failure;

/// Takes what has no schema.
#[tool]
fn takes(point: Point) -> i64 {
    point.x
}

/// Returns what cannot be written.
#[tool]
fn returns() -> Point {
    Point { x: 1 }
}

/// Fails with what cannot be said.
#[tool]
fn fails() -> Result<i64, Failure> {
    Err(Failure)
}

/// Has a default of another type.
#[tool]
fn defaults(#[default = "five"] number: i64) -> i64 {
    number
}

/// Is checked by what takes something else.
#[tool(validate = check)]
fn checked(number: i64) -> i64 {
    number
}

fn check(_: &String) -> Result<(), String> {
    Ok(())
}

#[data(flat)]
struct Flat {}

fn main() {}
