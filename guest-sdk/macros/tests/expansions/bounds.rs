/// Rolls dice.
#[tool]
pub fn roll(
    #[schemars(range(min = 2, max = 100))] sides: u32,
    #[default = 1]
    #[schemars(range(min = 1))]
    count: u32,
) -> u32 {
    sides * count
}
