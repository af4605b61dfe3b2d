//! Python's own means within a component: `async def`, `urllib.request`, `http.client`, models, and
//! parameters that are stated.

use crate::built::output_of_build;
use crate::projects::{command, said};
use crate::weather::Server;
use std::fs;
use std::path::Path;

const TOOL: &str = r#"
import asyncio
import http.client
import urllib.request

from tollgate import Component, Context, http as web

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
    let project = place.path().join("means");
    fs::create_dir(&project).unwrap();
    let sdk = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../guest-sdk/python").canonicalize().unwrap();
    let recipe = format!("language = \"python\"\nsource = \"tool.py\"\nsdk = \"{}\"\n", sdk.display());
    fs::write(project.join("tool.toml"), recipe).unwrap();
    fs::write(project.join("tool.py"), TOOL).unwrap();
    let origin = &server.origin;
    let config =
        format!("[grants.means-py]\nhttp = [\"{origin}/v1/\"]\nsettings = {{ api = \"{origin}\" }}\n");
    fs::write(place.path().join("tollgate.toml"), config).unwrap();
    let built = output_of_build(&mut command(place.path(), &["build", "means"]));
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

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs the toolchains: scripts/test languages"]
async fn k3_the_example_with_a_sphinx_docstring_is_a_tool() {
    let place = tempfile::tempdir().unwrap();
    fs::write(place.path().join("tollgate.toml"), "").unwrap();
    let search = Path::new(env!("CARGO_MANIFEST_DIR")).join("../examples/search").canonicalize().unwrap();
    let built = output_of_build(&mut command(place.path(), &["build", search.to_str().unwrap()]));
    assert!(built.status.success(), "{}", String::from_utf8_lossy(&built.stderr));
    let arguments = r#"{"query": "gate"}"#;
    let (success, answer, words) = said(&mut command(place.path(), &["call", "search", arguments, "--json"]));
    let answer: serde_json::Value = serde_json::from_str(&answer).unwrap();
    assert!(success && answer["data"][0]["title"] == "Gates", "{answer}{words}");
    let (_, tool, _) = said(&mut command(place.path(), &["tools", "search"]));
    assert!(tool.contains("The words to look for.") && !tool.contains(":param"), "{tool}");
}
