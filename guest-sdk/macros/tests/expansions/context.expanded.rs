/// Says who calls.
pub(crate) async fn whoami(ctx: &mut Context) -> Result<String, ToolError> {
    Ok(ctx.agent().id.clone())
}
///The tool `whoami`, for `component!` to list.
#[allow(non_camel_case_types)]
pub(crate) struct whoami {}
#[allow(clippy::all, clippy::pedantic)]
const _: () = {
    const _: fn() = || {};
    #[derive(::tollgate_sdk::serde::Deserialize, ::tollgate_sdk::schemars::JsonSchema)]
    #[serde(crate = "::tollgate_sdk::serde", deny_unknown_fields)]
    #[schemars(crate = "::tollgate_sdk::schemars")]
    struct __Arguments {}
    impl ::tollgate_sdk::Tool for whoami {
        fn descriptor(&self) -> ::tollgate_sdk::ToolDescriptor {
            ::tollgate_sdk::ToolDescriptor::new("whoami", "whoami", "Says who calls.")
                .with_parameters(::tollgate_sdk::arguments_schema::<__Arguments>())
        }
        fn answers_to(
            &self,
            tool_name: &::core::primitive::str,
        ) -> ::core::primitive::bool {
            tool_name == "whoami"
        }
        fn validates(&self) -> ::core::primitive::bool {
            false
        }
        fn execute(
            &self,
            args: ::tollgate_sdk::Arguments<'_>,
            ctx: &mut ::tollgate_sdk::Context,
        ) -> ::core::result::Result<
            ::tollgate_sdk::ToolOutput,
            ::tollgate_sdk::ToolError,
        > {
            #[allow(unused_imports)]
            use ::tollgate_sdk::private::ReturnedData as _;
            let args: __Arguments = args.parse()?;
            ::tollgate_sdk::private::ReturnedValue(
                    ::tollgate_sdk::block_on(whoami(ctx))?,
                )
                .into_output()
        }
    }
};
