/// Searches a text.
///
/// Args:
///     text: Where to look.
///     word: The text to find.
#[tool]
pub fn search(
    text: &str,
    word: Option<String>,
    #[default = 10] limit: usize,
    #[default = "en"] language: String,
    #[default = 1] weight: f64,
    #[default = 3] depth: Option<u8>,
    #[default] exact: bool,
) -> Result<Vec<usize>, String> {
    Ok(Vec::new())
}
