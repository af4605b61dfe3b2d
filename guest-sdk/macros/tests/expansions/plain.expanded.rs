/// Adds two numbers.
fn add(a: i64, b: i64) -> i64 {
    a + b
}
///The tool `add`, for `component!` to list.
#[allow(non_camel_case_types)]
struct add {}
#[allow(clippy::all, clippy::pedantic)]
const _: () = {
    const _: fn() = || {
        ::tollgate_sdk::private::argument::<i64>();
        ::tollgate_sdk::private::argument::<i64>();
    };
    #[derive(::tollgate_sdk::serde::Deserialize, ::tollgate_sdk::schemars::JsonSchema)]
    #[serde(crate = "::tollgate_sdk::serde", deny_unknown_fields)]
    #[schemars(crate = "::tollgate_sdk::schemars")]
    struct __Arguments {
        a: i64,
        b: i64,
    }
    impl ::tollgate_sdk::Tool for add {
        fn descriptor(&self) -> ::tollgate_sdk::ToolDescriptor {
            ::tollgate_sdk::ToolDescriptor::new("add", "add", "Adds two numbers.")
                .with_parameters(::tollgate_sdk::arguments_schema::<__Arguments>())
        }
        fn answers_to(
            &self,
            tool_name: &::core::primitive::str,
        ) -> ::core::primitive::bool {
            tool_name == "add"
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
            ::tollgate_sdk::private::ReturnedValue(add(args.a, args.b)).into_output()
        }
    }
};
