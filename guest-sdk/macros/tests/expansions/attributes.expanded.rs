/// Not what the model reads.
#[cfg(feature = "dice")]
fn roll(sides: u32, ctx: &Context) -> u32 {
    sides
}
#[cfg(feature = "dice")]
///The tool `roll_dice`, for `component!` to list.
#[allow(non_camel_case_types)]
struct roll {}
#[cfg(feature = "dice")]
#[allow(clippy::all, clippy::pedantic)]
const _: () = {
    const _: fn() = || {
        ::tollgate_sdk::private::argument::<u32>();
    };
    #[derive(::tollgate_sdk::serde::Deserialize, ::tollgate_sdk::schemars::JsonSchema)]
    #[serde(crate = "::tollgate_sdk::serde", deny_unknown_fields)]
    #[schemars(crate = "::tollgate_sdk::schemars")]
    struct __Arguments {
        sides: u32,
    }
    impl ::tollgate_sdk::Tool for roll {
        fn descriptor(&self) -> ::tollgate_sdk::ToolDescriptor {
            ::tollgate_sdk::ToolDescriptor::new("dice", "roll_dice", "Rolls dice.")
                .with_parameters(::tollgate_sdk::arguments_schema::<__Arguments>())
                .with_category("games")
                .with_timeout(::core::time::Duration::from_millis(500u64))
                .with_max_retries(1u32)
                .idempotent()
                .validates()
        }
        fn answers_to(
            &self,
            tool_name: &::core::primitive::str,
        ) -> ::core::primitive::bool {
            tool_name == "roll_dice"
        }
        fn state(&self) -> ::std::vec::Vec<::tollgate_sdk::StateAccess> {
            ::std::vec::Vec::from([
                ::tollgate_sdk::Key::used(&ROLLS),
                ::tollgate_sdk::Key::read(&config::SEED),
                ::tollgate_sdk::Key::write(&LOG),
            ])
        }
        fn validate_args(
            &self,
            args: ::tollgate_sdk::Arguments<'_>,
        ) -> ::core::result::Result<(), ::tollgate_sdk::ToolError> {
            let args: __Arguments = args.parse()?;
            ::tollgate_sdk::private::checked(fair(&args.sides))
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
            ::tollgate_sdk::private::ReturnedValue(roll(args.sides, ctx)).into_output()
        }
    }
};
