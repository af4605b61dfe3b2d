"""The story of an agent that Tollgate delegates to: on a server of another SDK, whose address is an argument."""

import json
import sys
import time
import urllib.request

from elsewhere import BASE, KEY, approve

agent, remote = sys.argv[1:]


def request(method, url, body=None, **headers):
    headers = {"Content-Type": "application/json", **headers}
    data = None if body is None else json.dumps(body).encode()
    with urllib.request.urlopen(urllib.request.Request(url, data, headers, method=method), timeout=60) as response:
        return json.loads(response.read() or "null")


def native(method, path, body=None):
    headers = {"Authorization": f"Bearer {KEY}", "Prefer": "respond-async"}
    return request(method, f"{BASE}/api/v1{path}", body, **headers)


[interface] = request("GET", f"{remote}/.well-known/agent-card.json")["supportedInterfaces"]


def task(task_id):
    version = {"A2A-Version": "1.0"}
    if interface["protocolBinding"] == "HTTP+JSON":
        return request("GET", f"{interface['url']}/{interface['tenant']}/tasks/{task_id}", **version)
    params = {"id": task_id, "tenant": interface["tenant"]}
    body = {"jsonrpc": "2.0", "id": 1, "method": "GetTask", "params": params}
    return request("POST", interface["url"], body, **version)["result"]


def until(found):
    for _ in range(1200):
        if value := found():
            return value
        time.sleep(0.05)
    raise AssertionError("it did not happen")


def start(said, thread):
    body = {"agent": agent, "input": said, "thread_id": f"{agent}-{thread}", "detached": True}
    return native("POST", "/runs", body)["run_id"]


def rested(run, *statuses):
    def found():
        summary = native("GET", f"/runs/{run}")
        return summary if summary["status"] in statuses else None

    return until(found)


def ids(run):
    """Returns the remote ids that the run's record has beside its own."""
    events = json.dumps(native("GET", f"/runs/{run}/events?limit=200"))
    return [part.split('"')[2].strip("\\") for part in events.replace('\\"', '"').split('"task_id')[1:]]


# Text, and the same remote conversation for the next message of a thread.
for count in (1, 2):
    done = rested(start("hello", "hello"), "completed", "failed")
    assert done["text"] == f"Message number {count}.", done
assert task(ids(done["run_id"])[0])["status"]["state"] == "TASK_STATE_COMPLETED"

# An answer without a task.
assert rested(start("message", "message"), "completed", "failed")["text"] == "No task was needed."

# A question of the remote agent is answered here, and the same task continues.
run = start("ask", "ask")
asked = rested(run, "waiting", "completed", "failed")
question = asked["questions"][0]
assert question["message"].endswith("asks: Which city?"), question
approve(run, question["suspension_id"], "Lisbon")
done = rested(run, "completed", "failed")
assert done["text"] == "Lisbon it is.", done
assert len(set(ids(run))) == 1, ids(run)

# A cancellation passes on.
run = start("slow", "slow")
slow = until(lambda: ids(run))[0]
native("POST", f"/runs/{run}/cancel", {})
rested(run, "cancelled")
until(lambda: task(slow)["status"]["state"] == "TASK_STATE_CANCELED")

# A failure has its reason.
failed = rested(start("fail", "fail"), "completed", "failed")
assert failed["status"] == "failed" and "The quota is used up." in json.dumps(failed), failed
print(f"a remote agent in {agent}: the story is done")
