// Decides questions elsewhere, as another person does in the console.

export const BASE = process.env.TOLLGATE_URL;
export const KEY = process.env.TOLLGATE_KEY;
export const HEADERS = { Authorization: `Bearer ${KEY}` };

const pause = () => new Promise((resolve) => setTimeout(resolve, 50));
let cookie;

// Signs in with the operator's key, and returns the cookie of the session.
async function session() {
  const response = await fetch(`${BASE}/sign-in`, {
    method: "POST",
    headers: { "Content-Type": "application/json" },
    body: JSON.stringify({ code: process.env.TOLLGATE_OPERATOR }),
  });
  if (!response.ok) throw new Error(`sign-in: ${response.status}: ${await response.text()}`);
  return response.headers.get("set-cookie").split(";")[0];
}

// Says yes with the form of a question; waits while the run is busy with another answer.
export async function approve(run, suspension) {
  cookie ??= await session();
  // A boolean and an object with one boolean have different fields.
  const body = new URLSearchParams({ s: suspension, do: "answer", f: "true", "f.0": "true" });
  for (let attempt = 0; attempt < 200; attempt += 1) {
    const response = await fetch(`${BASE}/console/runs/${run}/decide`, {
      method: "POST", headers: { Cookie: cookie, Origin: BASE }, body, redirect: "manual",
    });
    if (response.status === 303) return;
    if (response.status !== 409) throw new Error(`${response.status}: ${await response.text()}`);
    await pause();
  }
  throw new Error(`${suspension} could not be decided`);
}

// Returns the newest run of a thread.
export async function runOf(thread) {
  const response = await fetch(`${BASE}/api/v1/runs?thread=${encodeURIComponent(thread)}`, { headers: HEADERS });
  return (await response.json()).items[0];
}

// Waits until the newest run of a thread is cancelled.
export async function cancelled(thread) {
  for (let attempt = 0; attempt < 1200; attempt += 1) {
    const { status } = await runOf(thread);
    if (status === "cancelled") return;
    if (status !== "running") throw new Error(`the run of ${thread} is ${status}`);
    await pause();
  }
  throw new Error(`the run of ${thread} goes on`);
}
