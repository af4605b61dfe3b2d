"""The Python library as an author of tools sees it, without a sandbox."""

import asyncio
import enum
import http.server
import importlib.util
import json
import sys
import threading
import time
import types
import unittest
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, Literal, NotRequired, Optional, TypedDict, Union

from tollgate import (
    Answer,
    Bounds,
    ChildOutcome,
    ChildRun,
    Component,
    Context,
    Refusal,
    StateKey,
    exported,
    host,
    invalid_arguments,
    schema,
    sockets,
    values,
    words,
)
from tollgate import http as web
from tollgate.values import json_of, typed


class Colour(enum.Enum):
    RED = "red"
    BLUE = "blue"


@dataclass
class Place:
    name: str
    zip: Optional[str]
    country: str = "CH"
    tags: list[str] = field(default_factory=lambda: ["new"])


@dataclass
class Node:
    value: int = 7
    children: Optional[list["Node"]] = None


class Range(TypedDict):
    low: Annotated[int, Bounds(0, 9), "Where it begins."]
    high: NotRequired[int]


PLACE = {
    "type": "object",
    "properties": {
        "name": {"type": "string"},
        "zip": {"type": "string"},
        "country": {"type": "string", "default": "CH"},
        "tags": {"type": "array", "items": {"type": "string"}, "default": ["new"]},
    },
    "required": ["name"],
    "additionalProperties": False,
}


class Schemas(unittest.TestCase):
    def of(self, hint: Any) -> dict:
        return schema.Schemas().of(hint, "test")

    def test_each_type_has_its_schema(self):
        for hint, wanted in [
            (str, {"type": "string"}),
            (Optional[int], {"type": "integer"}),
            (int | None, {"type": "integer"}),
            (Union[int, str], {"anyOf": [{"type": "integer"}, {"type": "string"}]}),
            (list, {"type": "array"}),
            (list[int], {"type": "array", "items": {"type": "integer"}}),
            (dict, {"type": "object"}),
            (dict[str, float], {"type": "object", "additionalProperties": {"type": "number"}}),
            (tuple[int, ...], {"type": "array", "items": {"type": "integer"}}),
            (
                tuple[int, str],
                {
                    "type": "array",
                    "prefixItems": [{"type": "integer"}, {"type": "string"}],
                    "minItems": 2,
                    "items": False,
                },
            ),
            (Literal[1, 2, 4], {"type": "integer", "enum": [1, 2, 4]}),
            (Literal["a", 1], {"enum": ["a", 1]}),
            (Colour, {"type": "string", "enum": ["red", "blue"]}),
            (Place, PLACE),
        ]:
            self.assertEqual(self.of(hint), wanted, hint)
        self.assertEqual(
            self.of(Range),
            {
                "type": "object",
                "properties": {
                    "low": {"type": "integer", "minimum": 0, "maximum": 9, "description": "Where it begins."},
                    "high": {"type": "integer"},
                },
                "required": ["low"],
                "additionalProperties": False,
            },
        )

    def test_a_type_that_holds_itself_is_a_definition(self):
        def tool(root: Node):
            pass

        found = schema.of_function(tool, Context)
        self.assertEqual(found["properties"]["root"], {"$ref": "#/$defs/Node"})
        children = {"type": "array", "items": {"$ref": "#/$defs/Node"}}
        self.assertEqual(found["$defs"]["Node"]["properties"]["children"], children)

    def test_what_no_schema_fits_is_named(self):
        with self.assertRaisesRegex(TypeError, "tool: things: there is no schema for <class 'set'>"):

            @Component("broken").tool()
            def tool(things: set):
                pass


class Values(unittest.TestCase):
    def test_each_value_is_of_its_type(self):
        place = {"name": "Bern"}
        for hint, given, wanted in [
            (Colour, "red", Colour.RED),
            (Place, place, Place("Bern", None)),
            (Optional[Place], place, Place("Bern", None, "CH", ["new"])),
            (list[Place], [place], [Place("Bern", None)]),
            (dict[str, Place], {"a": place}, {"a": Place("Bern", None)}),
            (tuple[int, Colour], [1, "blue"], (1, Colour.BLUE)),
            (tuple[Colour, ...], ["blue", "red"], (Colour.BLUE, Colour.RED)),
            (Union[int, Place, Colour], place, Place("Bern", None)),
            (Union[int, Place, Colour], "blue", Colour.BLUE),
            (Union[list[int], list[Place]], [place], [Place("Bern", None)]),
            (Union[str, bool, int], True, True),
            (Range, {"low": 1}, {"low": 1}),
            (float, 2, 2.0),
        ]:
            self.assertEqual(typed(hint, given), wanted, hint)
        root = typed(Node, {"children": [{"children": [{"value": 1}]}]})
        self.assertEqual((root.value, root.children[0].value, root.children[0].children[0].value), (7, 7, 1))

    def test_what_is_no_json_is_named(self):
        for value in [{1, 2}, object(), float("nan"), "\ud800", {(1, 2): 3}]:
            with self.assertRaisesRegex(TypeError, "^the answer cannot be written as JSON: "):
                json_of(value, "the answer")
        self.assertEqual(json_of({"a": (Colour.RED, Place("ä", None))}, ""), '{"a": ["red", {"name": "ä", '
            '"zip": null, "country": "CH", "tags": ["new"]}]}')


class Words(unittest.TestCase):
    def test_every_parameter_keeps_its_description(self):
        def tool(first: str, second: str, third: str, fourth: str, fifth: str):
            """Does it
            well.

            At length.

            Args:
                first: One line.
                second (str): A line that
                    goes on: twice,
                    and ends.

                third:
                    Begins below.
            Returns:
                nothing: at all
            * fourth - A bullet
              that goes on.
            :param str fifth: A field
                that goes on.
            """

        self.assertEqual(words.description(tool), "Does it well.")
        self.assertEqual(
            words.parameter_words(tool),
            {
                "first": "One line.",
                "second": "A line that goes on: twice, and ends.",
                "third": "Begins below.",
                "fourth": "A bullet that goes on.",
                "fifth": "A field that goes on.",
            },
        )

    def test_a_description_ends_where_the_parameters_begin(self):
        def tool(first: str):
            """Does it.
            Args:
                first: One.
            """

        self.assertEqual(words.description(tool), "Does it.")


component = Component("kit", state={"own": StateKey(initial=0)})


def check(text: str, place: Optional[Place], **_: Any) -> None:
    if text == "bad" and place is None:
        raise invalid_arguments("bad")


@component.tool(validate=check)
def use(ctx: Context, text: str, place: Optional[Place], count: int = 3, seen: list[str] = []) -> Any:
    """Uses what there is."""
    seen.append(text)
    ctx.update("own", Place(text, None))
    return {1} if text == "set" else [count, place, seen]


class State(unittest.TestCase):
    def test_anothers_key_is_only_read_unless_more_is_stated(self):
        for key, own, anothers in [
            (StateKey(), True, False),
            (StateKey(write=True), True, True),
            (StateKey(write=False), False, False),
        ]:
            self.assertEqual((key.is_written(is_own=True), key.is_written(is_own=False)), (own, anothers))


class Calls(unittest.TestCase):
    def test_what_is_absent_is_filled_and_shared_with_no_other_call(self):
        for _ in range(2):
            answer, context = component.call("use", {"text": "a"})
            self.assertEqual(answer, Answer("success", [3, None, ["a"]]))
        self.assertIn('"name": "a"', context.mutations[0][1])

    def test_validate_gets_the_same_arguments(self):
        component.validate_args("use", '{"text": "good"}')
        component.validate_args("use", '{"text": "bad", "place": {"name": "Bern"}}')
        with self.assertRaisesRegex(Exception, "bad"):
            component.validate_args("use", '{"text": "bad"}')

    def test_an_answer_that_is_no_json_is_named(self):
        with self.assertRaisesRegex(TypeError, "the answer of use cannot be written as JSON"):
            component.call("use", {"text": "set"})


class Powers(unittest.TestCase):
    def component(self, **state: StateKey) -> Component:
        return Component("one", state=state)

    def test_s10_a_calls_own_writes_are_visible_by_each_reducer(self):
        cases = [
            ("replace", "a", [2], [2]),
            ("merge-patch", {"a": {"b": 1, "c": 2}, "d": 3}, {"a": {"b": None, "e": 4}, "d": [5]}, {"a": {"c": 2, "e": 4}, "d": [5]}),
            ("append", [1], [2], [1, [2]]),
            ("add", 1, -3, -2),
            ("union", ["b"], ["c", "b", "a"], ["a", "b", "c"]),
            ("max", 3, 2, 3),
            ("max", 3, 3.5, 3.5),
        ]
        for reducer, value, update, after in cases:
            component = self.component(key=StateKey(reducer=reducer))

            @component.tool()
            def write(ctx: Context) -> Any:
                ctx.update("key", update)
                return ctx.read("key")

            answer, _ = component.call("write", {}, state={"one.key": value})
            self.assertEqual(answer.data, after, reducer)

    def test_a_key_without_a_value_has_its_initial_one(self):
        component = self.component(count=StateKey(initial=3, reducer="add"), secret=StateKey(initial=1, read=False))

        @component.tool()
        def write(ctx: Context) -> Any:
            before = ctx.read("count")
            ctx.update("count", 2)
            return [before, ctx.read("count"), ctx.read("secret"), ctx.read("other.key")]

        self.assertEqual(component.call("write", {})[0].data, [3, 5, None, None])
        self.assertEqual(component.call("write", {}, {"one.count": 7})[0].data, [7, 9, None, None])

    def test_k11_a_tool_may_be_an_async_def(self):
        component = self.component()

        @component.tool()
        async def late(text: str) -> list:
            """Waits."""
            first = asyncio.create_task(asyncio.sleep(0.01, "first"))
            return [await asyncio.wait_for(first, 5), text]

        @component.tool()
        async def never() -> None:
            await asyncio.get_running_loop().create_future()

        self.assertEqual(component.call("late", {"text": "then"})[0].data, ["first", "then"])
        with self.assertRaisesRegex(RuntimeError, "never happens"):
            component.call("never", {})

    def test_k13_parameters_may_be_stated(self):
        component = self.component()
        parameters = {"type": "object", "properties": {"n": {"type": "integer", "default": 2}}}

        @component.tool(description="Doubles.", parameters=parameters)
        def double(ctx: Context, **given: Any) -> int:
            """Not what the model reads."""
            return given["n"] * 2

        entry = component.tools["double"]
        self.assertEqual((entry.description, entry.parameters), ("Doubles.", parameters))
        self.assertEqual(component.call("double", {})[0].data, 4)
        self.assertEqual(component.call("double", {"n": 5})[0].data, 10)

    def test_k14_settings_and_child_agents(self):
        component = self.component()

        @component.tool()
        def ask(ctx: Context) -> Any:
            child = ctx.run_child(ChildRun("helper", "Do it.", seed={"a.b": 1})).completed()
            return [ctx.setting("api"), ctx.setting("other"), child.response]

        given = {"settings": {"api": "https://a.test"}, "children": [ChildOutcome(response="Done.")]}
        self.assertEqual(component.call("ask", {}, **given)[0].data, ["https://a.test", None, "Done."])
        with self.assertRaisesRegex(Refusal, "There is no agent `helper`"):
            component.call("ask", {})
        with self.assertRaisesRegex(Refusal, "The child agent failed: No tokens"):
            component.call("ask", {}, children=[ChildOutcome(status="failed", reason="No tokens")])

    def test_k12_a_pydantic_model_is_a_parameter(self):
        class Place:
            """The methods of a model that the library uses."""

            def __init__(self, name: str):
                self.name = name

            @classmethod
            def model_json_schema(cls) -> dict:
                return {"properties": {"name": {"$ref": "#/$defs/Name"}}, "$defs": {"Name": {"type": "string"}}}

            @classmethod
            def model_validate(cls, value: dict) -> "Place":
                if not value.get("name"):
                    raise ValueError("a name is missing")
                return cls(**value)

            def model_dump(self, mode: str) -> dict:
                return {"name": self.name}

        component = self.component()

        def visit(place, others):
            return [place, *others]

        visit.__annotations__ = {"place": Place, "others": list[Place]}
        component.tool()(visit)
        parameters = component.tools["visit"].parameters
        self.assertEqual(parameters["$defs"], {"Name": {"type": "string"}})
        self.assertEqual(parameters["properties"]["others"]["items"], {"properties": {"name": {"$ref": "#/$defs/Name"}}})
        answer, _ = component.call("visit", {"place": {"name": "a"}, "others": [{"name": "b"}]})
        self.assertEqual(values.plain(answer.data), [{"name": "a"}, {"name": "b"}])
        with self.assertRaisesRegex(Refusal, "a name is missing"):
            component.call("visit", {"place": {}, "others": []})

    def test_k12_a_build_explains_that_pydantic_2_is_compiled(self):
        entry = Path(__file__).parents[3] / "host/cli/src/project/languages/entry.py"
        code = compile(entry.read_text().replace("MODULE", "missing_import"), entry, "exec")

        class MissingImport(types.ModuleType):
            """A tool whose import fails."""

            def __getattr__(self, name: str):
                raise ImportError(name=self.missing)

        module = sys.modules["missing_import"] = MissingImport("missing_import")
        self.addCleanup(sys.modules.pop, "missing_import")
        # The last is named if the package is installed, but compiled for this machine.
        for module.missing in ["pydantic", "pydantic_core", "pydantic_core._pydantic_core"]:
            with self.assertRaises(ImportError) as raised:
                exec(code, {})
            self.assertIn("for version 1, type: pip install", raised.exception.__notes__[1])
        module.missing = "requests"
        with self.assertRaises(ImportError) as raised:
            exec(code, {})
        self.assertIn("pip install --target packages requests", raised.exception.__notes__[1])

    def test_a_model_of_pydantic_1_is_a_parameter(self):
        class Pair:
            """The methods of a model that the library uses."""

            __fields__ = {"items": None}

            def __init__(self, items: list):
                self.items = items

            @classmethod
            def schema(cls, ref_template: str) -> dict:
                items = [{"$ref": ref_template.format(model="Name")}, {"type": "integer"}]
                properties = {"items": {"type": "array", "items": items}}
                return {"properties": properties, "definitions": {"Name": {"type": "string"}}}

            @classmethod
            def parse_obj(cls, value: dict) -> "Pair":
                if len(value["items"]) != 2:
                    raise ValueError("a pair has two items")
                return cls(**value)

            def json(self) -> str:
                return json.dumps({"items": self.items})

        component = self.component()

        def swap(pair):
            return Pair(pair.items[::-1])

        swap.__annotations__ = {"pair": Pair}
        component.tool()(swap)
        parameters = component.tools["swap"].parameters
        self.assertEqual(parameters["$defs"], {"Name": {"type": "string"}})
        items = [{"$ref": "#/$defs/Name"}, {"type": "integer"}]
        self.assertEqual(parameters["properties"]["pair"]["properties"]["items"], {"type": "array", "prefixItems": items})
        answer, _ = component.call("swap", {"pair": {"items": ["a", 1]}})
        self.assertEqual(values.plain(answer.data), {"items": [1, "a"]})
        with self.assertRaisesRegex(Refusal, "a pair has two items"):
            component.call("swap", {"pair": {"items": []}})


class Handler(http.server.BaseHTTPRequestHandler):
    """Answers with what was asked; `/moved` redirects, `/slow` is late."""

    def do_GET(self):
        length = int(self.headers.get("content-length") or 0)
        body = json.dumps([self.command, self.path, self.headers.get("x-own"), self.rfile.read(length).decode()])
        if self.path == "/slow":
            time.sleep(0.5)
        status = 302 if self.path == "/moved" else 404 if self.path == "/gone" else 200
        self.send_response(status)
        self.send_header("location", "/there")
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        try:
            self.wfile.write(body.encode())
        except BrokenPipeError:
            pass  # It gave up, as a test wants it to.

    do_POST = do_GET

    def log_message(self, *_: Any) -> None:
        pass


class Requests(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        cls.origin = f"http://127.0.0.1:{cls.server.server_port}"
        threading.Thread(target=cls.server.serve_forever, daemon=True).start()

    @classmethod
    def tearDownClass(cls):
        cls.server.shutdown()
        cls.server.server_close()

    def test_requests_are_sent_and_redirects_followed(self):
        response = web.post(f"{self.origin}/a?x=1", params={"y": "a b"}, json={"n": 1}, headers={"X-Own": "1"})
        self.assertEqual(response.json(), ["POST", "/a?x=1&y=a+b", "1", '{"n": 1}'])
        moved = web.get(f"{self.origin}/moved")
        self.assertEqual((moved.json()[1], [one.status_code for one in moved.history]), ("/there", [302]))
        self.assertEqual(web.get(f"{self.origin}/moved", allow_redirects=False).status_code, 302)

    def test_errors_have_codes(self):
        for path, options, code in [
            ("/slow", {"timeout": 0.05}, "timed_out"),
            ("/a", {"max_bytes": 3}, "too_large"),
        ]:
            with self.assertRaises(web.HTTPError) as raised:
                web.get(self.origin + path, **options)
            self.assertEqual(raised.exception.code, code)
        for path, code in [("/gone", "not_found"), ("/moved", "redirected")]:
            with self.assertRaises(web.HTTPError) as raised:
                web.get(self.origin + path, allow_redirects=False).raise_for_status()
            self.assertEqual((raised.exception.code, raised.exception.is_transient), (code, False))
        with self.assertRaises(web.HTTPError) as raised:
            web.get("ftp://a.test/")
        self.assertEqual(raised.exception.code, "bad_request")
        # One that was not granted is a refusal, too, so that the call ends as refused.
        with self.assertRaises(Refusal) as raised:
            web.result_of(host.HttpFailure("denied", "Not granted."), web.prepared("GET", "https://a.test/"))
        self.assertEqual((raised.exception.kind, raised.exception.message), ("denied", "Not granted."))
        self.assertEqual((raised.exception.code, str(raised.exception)), ("denied", "Not granted."))

    def test_http_client_goes_through_the_host(self):
        spec = importlib.util.find_spec("http.client")
        client = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(client)
        sockets.adapt_client(client)
        connection = client.HTTPConnection(self.origin.removeprefix("http://"))
        connection.request("POST", "/b", iter([b"one ", b"two"]), {"x-own": "2"}, encode_chunked=True)
        response = connection.getresponse()
        self.assertEqual((response.status, json.loads(response.read())), (200, ["POST", "/b", "2", "one two"]))
        self.assertEqual(client.HTTPSConnection.default_port, 443)


class Errors(unittest.TestCase):
    def test_a_trace_begins_with_the_tools_own_code(self):
        component = Component("wrong")

        @component.tool()
        def late():
            import no_such_module  # noqa: F401

        @component.tool()
        def leaves():
            sys.exit(3)

        @component.tool()
        def unfit():
            return object()

        hint = "A call has no files to import from: import the module at the top of the file."
        for tool_name, first, last in [
            ("late", "in late", hint),
            ("leaves", "in leaves", "SystemExit: 3"),
            ("unfit", "in call", "TypeError: the answer of unfit cannot be written as JSON: "),
        ]:
            try:
                component.call(tool_name, {})
            except (Exception, SystemExit) as error:
                # The frame of this test comes before those of the library.
                error.__traceback__ = error.__traceback__.tb_next
                lines = exported.trace_of(error).splitlines()
            self.assertIn(first, lines[1])
            self.assertTrue(lines[-1].startswith(last), lines)


if __name__ == "__main__":
    unittest.main()
