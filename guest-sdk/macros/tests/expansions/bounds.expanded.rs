/// Rolls dice.
pub fn roll(sides: u32, count: u32) -> u32 {
    sides * count
}
///The tool `roll`, for `component!` to list.
#[allow(non_camel_case_types)]
pub struct roll {}
#[allow(clippy::all, clippy::pedantic)]
const _: () = {
    const _: fn() = || {
        ::tollgate_sdk::private::argument::<u32>();
        ::tollgate_sdk::private::argument::<u32>();
    };
    #[derive(::tollgate_sdk::serde::Deserialize, ::tollgate_sdk::schemars::JsonSchema)]
    #[serde(crate = "::tollgate_sdk::serde", deny_unknown_fields)]
    #[schemars(crate = "::tollgate_sdk::schemars")]
    struct __Arguments {
        #[schemars(range(min = 2, max = 100))]
        sides: u32,
        #[schemars(range(min = 1))]
        #[serde(default = "__default_count")]
        count: u32,
    }
    fn __default_count() -> u32 {
        1
    }
    impl ::tollgate_sdk::Tool for roll {
        fn descriptor(&self) -> ::tollgate_sdk::ToolDescriptor {
            ::tollgate_sdk::ToolDescriptor::new("roll", "roll", "Rolls dice.")
                .with_parameters(::tollgate_sdk::arguments_schema::<__Arguments>())
        }
        fn answers_to(
            &self,
            tool_name: &::core::primitive::str,
        ) -> ::core::primitive::bool {
            tool_name == "roll"
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
            ::tollgate_sdk::private::ReturnedValue(roll(args.sides, args.count))
                .into_output()
        }
    }
};
