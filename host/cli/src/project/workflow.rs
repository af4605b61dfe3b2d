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
    let tests = tests(template);
    if !tests.is_empty() {
        steps.push_str(&step("Test", tests));
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
        Template::C => Some("pip install ziglang"),
        Template::Javascript | Template::Typescript => {
            Some("npm install --global esbuild componentize-qjs typescript@6")
        }
        Template::Python => Some("pip install componentize-py"),
        Template::Go | Template::Wat => None,
    }
}

/// Returns the commands that test the tool as a plain function, as the project's README shows them.
fn tests(template: Template) -> &'static [&'static str] {
    match template {
        Template::Rust => &["cargo test"],
        Template::C => &[
            "mkdir -p build",
            "python3 -m ziglang cc -I '{{sdk}}/c' -o build/test test.c tool.c '{{sdk}}/c/tollgate_testing.c'",
            "build/test",
        ],
        Template::Go => &["go test"],
        Template::Javascript => &["npm install", "npm test"],
        Template::Typescript => &["npm install", "npm test", "npm run check"],
        Template::Python => &["PYTHONPATH='{{sdk}}/python' python3 -m unittest"],
        Template::Wat => &[],
    }
}
