"""Looks at the runs whose clients left in the stories: each is cancelled ten seconds later."""

import json
import sys
import time
import urllib.parse
import urllib.request

from elsewhere import BASE, HEADERS


def status(thread):
    url = f"{BASE}/api/v1/runs?thread={urllib.parse.quote(thread)}"
    with urllib.request.urlopen(urllib.request.Request(url, headers=HEADERS), timeout=60) as response:
        return json.load(response)["items"][0]["status"]


for thread in sys.argv[1:]:
    for _ in range(1200):
        if (found := status(thread)) != "running":
            break
        time.sleep(0.05)
    assert found == "cancelled", (thread, found)
print(f"the runs of {len(sys.argv) - 1} clients that left were cancelled")
