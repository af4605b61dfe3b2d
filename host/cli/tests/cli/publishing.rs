//! The path of a tool's author: the script that publishes the examples, the workflow that publishes
//! a tool, and registries that want credentials.

use crate::place::{Place, Said};
use crate::registry::{Registry, make_key, missing, publish};
use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use tollgate_artifacts::rust_guest;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// Runs a command with the program on its path, and returns what it prints.
fn run(place: &Place, command: &mut Command) -> String {
    let bin = Path::new(env!("CARGO_BIN_EXE_tollgate")).parent().unwrap();
    let path = format!(
        "{}:{}:{}",
        place.path().join("bin").display(),
        bin.display(),
        std::env::var("PATH").unwrap()
    );
    command.env("PATH", path).current_dir(place.path());
    command.env("TOLLGATE_DATA", place.path().join("data")).env("TOLLGATE_CACHE", place.path().join("cache"));
    let output = command.output().unwrap();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{command:?}: {}\n{errors}", output.status);
    String::from_utf8(output.stdout).unwrap()
}

/// Writes a program into the directory that is first on the path of [`run`].
fn write_program(place: &Place, name: &str, text: &str) {
    let file = place.write(&format!("bin/{name}"), text);
    fs::set_permissions(file, fs::Permissions::from_mode(0o755)).unwrap();
}

#[test]
fn the_example_tools_are_published_and_installed_with_their_origin() {
    let Some(registry) = Registry::start() else { return };
    let place = Place::new();
    let Some(()) = make_key(&place, "acme") else { return };
    // As built, with the manifests that `tollgate build` puts beside them.
    fs::create_dir_all(place.path().join("built")).unwrap();
    let mut names = Vec::new();
    for entry in fs::read_dir(root().join("example-tools")).unwrap() {
        let project = entry.unwrap().path();
        let Some(name) = project.file_name().and_then(|name| name.to_str()) else { continue };
        // One of them is a library.
        let manifest = fs::read_to_string(project.join("Cargo.toml")).unwrap_or_default();
        if !manifest.contains("cdylib") {
            continue;
        }
        fs::copy(rust_guest(name), place.path().join(format!("built/{name}.wasm"))).unwrap();
        let asks = project.join(format!("{name}.toml"));
        if asks.is_file() {
            fs::copy(asks, place.path().join(format!("built/{name}.toml"))).unwrap();
        }
        names.push(name.to_owned());
    }
    assert!(names.len() >= 15, "{names:?}");
    let script = || {
        let mut command = Command::new(root().join("scripts/publish-examples"));
        command.arg(&registry.host).args(["--key", "acme.key", "--from", "built"]);
        command
    };
    let published = run(&place, &mut script());
    let references: Vec<_> = published
        .lines()
        .filter_map(|line| line.strip_prefix("published oci://"))
        .map(str::to_owned)
        .collect();
    assert_eq!(references.len(), names.len(), "{published}");
    // The same input has the same digests.
    assert_eq!(run(&place, &mut script()), published);

    let (mut installed, mut asking) = (0, 0);
    for reference in &references {
        let added = place.type_in(&["add", reference, "--key", "acme.pub", "--yes"]);
        match added.code {
            0 => installed += 1,
            // A person has to look at what it asks for.
            3 => {
                asking += 1;
                added.says("asks to");
            }
            _ => panic!("{added:?}"),
        }
    }
    assert!(installed >= 8 && asking >= 3, "{installed} installed, {asking} ask for something");
    let verified = place.type_in(&["verify"]).ends_with(0);
    assert_eq!(verified.stdout.lines().filter(|line| line.starts_with("ok ")).count(), installed);
    let called = place.type_in(&["call", "word_count", r#"{"text": "two words"}"#]).ends_with(0);
    assert!(called.stdout.contains('2'), "{}", called.stdout);
}

#[test]
fn the_script_says_what_is_wrong() {
    let place = Place::new();
    fs::create_dir_all(place.path().join("empty")).unwrap();
    let script = |arguments: &[&str]| {
        let mut command = Command::new(root().join("scripts/publish-examples"));
        let program = env!("CARGO_BIN_EXE_tollgate");
        command.args(arguments).current_dir(place.path()).env("TOLLGATE", program);
        let output = command.output().unwrap();
        assert_eq!(output.status.code(), Some(2), "{arguments:?}");
        String::from_utf8(output.stderr).unwrap()
    };
    assert!(script(&[]).contains("name the registry"));
    assert!(script(&["localhost:1", "--from"]).contains("--from needs a value"));
    assert!(script(&["localhost:1", "--colour", "red"]).contains("unknown option"));
    assert!(script(&["localhost:1", "--from", "empty"]).contains("there is no component in empty"));
}

/// The commands of the steps of a workflow, by the name of the step.
fn steps(workflow: &str) -> Vec<(String, String)> {
    let mut steps: Vec<(String, String)> = Vec::new();
    let mut is_command = false;
    for line in workflow.lines() {
        if let Some(name) = line.strip_prefix("      - name: ") {
            steps.push((name.to_owned(), String::new()));
            is_command = false;
        } else if line == "        run: |" {
            is_command = true;
        } else if let Some(command) = line.strip_prefix("          ").filter(|_| is_command) {
            let (_, commands) = steps.last_mut().unwrap();
            commands.push_str(command);
            commands.push('\n');
        } else {
            is_command = false;
        }
    }
    steps.retain(|(_, commands)| !commands.is_empty());
    steps
}

/// Runs a step as a runner does, and adds to the environment what the step exports.
fn run_step(place: &Place, environment: &mut Vec<(String, String)>, commands: &str) {
    let outputs = ["exported", "outputs"].map(|name| place.write(name, ""));
    // The steps run in the project, as after a checkout.
    let script = format!("cd project && {{\n{commands}\n}}");
    let mut shell = Command::new("bash");
    shell.args(["-e", "-o", "pipefail", "-c", &script]);
    shell.envs(environment.iter().map(|(name, value)| (name.as_str(), value.as_str())));
    shell.env("GITHUB_ENV", &outputs[0]).env("GITHUB_OUTPUT", &outputs[1]);
    run(place, &mut shell);
    for output in outputs {
        for line in fs::read_to_string(output).unwrap().lines() {
            let (name, value) = line.split_once('=').unwrap();
            environment.push((name.to_owned(), value.to_owned()));
        }
    }
}

#[test]
fn the_workflow_of_a_new_tool_publishes_it() {
    let Some(registry) = Registry::start() else { return };
    if Command::new("jq").arg("--version").output().is_err() {
        return missing("jq");
    }
    let place = Place::new();
    place.type_in(&["new", "say-hello", "--lang", "wat", "--workflow"]).ends_with(0);
    fs::rename(place.path().join("say-hello"), place.path().join("project")).unwrap();
    let workflow = fs::read_to_string(place.path().join("project/.github/workflows/release.yml")).unwrap();
    for needed in ["id-token: write", "attestations: write", "packages: write", "permissions: {}"] {
        assert!(workflow.contains(needed), "{needed} is not in:\n{workflow}");
    }
    assert!(workflow.contains("subject-digest: ${{ steps.publish.outputs.digest }}"), "{workflow}");
    // The runner has these; here they only have to be called rightly.
    write_program(&place, "docker", "#!/bin/sh\ncat > /dev/null\necho \"$@\" >> ../docker\n");
    write_program(&place, "git", "#!/bin/sh\necho 1700000000\n");
    let mut environment: Vec<_> = [
        ("RUNNER_TEMP", place.path().to_str().unwrap()),
        ("REGISTRY", &registry.host),
        ("TOKEN", "secret"),
        ("GITHUB_ACTOR", "ada"),
        ("GITHUB_REPOSITORY", "Acme/Tools"),
        ("GITHUB_REF_NAME", "v1.2.0"),
    ]
    .map(|(name, value)| (name.to_owned(), value.to_owned()))
    .to_vec();
    let mut ran = Vec::new();
    for (name, commands) in steps(&workflow) {
        if name != "Install Tollgate" {
            run_step(&place, &mut environment, &commands);
            ran.push(name);
        }
    }
    assert_eq!(ran, ["Build", "Publish"]);
    let called = fs::read_to_string(place.path().join("docker")).unwrap();
    assert_eq!(called, format!("login {} --username ada --password-stdin\n", registry.host));
    let value = |wanted: &str| {
        let found = environment.iter().rev().find(|(name, _)| name == wanted);
        found.map(|(_, value)| value.clone()).unwrap_or_else(|| panic!("{wanted} is not set"))
    };
    assert_eq!(value("name"), format!("{}/acme/tools/say-hello", registry.host));
    // The digest that would be attested is the one that is installed.
    let reference = format!("{}:1.2.0", value("name"));
    let seen = place.type_in(&["inspect", &reference, "--json"]).ends_with(0).json();
    assert_eq!(seen["manifest_digest"], value("digest"));
    assert_eq!(seen["id"], "say-hello");
}

const READ: &str = "
import sys
try:
    import yaml
except ImportError:
    sys.exit(0)
steps = yaml.safe_load(sys.stdin)['jobs']['publish']['steps']
assert all(('run' in step) != ('uses' in step) for step in steps), steps
";

#[test]
fn the_workflow_of_each_language_tests_and_installs_its_compiler() {
    let sdk = root().join("guest-sdk").display().to_string();
    for (language, compiler) in [
        ("rust", "rustup target add wasm32-wasip2"),
        ("c", "tollgate toolchains install c"),
        ("go", "tollgate toolchains install go"),
        ("javascript", "tollgate toolchains install javascript"),
        ("typescript", "tollgate toolchains install javascript"),
        ("python", "tollgate toolchains install python"),
    ] {
        let place = Place::new();
        place.type_in(&["new", "hello", "--lang", language, "--sdk", &sdk, "--workflow"]).ends_with(0);
        let workflow = fs::read_to_string(place.path().join("hello/.github/workflows/release.yml")).unwrap();
        let steps = steps(&workflow);
        let commands: String = steps.iter().map(|(_, commands)| commands.as_str()).collect();
        assert!(commands.contains(compiler) && commands.contains("tollgate test"), "{language}: {workflow}");
        assert!(!workflow.contains("{{n") && !workflow.contains("{{s"), "{language}: {workflow}");
        for (name, commands) in &steps {
            let checked = Command::new("bash").args(["-n", "-c", commands]).status().unwrap();
            assert!(checked.success(), "{language}, {name}: {commands}");
        }
        // A runner reads it as YAML. Python has a parser if PyYAML is installed.
        let file = fs::File::open(place.path().join("hello/.github/workflows/release.yml")).unwrap();
        if let Ok(status) = Command::new("python3").args(["-c", READ]).stdin(file).status() {
            assert!(status.success(), "{language}: {workflow}");
        }
    }
    let place = Place::new();
    place.type_in(&["new", "hello", "--lang", "wat"]).ends_with(0);
    assert!(!place.path().join("hello/.github").exists(), "it is written only if it is asked for");
}

/// The password `secret`, hashed as docker-registry reads it.
const SECRET: &str = "$2y$05$abcdefghijklmnopqrstuuOQiyCxlgf/oeuTqixKmWdcYUh4Hjl0a";

/// A registry that wants the user `ada` with the password `secret`.
fn guarded(place: &Place) -> Option<Registry> {
    let users = place.write("users", format!("ada:{SECRET}\n"));
    Registry::start_with(&format!("auth: {{htpasswd: {{realm: tools, path: '{}'}}}}\n", users.display()))
}

#[test]
fn credentials_come_from_docker_or_its_helper() {
    let place = Place::new();
    let Some(registry) = guarded(&place) else { return };
    let reference = registry.echo("1");
    let type_in = |arguments: &[&str]| {
        let mut command = place.tollgate(arguments);
        let path = format!("{}:{}", place.path().join("bin").display(), std::env::var("PATH").unwrap());
        Said::of(&command.env("PATH", path).env("DOCKER_CONFIG", place.path().join("docker")).assert())
    };
    let login = format!("log in with permission to push to oci://{}/acme/echo: docker login", registry.host);
    publish(&place, &reference, 1, None, None).ends_with(1).says(&login);
    let arguments = ["publish", &reference, "echo.wasm", "--unsigned"];

    // A helper that has them, in the protocol of Docker.
    place.write("docker/config.json", format!("{{\"credHelpers\":{{\"{}\":\"fake\"}}}}", registry.host));
    let helper = |text: &str| {
        write_program(&place, "docker-credential-fake", &format!("#!/bin/sh\nread host\n{text}\n"))
    };
    helper(&format!(
        "[ \"$1 $host\" = \"get {}\" ] && echo '{{\"Username\":\"ada\",\"Secret\":\"secret\"}}'",
        registry.host
    ));
    type_in(&arguments).ends_with(0).answers("published oci://");
    type_in(&["inspect", &reference]).ends_with(0);
    // One that has other credentials, none, or fails.
    let cases = [
        ("echo '{\"Username\":\"ada\",\"Secret\":\"wrong\"}'", 1, "denied reading oci://"),
        ("echo 'credentials not found in native keychain'; exit 1", 1, "log in: docker login"),
        ("echo 'the keychain is locked'; exit 1", 2, "failed: the keychain is locked"),
        ("printf 'a\\033[31mb'; exit 1", 2, "failed: a[31mb"),
        ("exit 7", 2, "failed and said nothing"),
        ("echo 'not JSON, but s3cret'", 2, "did not answer with credentials"),
        ("echo '{\"Username\":\"<token>\",\"Secret\":\"s3cret\"}'", 2, "an identity token"),
    ];
    for (text, code, words) in cases {
        helper(text);
        let said = type_in(&["inspect", &reference]).ends_with(code).says(words);
        assert!(!said.stderr.contains("s3cret") && !said.stderr.contains('\u{1b}'), "{}", said.stderr);
    }
    fs::remove_file(place.path().join("bin/docker-credential-fake")).unwrap();
    type_in(&["inspect", &reference]).ends_with(2).says("docker-credential-fake is not installed");

    // Those that `docker login` stores without a helper.
    place.write(
        "docker/config.json",
        format!("{{\"auths\":{{\"{}\":{{\"auth\":\"YWRhOnNlY3JldA==\"}}}}}}", registry.host),
    );
    type_in(&["add", &reference, "--yes"]).ends_with(3).says("a person has to decide");
}

#[test]
fn settings_of_registries_that_cannot_be_meant_are_errors_of_the_configuration() {
    for (settings, words) in [
        ("[registries.\"ghcr.io\"]\nplain_http = true\n", "only for registries on this machine"),
        ("[registries.\"https://ghcr.io\"]\n", "not the host of a registry"),
        ("[registries.\"ghcr.io\"]\ncolour = \"red\"\n", "colour"),
    ] {
        Place::new()
            .with_config(settings)
            .type_in(&["tools"])
            .ends_with(2)
            .says(words)
            .says("tollgate.toml:");
    }
    let place = Place::new().with_config("[registries.\"ghcr.io\"]\nca = \"none.pem\"\n");
    place.type_in(&["inspect", "ghcr.io/acme/echo:1"]).ends_with(2).says("none.pem cannot be read");
}
