//! `echo`: a minimal tool.

use tollgate_sdk::{component, tool};

/// Returns the text it is given.
///
/// Args:
///     text: Any text.
#[tool(category = "demo", idempotent)]
pub fn echo(text: String) -> String {
    text
}

component! { id: "echo", tools: [echo] }

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use tollgate_sdk::{Component, Context, json};

    #[test]
    fn it_says_what_it_was_told() {
        let mut ctx = Context::for_test().with_tool_name("echo");
        let output = Exported::execute(r#"{"text":"grüezi"}"#, &mut ctx).unwrap();
        assert_eq!(output.result.data(), json!("grüezi"));
        assert!(output.mutations.is_empty());
    }
}
