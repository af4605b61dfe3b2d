/// Searches a text.
///
/// Args:
///     text: Where to look.
///     word: The text to find.
pub fn search(
    text: &str,
    word: Option<String>,
    limit: usize,
    language: String,
    weight: f64,
    depth: Option<u8>,
    exact: bool,
) -> Result<Vec<usize>, String> {
    Ok(Vec::new())
}
///The tool `search`, for `component!` to list.
#[allow(non_camel_case_types)]
pub struct search {}
#[allow(clippy::all, clippy::pedantic)]
const _: () = {
    const _: fn() = || {
        ::tollgate_sdk::private::argument::<::std::string::String>();
        ::tollgate_sdk::private::argument::<Option<String>>();
        ::tollgate_sdk::private::argument::<usize>();
        ::tollgate_sdk::private::argument::<String>();
        ::tollgate_sdk::private::argument::<f64>();
        ::tollgate_sdk::private::argument::<Option<u8>>();
        ::tollgate_sdk::private::argument::<bool>();
    };
    #[derive(::tollgate_sdk::serde::Deserialize, ::tollgate_sdk::schemars::JsonSchema)]
    #[serde(crate = "::tollgate_sdk::serde", deny_unknown_fields)]
    #[schemars(crate = "::tollgate_sdk::schemars")]
    struct __Arguments {
        #[schemars(description = "Where to look.")]
        text: ::std::string::String,
        #[schemars(description = "The text to find.")]
        word: Option<String>,
        #[serde(default = "__default_limit")]
        limit: usize,
        #[serde(default = "__default_language")]
        language: String,
        #[serde(default = "__default_weight")]
        weight: f64,
        #[serde(default = "__default_depth")]
        depth: Option<u8>,
        #[serde(default = "__default_exact")]
        exact: bool,
    }
    fn __default_limit() -> usize {
        10
    }
    fn __default_language() -> String {
        <String as ::core::convert::From<&::core::primitive::str>>::from("en")
    }
    fn __default_weight() -> f64 {
        1 as f64
    }
    fn __default_depth() -> Option<u8> {
        ::core::option::Option::Some(3)
    }
    fn __default_exact() -> bool {
        ::core::default::Default::default()
    }
    impl ::tollgate_sdk::Tool for search {
        fn descriptor(&self) -> ::tollgate_sdk::ToolDescriptor {
            ::tollgate_sdk::ToolDescriptor::new("search", "search", "Searches a text.")
                .with_parameters(::tollgate_sdk::arguments_schema::<__Arguments>())
        }
        fn answers_to(
            &self,
            tool_name: &::core::primitive::str,
        ) -> ::core::primitive::bool {
            tool_name == "search"
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
                    search(
                        &args.text,
                        args.word,
                        args.limit,
                        args.language,
                        args.weight,
                        args.depth,
                        args.exact,
                    ),
                )
                .into_output()
        }
    }
};
