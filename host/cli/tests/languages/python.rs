//! Python's own means within a component: `async def`, `urllib.request`, `http.client`, packages,
//! models, and parameters that are stated. A build explains what it cannot use.

use crate::projects::{command, said};
use crate::weather::Server;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

const TOOL: &str = r#"
import asyncio

from tollgate import Component, Context, http as web

import http.client
import urllib.request

component = Component("means-py")


class Place:
    """The methods of a Pydantic model that the library uses."""

    def __init__(self, latitude: int):
        self.latitude = latitude

    @classmethod
    def model_json_schema(cls) -> dict:
        return {"type": "object", "properties": {"latitude": {"type": "integer"}}, "required": ["latitude"]}

    @classmethod
    def model_validate(cls, value: dict) -> "Place":
        if value["latitude"] > 90:
            raise ValueError("too far north")
        return cls(**value)

    def model_dump(self, mode: str) -> dict:
        return {"latitude": self.latitude}


@component.tool(name="means_py")
async def means(ctx: Context, place: Place) -> dict:
    """Asks in every way."""
    url = f"{ctx.setting('api')}/v1/x?latitude={place.latitude}"
    async with web.AsyncClient() as client:
        answers = await asyncio.gather(client.get(url), asyncio.sleep(0.01), client.get(url))
    with urllib.request.urlopen(url, timeout=5) as response:
        by_urllib = (response.status, len(response.read()))
    host = ctx.setting("api").removeprefix("http://")
    connection = http.client.HTTPConnection(host, timeout=5)
    connection.request("GET", f"/v1/y?latitude={place.latitude}", headers={"x-own": "1"})
    response = connection.getresponse()
    by_client = (response.status, response.getheader("content-type"), len(response.read()))
    try:
        urllib.request.urlopen(f"{ctx.setting('api')}/elsewhere?latitude=1")
        refused = None
    except OSError as error:
        refused = str(error)
    return {"async": [answers[0].status_code, answers[2].ok], "urllib": by_urllib, "client": by_client,
            "refused": refused, "place": place}


STATED = {"type": "object", "properties": {"n": {"type": "integer", "default": 2}}}


@component.tool(name="stated_py", description="Doubles.", parameters=STATED)
def stated(**given):
    return given["n"] * 2


Tool = component.export()
"#;

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs the toolchains: scripts/test languages"]
async fn k11_k12_k13_python_asks_by_its_own_means() {
    let server = Server::start().await;
    let place = tempfile::tempdir().unwrap();
    python_project(place.path(), TOOL);
    let origin = &server.origin;
    let config =
        format!("[grants.means-py]\nhttp = [\"{origin}/v1/\"]\nsettings = {{ api = \"{origin}\" }}\n");
    fs::write(place.path().join("tollgate.toml"), config).unwrap();
    let built = command(place.path(), &["build", "tool"]).output().unwrap();
    assert!(built.status.success(), "{}", String::from_utf8_lossy(&built.stderr));

    let call =
        |tool: &str, arguments: &str| said(&mut command(place.path(), &["call", tool, arguments, "--json"]));
    let (success, answer, words) = call("means_py", r#"{"place": {"latitude": 1}}"#);
    assert!(success, "{answer}{words}");
    let answer = serde_json::from_str::<serde_json::Value>(&answer).unwrap()["data"].to_string();
    for part in [
        r#""async":[200,true]"#,
        r#""urllib":[200,"#,
        r#""client":[200,"application/json","#,
        "does not allow this request",
        r#""place":{"latitude":1}"#,
    ] {
        assert!(answer.contains(part), "{part}: {answer}");
    }
    assert_eq!(server.take().len(), 4);
    let (_, answer, words) = call("means_py", r#"{"place": {"latitude": 91}}"#);
    assert!(answer.contains("tool_invalid_arguments") && answer.contains("too far north"), "{answer}{words}");
    let (success, answer, words) = call("stated_py", "{}");
    assert!(success && answer.contains('4'), "{answer}{words}");
    let (_, answer, _) = call("stated_py", r#"{"n": "x"}"#);
    assert!(answer.contains("invalid_arguments"), "{answer}");
}

/// The tests of a tool with stated parameters, which run without compiling it.
const TESTS: &str = r#"
import unittest

from tool import component


class TheTools(unittest.TestCase):
    def test_stated(self):
        stated = component.tools["stated"]
        self.assertEqual(stated.description, "Doubles a number.")
        self.assertEqual(stated.parameters["properties"], {"n": {"type": "integer", "default": 2}})
        self.assertEqual(component.call("stated", {"n": 21})[0].data, 42)
"#;

const STATED: &str = r#"
from tollgate import Component

component = Component("stated")
STATED = {"type": "object", "properties": {"n": {"type": "integer", "default": 2}}}


@component.tool(description="Doubles a number.", parameters=STATED)
def stated(**given):
    """The model does not read this."""
    return given["n"] * 2


Tool = component.export()
"#;

#[test]
fn k13_a_python_tool_may_state_its_parameters_and_its_description() {
    let place = tempfile::tempdir().unwrap();
    fs::write(python_project(place.path(), STATED).join("test_tool.py"), TESTS).unwrap();
    let (success, answer, words) = said(&mut command(place.path(), &["test", "tool"]));
    assert!(success && words.contains("Ran 1 test"), "{answer}{words}");
}

const FETCH: &str = r#"
import socket
import urllib.request

import requests
from pydantic import BaseModel, Field

from tollgate import Component

component = Component("fetch-py")


class Item(BaseModel):
    name: str
    count: int = Field(1, ge=1, le=10)
    size: tuple[int, int] = (1, 1)


class Order(BaseModel):
    customer: str
    items: list[Item]


def error_of(work) -> str:
    try:
        work()
    except OSError as error:
        return str(error)


@component.tool(name="fetch_py")
def fetch(api: str) -> dict:
    """Fetches by libraries that use sockets elsewhere."""
    url = f"{api}/v1/x?latitude=1"
    with requests.Session() as session:
        statuses = [session.get(url, timeout=5).status_code for _ in range(2)]
    with urllib.request.urlopen(url) as response:
        statuses.append(response.status)
    return {
        "statuses": statuses,
        "posted": error_of(lambda: requests.post(url, json={"a": 1})),
        "https": error_of(lambda: requests.get("https://localhost:1/")),
        "socket": error_of(lambda: socket.create_connection(("127.0.0.1", 1))),
    }


@component.tool(name="order_py")
def order(order: Order) -> Item:
    """Returns the first item."""
    return order.items[0]


@component.tool(name="leave_py")
def leave() -> None:
    """Ends the interpreter."""
    raise SystemExit(3)


Tool = component.export()
"#;

/// A tool with models of Pydantic's current version, which is compiled for this machine.
const MODELS: &str = r##"
from pydantic import BaseModel, Field

from tollgate import Component, values
from tollgate.answer import Refusal


class Item(BaseModel):
    name: str
    count: int = Field(1, ge=1, description="How many.")


component = Component("order")


@component.tool()
def order(first: Item, others: list[Item]) -> Item:
    assert all(isinstance(item, Item) for item in [first, *others])
    return max([first, *others], key=lambda item: item.count)


parameters = component.tools["order"].parameters
assert parameters["properties"]["first"]["properties"]["count"]["description"] == "How many.", parameters
answer, _ = component.call("order", {"first": {"name": "ink"}, "others": [{"name": "pen", "count": 2}]})
assert values.plain(answer.data) == {"name": "pen", "count": 2}
try:
    component.call("order", {"first": {"name": "ink", "count": 0}, "others": []})
    raise SystemExit("nothing is refused")
except Refusal as refusal:
    assert "greater than or equal to 1" in str(refusal), refusal
"##;

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs the toolchains: scripts/test languages"]
async fn k12_python_packages_bring_models_and_send_requests_through_the_host() {
    let server = Server::start().await;
    let place = tempfile::tempdir().unwrap();
    let project = python_project(place.path(), FETCH);
    let install = "python3 -m venv ../venv && ../venv/bin/pip install --quiet --target packages \
        --only-binary :all: --platform any requests==2.34.2 'pydantic<2'";
    let installed = Command::new("sh").args(["-c", install]).current_dir(&project).output().unwrap();
    assert!(installed.status.success(), "{}", String::from_utf8_lossy(&installed.stderr));
    fs::write(place.path().join("models.py"), MODELS).unwrap();
    let run = "venv/bin/pip install --quiet pydantic==2.14.3 && venv/bin/python models.py";
    let sdk = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../guest-sdk/python").canonicalize().unwrap();
    let ran = Command::new("sh")
        .args(["-c", run])
        .current_dir(place.path())
        .env("PYTHONPATH", sdk)
        .output()
        .unwrap();
    assert!(ran.status.success(), "{}", String::from_utf8_lossy(&ran.stderr));
    let origin = &server.origin;
    let config = format!("[grants.fetch-py]\nhttp = [\"{origin}/v1/\"]\n");
    fs::write(place.path().join("tollgate.toml"), config).unwrap();
    let built = command(place.path(), &["build", "tool"]).output().unwrap();
    assert!(built.status.success(), "{}", String::from_utf8_lossy(&built.stderr));

    let arguments = serde_json::json!({"api": origin}).to_string();
    let (success, answer, words) =
        said(&mut command(place.path(), &["call", "fetch_py", &arguments, "--json"]));
    assert!(success, "{answer}{words}");
    let answer = &serde_json::from_str::<serde_json::Value>(&answer).unwrap()["data"];
    assert_eq!(answer["statuses"], serde_json::json!([200, 200, 200]));
    for (way, part) in [
        ("posted", "does not allow this request"),
        ("https", "does not allow this request to https://localhost:1"),
        ("socket", "a component has no sockets; use tollgate.http"),
    ] {
        assert!(answer[way].as_str().unwrap().contains(part), "{way}: {answer}");
    }
    let order = |items: &str| {
        let arguments = format!(r#"{{"order": {{"customer": "Ada", "items": {items}}}}}"#);
        let (_, answer, words) =
            said(&mut command(place.path(), &["call", "order_py", &arguments, "--json"]));
        serde_json::from_str::<serde_json::Value>(&answer).unwrap_or_else(|_| panic!("{answer}{words}"))
    };
    let first = order(r#"[{"name": "ink", "size": [2, 3]}]"#);
    assert_eq!(first["data"], serde_json::json!({"name": "ink", "count": 1, "size": [2, 3]}));
    // The host refuses what the model's schema does.
    let refused = order(r#"[{"name": "ink", "count": 11}]"#).to_string();
    assert!(refused.contains("invalid_arguments"), "{refused}");
    let (_, answer, words) = said(&mut command(place.path(), &["call", "leave_py", "{}"]));
    assert!(words.contains("SystemExit: 3"), "{answer}{words}");
}

#[test]
#[ignore = "needs the toolchains: scripts/test languages"]
fn a_python_build_explains_a_missing_package_and_needs_no_packages_of_the_machine() {
    let place = tempfile::tempdir().unwrap();
    // The first `python3` on the path has this package.
    let site = place.path().join("site");
    fs::create_dir_all(&site).unwrap();
    fs::write(site.join("on_the_path.py"), "").unwrap();
    let python = place.path().join("bin/python3");
    fs::create_dir_all(python.parent().unwrap()).unwrap();
    fs::write(&python, format!("#!/bin/sh\necho {}\n", site.display())).unwrap();
    fs::set_permissions(&python, fs::Permissions::from_mode(0o755)).unwrap();
    let path = std::env::var_os("PATH").unwrap();
    let path =
        std::env::join_paths([place.path().join("bin")].into_iter().chain(std::env::split_paths(&path)));
    let path = path.unwrap();
    let words = |tool: &str| {
        python_project(place.path(), tool);
        let built = command(place.path(), &["build", "tool"]).env("PATH", &path).output().unwrap();
        assert!(!built.status.success());
        String::from_utf8(built.stderr).unwrap()
    };
    let said = words("import on_the_path\n");
    for part in
        ["No module named 'on_the_path'", "not compiled ones", "pip install --target packages on_the_path"]
    {
        assert!(said.contains(part), "{part}: {said}");
    }
    let said = words("import tollgate\n");
    assert!(said.contains("End tool.py with: Tool = component.export()"), "{said}");
}

#[test]
#[ignore = "needs the toolchains: scripts/test languages"]
fn a_python_syntax_error_is_found_before_the_build() {
    let place = tempfile::tempdir().unwrap();
    python_project(place.path(), "def tool(:\n");
    let built = command(place.path(), &["build", "tool"]).output().unwrap();
    let said = String::from_utf8(built.stderr).unwrap();
    let first = said.split("compiling with componentize-py").next().unwrap();
    assert!(!built.status.success() && first.contains("SyntaxError: invalid syntax"), "{said}");
}

/// Writes the project `tool`.
fn python_project(place: &Path, tool: &str) -> PathBuf {
    let project = place.join("tool");
    fs::create_dir_all(&project).unwrap();
    let sdk = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../guest-sdk/python").canonicalize().unwrap();
    let recipe = format!("language = \"python\"\nsource = \"tool.py\"\nsdk = \"{}\"\n", sdk.display());
    fs::write(project.join("tool.toml"), recipe).unwrap();
    fs::write(project.join("tool.py"), tool).unwrap();
    project
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs the toolchains: scripts/test languages"]
async fn k3_the_example_with_a_sphinx_docstring_is_a_tool() {
    let place = tempfile::tempdir().unwrap();
    fs::write(place.path().join("tollgate.toml"), "").unwrap();
    let search = Path::new(env!("CARGO_MANIFEST_DIR")).join("../examples/search").canonicalize().unwrap();
    let built = command(place.path(), &["build", search.to_str().unwrap()]).output().unwrap();
    assert!(built.status.success(), "{}", String::from_utf8_lossy(&built.stderr));
    let arguments = r#"{"query": "gate"}"#;
    let (success, answer, words) = said(&mut command(place.path(), &["call", "search", arguments, "--json"]));
    let answer: serde_json::Value = serde_json::from_str(&answer).unwrap();
    assert!(success && answer["data"][0]["title"] == "Gates", "{answer}{words}");
    let (_, tool, _) = said(&mut command(place.path(), &["tools", "search"]));
    assert!(tool.contains("The words to look for.") && !tool.contains(":param"), "{tool}");
}
