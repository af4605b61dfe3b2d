/// Not what the model reads.
#[cfg(feature = "dice")]
#[tool(
    id = "dice",
    name = "roll_dice",
    description = "Rolls dice.",
    category = "games",
    timeout = "500ms",
    max_retries = 1,
    idempotent,
    validate = fair,
    state(ROLLS, read(config::SEED), write(LOG)),
)]
fn roll(sides: u32, ctx: &Context) -> u32 {
    sides
}
