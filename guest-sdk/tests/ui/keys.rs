use tollgate_sdk::reducer::{Add, Append};
use tollgate_sdk::{Context, Key, ToolError};

static LIST: Key<Vec<String>, Append> = Key::thread("notes.items").append();
static COUNT: Key<u32, Add> = Key::thread("notes.count").add();

static NO_LIST: Key<String, Append> = Key::thread("notes.text").append();
static NO_NUMBER: Key<String, Add> = Key::thread("notes.text").add();

fn writes(ctx: &Context) -> Result<(), ToolError> {
    ctx.set(&LIST, &vec![])?;
    ctx.append(&LIST, &1)?;
    ctx.append(&COUNT, &1)?;
    ctx.add(&COUNT, -1)
}

fn main() {}
