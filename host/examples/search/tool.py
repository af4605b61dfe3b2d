"""A tool with a Sphinx docstring: `tollgate build`, then
`tollgate call search '{"query": "gate"}'`."""

from tollgate import Component

component = Component("search")

PAGES = {
    "Gates": "A gate decides whether a call may run.",
    "Hooks": "A hook adds something to a call.",
    "State": "A key belongs to its component.",
}


@component.tool(idempotent=True)
def search(query: str, limit: int = 5) -> list[dict]:
    """Searches the documentation.

    :param query: The words to look for.
    :param limit: The maximum number of results.
    :return: The pages that contain the words.
    """
    found = [{"title": title, "text": text} for title, text in PAGES.items() if query.lower() in text.lower()]
    return found[:limit]


Tool = component.export()
