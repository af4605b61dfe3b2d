/// Draws a figure.
#[tool(validate = figure::check)]
fn draw(#[args] figure: Figure, ctx: &Context) -> ToolOutput {
    figure.draw()
}
