// The routes, from /openapi.json.

import { make } from "./answers.js";
import { address } from "./api.js";

const described = await (await fetch(address("/openapi.json"))).json();
const main = document.getElementById("main");
document.getElementById("state").textContent = `version ${described.info.version}`;

function curl(method, path, operation) {
  const body = operation.requestBody?.content?.["application/json"]?.schema?.example;
  const send = body ? ` \\\n  -H 'content-type: application/json' \\\n  -d '${JSON.stringify(body)}'` : "";
  return `curl${method === "get" ? "" : ` -X ${method.toUpperCase()}`} ${address(path)}${send}`;
}

for (const [path, methods] of Object.entries(described.paths)) {
  for (const [method, operation] of Object.entries(methods)) {
    const statuses = Object.entries(operation.responses || {}).map(([status, { description }]) => `${status} ${description}`);
    const shape = operation.responses?.["200"]?.content?.["application/json"]?.schema;
    main.append(make("article", { className: "card" },
      make("h2", {}, make("span", {}, make("span", { className: "method", textContent: method.toUpperCase() }), ` ${path}`)),
      make("p", { textContent: operation.description || operation.summary || "" }),
      make("pre", { textContent: curl(method, path, operation) }),
      make("details", {}, make("summary", { textContent: "answers" }), make("p", { textContent: statuses.join(" · ") }), ...(shape ? [make("pre", { textContent: JSON.stringify(shape, null, 1) })] : []))));
  }
}
