// How the page talks to the server: JSON in and out, a key where one is needed, patience where it is asked for.

export class Problem extends Error {
  constructor(status, message) { super(message); this.status = status; }
}

// Where a path of the server is: a proxy may have put a prefix before it.
export const address = (path) => new URL("..", import.meta.url).href.slice(0, -1) + path;

let key = sessionStorage.getItem("onepass-key") || "";

function askForKey() {
  const dialog = document.getElementById("ask-key");
  const input = document.getElementById("key");
  return new Promise((resolve) => {
    dialog.addEventListener("close", () => {
      if (dialog.returnValue === "ok" && input.value) {
        key = input.value;
        sessionStorage.setItem("onepass-key", key);
        resolve(true);
      } else resolve(false);
    }, { once: true });
    dialog.showModal();
  });
}

export async function call(path, { method = "GET", body, type = "application/json", useKey, signal } = {}) {
  for (;;) {
    const headers = {};
    const given = useKey ?? key;
    if (given) headers["X-API-Key"] = given;
    if (body !== undefined) headers["Content-Type"] = type;
    let answer;
    try {
      answer = await fetch(address(path), { method, headers, signal, body: body === undefined || type !== "application/json" ? body : JSON.stringify(body) });
    } catch (error) {
      if (error.name === "AbortError") throw error;
      throw new Problem(0, "The server cannot be reached.");
    }
    if (answer.ok) return answer.json();
    const told = await answer.json().catch(() => ({}));
    const message = told.error?.message || `The server answered ${answer.status}.`;
    if (answer.status === 401 && useKey === undefined && await askForKey()) continue;
    const problem = new Problem(answer.status, message);
    problem.retryAfter = Number(answer.headers.get("Retry-After")) || 1;
    throw problem;
  }
}

// The same, waiting when the server is busy: for work that nobody watches letter by letter.
async function patiently(path, options) {
  for (;;) {
    try {
      return await call(path, options);
    } catch (problem) {
      if (problem.status !== 429 && problem.status !== 503) throw problem;
      await new Promise((resolve) => setTimeout(resolve, 1000 * problem.retryAfter));
    }
  }
}

// What is too much for the server at once is asked in halves, so that one text does not fail the others.
export async function labelled(inputs, names, signal) {
  try {
    return (await patiently("/predict", { method: "POST", body: { inputs, tasks: names }, signal })).results;
  } catch (error) {
    if (error.status !== 413) throw error;
    if (inputs.length === 1) return [{ error }];
    const half = inputs.length >> 1;
    return [...await labelled(inputs.slice(0, half), names, signal), ...await labelled(inputs.slice(half), names, signal)];
  }
}
