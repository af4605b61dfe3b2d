"""The module that componentize-py loads. It imports the library first, which changes modules of
Python that the tool then imports, and explains why an import failed."""

import sys

import tollgate  # noqa: F401

try:
    from MODULE import Tool  # noqa: F401
except ImportError as error:
    missing = error.name or ""
    if missing == "MODULE" and error.name_from == "Tool":
        error.add_note("End MODULE.py with: Tool = component.export()")
    elif missing.partition(".")[0] in sys.stdlib_module_names:
        error.add_note(f"Python in a component does not have {missing}.")
    else:
        error.add_note("A tool can use packages in pure Python, not compiled ones such as numpy.")
        if missing.partition(".")[0] in ("pydantic", "pydantic_core"):
            pure = "--only-binary :all: --platform any 'pydantic<2'"
            error.add_note(f"Pydantic 2 is compiled; for version 1, type: pip install --target packages {pure}")
        elif missing and "." not in missing:
            error.add_note(f"To add {missing}, type in the tool's directory: pip install --target packages {missing}")
    raise
