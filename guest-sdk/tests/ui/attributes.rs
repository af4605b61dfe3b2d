use tollgate_sdk::tool;

/// Adds.
#[tool(retries = 3)]
fn unknown() {}

/// Adds.
#[tool(name = "a", name = "b")]
fn twice() {}

/// Adds.
#[tool(timeout = "5 parsecs")]
fn bad_unit() {}

/// Adds.
#[tool(timeout = 0)]
fn no_time() {}

/// Adds.
#[tool(timeout = 1.5)]
fn half_time() {}

/// Adds.
#[tool(max_retries = 11)]
fn too_many() {}

/// Adds.
#[tool(id = "Add")]
fn bad_id() {}

/// Adds.
#[tool(id = "host")]
fn reserved_id() {}

/// Adds.
#[tool(name = "add numbers")]
fn bad_name() {}

/// Adds.
#[tool]
fn tollgate_add() {}

/// Adds.
#[tool]
fn addieren_für_alle() {}

/// Adds.
#[tool(category = 3)]
fn no_text() {}

/// Adds.
#[tool(category)]
fn no_value() {}

/// Adds.
#[tool(state = ITEMS)]
fn no_list() {}

/// Adds.
#[tool(state(append(ITEMS)))]
fn no_use() {}

#[tool]
fn undescribed() {}

fn main() {}
