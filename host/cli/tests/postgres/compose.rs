//! The recommended containers: their commands, settings and files exist, and fit together.

use serde_json::{Map, Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::process::Command;
use tollgate::config::Config;
use tollgate_postgres::PostgresConfig;

/// The keys of services that these containers need.
const KEYS: [&str; 10] = [
    "build",
    "command",
    "depends_on",
    "environment",
    "healthcheck",
    "image",
    "restart",
    "stop_grace_period",
    "volumes",
    "working_dir",
];

fn directory() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../packaging/postgresql")
}

fn read(file: &str) -> String {
    std::fs::read_to_string(directory().join(file)).unwrap()
}

/// Reads the part of YAML that the file uses: indented maps and lists, flow lists and maps, quoted
/// and plain text, anchors, aliases and merged maps.
struct Yaml<'a> {
    lines: Vec<(usize, &'a str)>,
    at: usize,
    anchors: BTreeMap<&'a str, Value>,
}

impl<'a> Yaml<'a> {
    fn read(text: &'a str) -> Value {
        let lines = text.lines().map(|line| (line.len() - line.trim_start().len(), line.trim()));
        let lines = lines.filter(|(_, line)| !line.is_empty() && !line.starts_with('#')).collect();
        let mut yaml = Self { lines, at: 0, anchors: BTreeMap::new() };
        let value = yaml.block(0);
        assert_eq!(yaml.at, yaml.lines.len(), "{:?} is not understood", yaml.lines[yaml.at]);
        value
    }

    /// Reads the lines from here that are indented by this much.
    fn block(&mut self, indent: usize) -> Value {
        let (mut map, mut list) = (Map::new(), Vec::new());
        while let Some((_, line)) = self.lines.get(self.at).copied().filter(|(by, _)| *by == indent) {
            self.at += 1;
            if let Some(item) = line.strip_prefix("- ") {
                list.push(self.scalar(item));
                continue;
            }
            let (key, rest) = line.split_once(':').unwrap_or_else(|| panic!("no key: {line}"));
            let rest = rest.trim();
            let (anchor, rest) = match rest.strip_prefix('&') {
                Some(named) => (Some(named), ""),
                None => (None, rest),
            };
            let nested = self.lines.get(self.at).map(|(by, _)| *by).filter(|by| *by > indent);
            let value = match nested {
                Some(by) if rest.is_empty() => self.block(by),
                _ => self.scalar(rest),
            };
            self.anchors.extend(anchor.map(|name| (name, value.clone())));
            match key {
                // The keys that follow replace the merged ones.
                "<<" => map.extend(value.as_object().unwrap().clone()),
                _ => drop(map.insert(key.to_owned(), value)),
            }
        }
        if list.is_empty() { Value::Object(map) } else { Value::Array(list) }
    }

    fn scalar(&self, text: &str) -> Value {
        if let Some(name) = text.strip_prefix('*') {
            return self.anchors.get(name).unwrap_or_else(|| panic!("no anchor {name}")).clone();
        }
        if let Some(inner) = text.strip_prefix('{').and_then(|rest| rest.strip_suffix('}')) {
            let entries = inner.split(',').map(|entry| entry.split_once(':').unwrap());
            return entries.map(|(key, value)| (key.trim().to_owned(), self.scalar(value.trim()))).collect();
        }
        match text {
            "" => Value::Null,
            _ if text.starts_with(['[', '"']) => serde_json::from_str(text).unwrap(),
            _ => json!(text),
        }
    }
}

/// A setting such as `pool_mode = transaction`.
fn settings(ini: &str) -> BTreeMap<&str, &str> {
    let lines = ini.lines().filter(|line| !line.starts_with([';', '[']));
    lines.filter_map(|line| line.split_once('=')).map(|(key, value)| (key.trim(), value.trim())).collect()
}

/// The mounts of a service: what is mounted, and where.
fn mounts(service: &Value) -> Vec<(String, String)> {
    let volumes = service["volumes"].as_array().into_iter().flatten().map(|volume| volume.as_str().unwrap());
    let parts = volumes.map(|volume| volume.trim_end_matches(":ro").split_once(':').unwrap());
    parts.map(|(what, place)| (what.to_owned(), place.to_owned())).collect()
}

fn words(list: &Value) -> Vec<String> {
    list.as_array().into_iter().flatten().map(|word| word.as_str().unwrap().to_owned()).collect()
}

/// Checks that the program understands a command, without running it.
fn is_understood(command: &[String]) {
    let mut program = Command::new(env!("CARGO_BIN_EXE_tollgate"));
    let output = program.args(command).arg("--help").output().unwrap();
    assert!(output.status.success(), "{command:?}: {}", String::from_utf8_lossy(&output.stderr));
}

/// Returns the words of a line of a shell that may have quotes.
fn shell_words(line: &str) -> Vec<String> {
    let parts = line.split('"').enumerate();
    let words = parts.flat_map(|(at, part)| match at % 2 {
        0 => part.split_whitespace().map(str::to_owned).collect(),
        _ => vec![part.to_owned()],
    });
    words.collect()
}

#[test]
fn the_services_and_volumes_of_the_containers_fit_together() {
    let text = read("compose.yaml");
    let compose = Yaml::read(&text);
    let (services, volumes) =
        (compose["services"].as_object().unwrap(), compose["volumes"].as_object().unwrap());
    let names: BTreeSet<&str> = services.keys().map(String::as_str).collect();
    assert_eq!(names, BTreeSet::from(["host-1", "host-2", "init", "pgbouncer", "postgres"]));
    let mut used = BTreeSet::new();
    for (name, service) in services {
        let unknown = service.as_object().unwrap().keys().find(|key| !KEYS.contains(&key.as_str()));
        assert_eq!(unknown, None, "{name}");
        assert!(service["image"].as_str().is_none_or(|image| image.contains(':')), "{name}: no tag");
        for (what, place) in mounts(service) {
            assert!(place.starts_with('/'), "{name}: {place}");
            match what.strip_prefix("./") {
                Some(file) => assert!(directory().join(file).exists(), "{name}: {file} does not exist"),
                None => assert!(volumes.contains_key(&what), "{name}: {what} is not a volume"),
            }
            used.insert(what);
        }
        for (other, awaits) in service["depends_on"].as_object().into_iter().flatten() {
            let other = services.get(other).unwrap_or_else(|| panic!("{name} depends on {other}"));
            match awaits["condition"].as_str().unwrap() {
                "service_healthy" => assert!(other["healthcheck"]["test"].is_array(), "{name}"),
                "service_completed_successfully" => assert!(other["restart"].is_null(), "{name}"),
                condition => assert_eq!(condition, "service_started", "{name}"),
            }
        }
    }
    assert!(volumes.keys().all(|volume| used.contains(volume)), "an unused volume: {volumes:?}");
}

#[test]
fn the_commands_of_the_containers_are_understood() {
    let text = read("compose.yaml");
    let compose = Yaml::read(&text);
    let mut built = 0;
    for (name, service) in compose["services"].as_object().unwrap() {
        let Some(build) = service.get("build") else { continue };
        let context = directory().join(build["context"].as_str().unwrap());
        assert!(context.join(build["dockerfile"].as_str().unwrap()).exists(), "{name}");
        let command = words(&service["command"]);
        is_understood(&command);
        for url in command.iter().filter(|word| word.starts_with("postgres://")) {
            PostgresConfig::new(url).unwrap();
        }
        // A variable would have to be one of the program's.
        assert!(service["environment"].is_null(), "{name}");
        built += 1;
    }
    assert_eq!(built, 3);
    // Those that the comment recommends.
    let recommended: Vec<_> = text.lines().filter_map(|line| line.split_once(" tollgate ")).collect();
    let recommended = recommended.iter().filter(|(before, _)| before.contains("docker compose exec"));
    assert_eq!(recommended.map(|(_, line)| is_understood(&shell_words(line))).count(), 2);
    let file = directory().join("tollgate.toml");
    Config::parse(&file, &read("tollgate.toml")).unwrap();
}

#[test]
fn the_hosts_reach_the_pooler_and_the_server_through_sockets_that_are_mounted() {
    let text = read("compose.yaml");
    let (compose, ini) = (Yaml::read(&text), read("pgbouncer.ini"));
    let (services, settings) = (&compose["services"], settings(&ini));
    let place_of = |service: &str, volume: &str| {
        let mounts = mounts(&services[service]);
        mounts.into_iter().find(|(what, _)| what == volume).unwrap_or_else(|| panic!("{service}: {volume}")).1
    };
    let (pooler, server) = ("pgbouncer-socket", "postgres-socket");
    assert_eq!(settings["unix_socket_dir"], place_of("pgbouncer", pooler));
    assert!(
        settings["tollgate"].contains(&format!("host={} ", place_of("pgbouncer", server))),
        "{settings:?}"
    );
    // Only this mode is tested; others would keep a connection for each host.
    assert_eq!(settings["pool_mode"], "transaction");
    let command = words(&services["pgbouncer"]["command"]);
    assert_eq!(command[1..], [place_of("pgbouncer", "./pgbouncer.ini")]);
    let config = Config::parse(&directory().join("tollgate.toml"), &read("tollgate.toml")).unwrap();
    let database = config.store.database.unwrap();
    for host in ["host-1", "host-2"] {
        let working_dir = services[host]["working_dir"].as_str().unwrap();
        assert_eq!(place_of(host, "./tollgate.toml"), format!("{working_dir}/tollgate.toml"));
        for (url, volume, port) in
            [(Some(&database.url), pooler, 6432), (database.listen_url.as_ref(), server, 5432)]
        {
            let address = PostgresConfig::new(url.unwrap()).unwrap().address();
            assert_eq!(address, format!("{}/.s.PGSQL.{port}", place_of(host, volume)));
        }
    }
}
