//! Tools made of closures. The type of the arguments defines their schema.

use super::{IntoOutput, NativeTool, ToolCall, ToolContext};
use async_trait::async_trait;
use schemars::generate::SchemaSettings;
use schemars::transform::{RecursiveTransform, Transform};
use schemars::{JsonSchema, Schema};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use std::marker::PhantomData;
use tollgate_agent::code::Code;
use tollgate_agent::descriptor::{ExecutionPolicy, ToolDescriptor};
use tollgate_agent::outcome::{Fault, ToolOutput};
use tollgate_agent::text::sentence;

/// A tool made of a closure that takes its arguments and a [`ToolContext`].
///
/// The model reads a JSON Schema of the arguments' type, and the host checks calls
/// against it before the closure is called. `serde_json::Value` accepts any object.
/// For the return types, see the table of [`IntoOutput`].
///
/// ```
/// use schemars::JsonSchema;
/// use serde::Deserialize;
/// use serde_json::json;
/// use tollgate::{CallRequest, FnTool, Host};
///
/// #[derive(Deserialize, JsonSchema)]
/// struct Roll {
///     /// How many sides the die has.
///     sides: u32,
/// }
///
/// # #[tokio::main]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let roll = FnTool::new("roll", "roll_die", "Rolls a die.", |roll: Roll, _call| async move {
///     match roll.sides {
///         0 => Err("a die has sides"),
///         sides => Ok(format!("{} of {sides}", 4.min(sides))), // chosen by fair dice roll
///     }
/// });
/// let host = Host::builder().tool(roll).build()?;
///
/// let end = host.call(CallRequest::new("roll_die", &json!({"sides": 6}))?).await?;
/// assert_eq!(end.result().unwrap().data, "4 of 6");
/// # Ok(())
/// # }
/// ```
pub struct FnTool<A, F> {
    descriptor: ToolDescriptor,
    run: F,
    arguments: PhantomData<fn(A)>,
}

impl<A, F, R> FnTool<A, F>
where
    A: DeserializeOwned + JsonSchema,
    F: Fn(A, ToolContext) -> R,
    R: Future<Output: IntoOutput>,
{
    /// Creates a tool with this id (`[a-z][a-z0-9_-]{0,63}`), which the model calls by this name
    /// (`[a-zA-Z0-9_-]{1,64}`).
    #[must_use]
    pub fn new(
        id: impl Into<String>,
        name: impl Into<String>,
        description: impl Into<String>,
        run: F,
    ) -> Self {
        let descriptor = ToolDescriptor::new(id, name, description).with_parameters(schema_of::<A>());
        Self { descriptor, run, arguments: PhantomData }
    }
}

impl<A, F> FnTool<A, F> {
    /// Sets the category, for grouping and for gates to match.
    #[must_use]
    pub fn with_category(mut self, category: impl Into<String>) -> Self {
        self.descriptor.category = Some(category.into());
        self
    }

    /// Sets how it should be run: its timeout, and whether it may safely run again.
    #[must_use]
    pub fn with_execution(mut self, execution: ExecutionPolicy) -> Self {
        self.descriptor.execution = execution;
        self
    }
}

#[async_trait]
impl<A, F, R> NativeTool for FnTool<A, F>
where
    A: DeserializeOwned + Send,
    F: Fn(A, ToolContext) -> R + Send + Sync,
    R: Future<Output: IntoOutput> + Send,
{
    fn descriptor(&self) -> ToolDescriptor {
        self.descriptor.clone()
    }

    fn validates(&self) -> bool {
        false
    }

    async fn execute(&self, call: ToolCall<'_>) -> Result<ToolOutput, Fault> {
        let arguments = A::deserialize(call.arguments()).map_err(|why| {
            Fault::new(
                Code::ToolInvalidArguments,
                format!("The arguments are refused: {}", sentence(&why.to_string())),
            )
        })?;
        (self.run)(arguments, call.context()).await.into_output()
    }
}

/// Returns the schema of an object of this type, without parts that mean nothing to a model.
fn schema_of<A: JsonSchema>() -> Value {
    let settings = SchemaSettings::draft2020_12().with(|settings| {
        settings.meta_schema = None;
        settings.inline_subschemas = true;
    });
    let mut schema = settings.into_generator().into_root_schema_for::<A>();
    RecursiveTransform(without_rusts_own).transform(&mut schema);
    let mut schema = schema.to_value();
    match schema.as_object_mut() {
        None => json!({"type": "object"}),
        Some(object) => {
            object.remove("description");
            object.entry("type").or_insert_with(|| json!("object"));
            schema
        }
    }
}

/// Removes names of Rust types: `title`, and formats such as `uint32`.
fn without_rusts_own(schema: &mut Schema) {
    schema.remove("title");
    let format = schema.get("format").and_then(Value::as_str).unwrap_or_default();
    if ["int", "uint", "float", "double"].iter().any(|own| format.starts_with(own)) {
        schema.remove("format");
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde::Deserialize;

    /// Documentation of the type is for readers of the code.
    #[derive(Deserialize, JsonSchema)]
    #[allow(dead_code)]
    struct Search {
        /// The text to search for.
        text: String,
        limit: Option<u32>,
    }

    #[test]
    fn k2_the_schema_comes_from_the_type() {
        let expected = json!({
            "type": "object",
            "properties": {
                "text": {"description": "The text to search for.", "type": "string"},
                "limit": {"type": ["integer", "null"], "minimum": 0},
            },
            "required": ["text"],
        });
        assert_eq!(schema_of::<Search>(), expected);
        assert_eq!(schema_of::<Value>(), json!({"type": "object"}));
    }
}
