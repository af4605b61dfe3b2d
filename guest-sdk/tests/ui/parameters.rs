use tollgate_sdk::tool;

struct Point {
    x: i64,
}

/// Adds.
#[tool]
fn receiver(&self) {}

/// Adds.
#[tool]
fn generic<T>(a: T) {}

/// Adds.
#[tool]
fn implied(a: impl ToString) {}

/// Adds.
#[tool]
fn pattern(Point { x }: Point) {}

/// Adds.
#[tool]
fn mutable(a: &mut i64) {}

/// Adds.
#[tool]
fn nested(a: Option<&str>) {}

/// Adds.
#[tool]
fn owned_context(ctx: tollgate_sdk::Context) {}

/// Adds.
#[tool]
fn contexts(one: &tollgate_sdk::Context, two: &tollgate_sdk::Context) {}

/// Adds.
#[tool]
fn beside(#[args] all: Point, more: i64) {}

/// Adds.
#[tool]
fn listed(#[default(5)] a: i64) {}

/// Adds.
///
/// Args:
///     b: The number that was renamed.
#[tool]
fn renamed(a: i64) {}

/// Adds.
///
/// :param x: Where.
#[tool]
fn whole(#[args] point: Point) {}

/// Adds.
#[tool]
unsafe fn unsafe_tool() {}

/// Bounds the call in progress.
#[tool]
fn bounded_context(text: String, #[schemars(range(min = 1))] ctx: &Context) -> String {
    format!("{text}{}", ctx.call_id())
}

fn main() {}
