/// Draws a figure.
fn draw(figure: Figure, ctx: &Context) -> ToolOutput {
    figure.draw()
}
///The tool `draw`, for `component!` to list.
#[allow(non_camel_case_types)]
struct draw {}
#[allow(clippy::all, clippy::pedantic)]
const _: () = {
    const _: fn() = || {
        ::tollgate_sdk::private::argument::<Figure>();
    };
    impl ::tollgate_sdk::Tool for draw {
        fn descriptor(&self) -> ::tollgate_sdk::ToolDescriptor {
            ::tollgate_sdk::ToolDescriptor::new("draw", "draw", "Draws a figure.")
                .with_parameters(::tollgate_sdk::arguments_schema::<Figure>())
                .validates()
        }
        fn answers_to(
            &self,
            tool_name: &::core::primitive::str,
        ) -> ::core::primitive::bool {
            tool_name == "draw"
        }
        fn validate_args(
            &self,
            args: ::tollgate_sdk::Arguments<'_>,
        ) -> ::core::result::Result<(), ::tollgate_sdk::ToolError> {
            let args: Figure = args.parse()?;
            ::tollgate_sdk::private::checked(figure::check(&args))
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
            let args: Figure = args.parse()?;
            ::tollgate_sdk::private::ReturnedValue(draw(args, ctx)).into_output()
        }
    }
};
