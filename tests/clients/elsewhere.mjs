// Decides questions elsewhere, as a person in the console does.

export const BASE = process.env.TOLLGATE_URL;
export const KEY = process.env.TOLLGATE_KEY;
export const HEADERS = { Authorization: `Bearer ${KEY}` };

// Answers a question with the native API; waits while the run is busy with another answer.
export async function decide(run, suspension, answer) {
  const path = `/api/v1/runs/${run}/questions/${encodeURIComponent(suspension)}`;
  for (let attempt = 0; attempt < 200; attempt += 1) {
    const response = await fetch(BASE + path, {
      method: "POST",
      headers: { ...HEADERS, "Content-Type": "application/json" },
      body: JSON.stringify({ answer: { resume: answer } }),
    });
    if (response.ok) return;
    if (response.status !== 409) throw new Error(`${response.status}: ${await response.text()}`);
    await new Promise((resolve) => setTimeout(resolve, 50));
  }
  throw new Error(`${suspension} could not be decided`);
}
