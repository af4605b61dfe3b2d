"""Runs the conformance tests of `llm-comply` for chat completions and responses."""

import json
import pathlib
import subprocess
import sys

from elsewhere import BASE, KEY

# An agent reads text only, and its tools run on the server: a request cannot bring its own.
EXPECTED_FAILURES = {
    "openai-chat": {"chat-tool-calling", "chat-image-input"},
    "open-responses": {"tool-calling", "image-input"},
}
# Left out by `llm-comply` for models whose names are not those of OpenAI's reasoning models.
EXPECTED_SKIPS = {"openai-chat": {"chat-reasoning-summary"}, "open-responses": {"reasoning-summary"}}
program = pathlib.Path(sys.executable).parent / "llm-comply"
for kind, expected in EXPECTED_FAILURES.items():
    options = ["--base-url", f"{BASE}/v1", "--api-key", KEY, "--model", "assistant", "--format", kind, "--json"]
    output = subprocess.run([program, *options], capture_output=True, text=True, check=False).stdout
    results = json.loads(output)["results"]
    failed = {result["id"] for result in results if result["status"] == "failed"}
    assert failed == expected, [result for result in results if result["id"] in failed ^ expected]
    skipped = {result["id"] for result in results if result["status"] == "skipped"}
    assert skipped == EXPECTED_SKIPS[kind], skipped
    passed = sum(result["status"] == "passed" for result in results)
    print(f"llm-comply, {kind}: {passed} tests passed, {len(failed) + len(skipped)} do not apply")
