use tollgate_sdk::tool;

/// Adds.
#[tool]
fn add(a: i64, b: i64) -> i64 {
    a + b
}

fn plain() {}

struct NoTool;

mod not_marked {
    tollgate_sdk::component! { id: "a", tools: [super::plain] }
}

mod not_a_tool {
    tollgate_sdk::component! { id: "a", tools: [super::NoTool] }
}

mod not_there {
    tollgate_sdk::component! { id: "a", tools: [super::missing] }
}

mod unknown_field {
    tollgate_sdk::component! { id: "a", tool: [super::add] }
}

mod without_id {
    tollgate_sdk::component! { tools: [super::add] }
}

mod without_tools {
    tollgate_sdk::component! { id: "a" }
}

mod empty {
    tollgate_sdk::component! { id: "a", tools: [] }
}

mod listed_twice {
    tollgate_sdk::component! { id: "a", tools: [super::add, super::add] }
}

mod given_twice {
    tollgate_sdk::component! { id: "a", id: "b", tools: [super::add] }
}

mod bad_id {
    tollgate_sdk::component! { id: "My Tools", tools: [super::add] }
}

fn main() {}
