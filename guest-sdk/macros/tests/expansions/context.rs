/// Says who calls.
#[tool]
pub(crate) async fn whoami(ctx: &mut Context) -> Result<String, ToolError> {
    Ok(ctx.agent().id.clone())
}
