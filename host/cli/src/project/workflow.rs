//! The workflow for GitHub Actions that `new --workflow` writes: it builds, tests and publishes the
//! tool, and attests its origin.

use super::Template;

/// The file of the workflow within the project.
pub(super) const FILE: &str = ".github/workflows/release.yml";
const TEXT: &str = include_str!("templates/workflow.yml.txt");

/// Returns the text of the workflow for a language, in which `{{name}}` and `{{sdk}}` are still to be
/// filled in.
pub(super) fn text(template: Template) -> String {
    let mut steps = String::new();
    if template != Template::Wat {
        steps.push_str(&step(
            "Put the SDK where the project looks for it",
            &[
                "sudo mkdir -p \"$(dirname '{{sdk}}')\"",
                "sudo ln -sfn \"$RUNNER_TEMP/tollgate/guest-sdk\" '{{sdk}}'",
            ],
        ));
    }
    if let Some(compiler) = compiler(template) {
        steps.push_str(&step("Install the compiler", &[compiler]));
    }
    if template != Template::Wat {
        steps.push_str(&step("Test", &["tollgate test"]));
    }
    TEXT.replace("{{steps}}\n", &steps)
}

fn step(name: &str, commands: &[&str]) -> String {
    let mut step = format!("\n      - name: {name}\n        run: |\n");
    for command in commands {
        step.push_str(&format!("          {command}\n"));
    }
    step
}

/// Returns the command that installs what the runner lacks.
fn compiler(template: Template) -> Option<&'static str> {
    match template {
        Template::Rust => Some("rustup target add wasm32-wasip2"),
        Template::C => Some("tollgate toolchains install c"),
        Template::Go => Some("tollgate toolchains install go"),
        Template::Javascript | Template::Typescript => Some("tollgate toolchains install javascript"),
        Template::Python => Some("tollgate toolchains install python"),
        Template::Wat => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::verbs::Cli;
    use clap::{Parser as _, ValueEnum as _};

    #[test]
    fn each_command_of_the_workflow_can_be_typed() {
        for template in Template::value_variants() {
            let text = text(*template).replace("$name:${GITHUB_REF_NAME#v}", "localhost:5000/tools/hello:1");
            let lines = text.lines().map(|line| line.trim_start_matches([' ', '#']));
            let commands: Vec<_> = lines.filter(|line| line.starts_with("tollgate ")).collect();
            assert!(commands.len() >= 3, "{commands:?}");
            for command in commands {
                let typed = command.split(" > ").next().unwrap_or_default();
                let words = typed.split_whitespace().map(|word| word.trim_matches('"'));
                let refused = Cli::try_parse_from(words).err().map(|why| why.to_string());
                assert_eq!(refused, None, "{command}");
            }
        }
    }
}
