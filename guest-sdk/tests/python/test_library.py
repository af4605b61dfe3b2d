"""The Python library as an author of tools sees it, without a sandbox."""

import enum
import unittest
from dataclasses import dataclass, field
from typing import Annotated, Any, Literal, NotRequired, Optional, TypedDict, Union

from tollgate import Answer, Bounds, Component, Context, StateKey, invalid_arguments, schema, words
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


if __name__ == "__main__":
    unittest.main()
