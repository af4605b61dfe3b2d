//! The macros of `tollgate-sdk`, which documents and re-exports them.

mod attributes;
mod component;
mod data;
mod description;
mod expand;
mod function;
mod name;
mod parameter;
mod state;

use proc_macro::TokenStream;
use syn::parse_macro_input;

/// Turns a function, sync or async, into a tool.
///
/// The function remains unchanged. The macro adds a type of the same name that
/// implements `Tool`, for `component!` to list.
///
/// # Attributes
///
/// | attribute | meaning | default |
/// |---|---|---|
/// | `id = "add-note"` | the tool's id in the registry | the function's name, with `-` for `_` |
/// | `name = "add_note"` | the name that the model uses | the function's name |
/// | `description = "..."` | the tool's purpose, for the model | the doc comment's first paragraph |
/// | `category = "notes"` | a category, for grouping and for gates | none |
/// | `timeout = "5s"` | the time for one attempt: `"5s"`, `"500ms"`, `"2m"`, or milliseconds | the run's, or 15 s |
/// | `max_retries = 2` | attempts after the first | 3 |
/// | `idempotent` | calling it again with the same arguments is harmless | not idempotent |
/// | `validate = check` | a further check: a function that takes references to the arguments and returns `Result<(), E>` | none |
/// | `state(ITEMS, read(CITY), write(LOG))` | the keys that it reads and writes | none |
///
/// # Parameters
///
/// Each parameter is an argument of the tool, except one of type `&Context` or `&mut
/// Context`. Arguments of type `Option<T>` or with a `#[default = 5]` are optional.
/// `#[schemars(range(min = 1, max = 6))]` bounds an argument, as on a struct's field;
/// options that would change how it is parsed are rejected. `#[args]` on the only
/// parameter makes the fields of its struct the arguments. A parameter is described by
/// a doc comment of its own or in the function's: `:param name: text`, `name: text`
/// under `Args:`, or `* name - text`.
#[proc_macro_attribute]
pub fn tool(attributes: TokenStream, item: TokenStream) -> TokenStream {
    let attributes = parse_macro_input!(attributes as attributes::Attributes);
    let function = parse_macro_input!(item as syn::ItemFn);
    expand::tool(attributes, function).unwrap_or_else(syn::Error::into_compile_error).into()
}

/// Combines one or more tools into a component.
///
/// ```text
/// component! {
///     id: "notes",
///     tools: [add, list, delete],
///     version: "1.2.0",              // default: the crate's
///     state: [ITEMS, read(CITY)],    // in addition to the tools' own
/// }
/// ```
///
/// `tools` lists functions with `#[tool]` and unit structs that implement `Tool`. The
/// macro expands to `struct Exported`, which implements `Component`.
#[proc_macro]
pub fn component(input: TokenStream) -> TokenStream {
    let component = parse_macro_input!(input as component::Component);
    component.expand().into()
}

/// Makes a struct or enum usable for arguments, results and state: derives `Serialize`,
/// `Deserialize` and `JsonSchema` without dependencies of your own.
#[proc_macro_attribute]
pub fn data(attributes: TokenStream, item: TokenStream) -> TokenStream {
    data::expand(attributes.into(), item.into()).into()
}
