// The page: tabs, and what each of them does.

import { call, labelled, Problem } from "./api.js";
import { card, cost, filter, make, offer, percent, shown } from "./answers.js";
import { fitted, line, oddRows, parse, read } from "./csv.js";

const $ = (id) => document.getElementById(id);
let info = {}, tasks = [];

// --- around everything ---------------------------------------------------------------------------------------------

function problem(error) {
  $("problem").hidden = !error;
  $("problem").textContent = error ? error.message : "";
}

async function guarded(button, work) {
  problem(null);
  button.disabled = true;
  try {
    await work();
  } catch (error) {
    if (error.name !== "AbortError") problem(error);
    if (!(error instanceof Problem) && error.name !== "AbortError") console.error(error.name);
  } finally {
    button.disabled = false;
  }
}

function onSubmit(form, work) {
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    const button = form.querySelector("button.main");
    if (!button.disabled) guarded(button, work);  // Ctrl + Enter asks the form, not its button
  });
  form.addEventListener("keydown", (event) => {
    if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) form.requestSubmit();
  });
}

function show(tab) {
  for (const other of document.querySelectorAll("[role=tab]")) {
    const selected = other === tab;
    other.setAttribute("aria-selected", selected);
    other.tabIndex = selected ? 0 : -1;
    $(other.getAttribute("aria-controls")).hidden = !selected;
  }
  problem(null);
}

const tabs = [...document.querySelectorAll("[role=tab]")];
for (const tab of tabs) {
  tab.addEventListener("click", () => show(tab));
  tab.addEventListener("keydown", (event) => {
    const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
    if (!step) return;
    const next = tabs[(tabs.indexOf(tab) + step + tabs.length) % tabs.length];
    next.focus();
    show(next);
  });
}

$("theme").addEventListener("click", () => {
  const dark = document.documentElement.dataset.theme ? document.documentElement.dataset.theme === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
  document.documentElement.dataset.theme = dark ? "light" : "dark";
  localStorage.setItem("onepass-theme", document.documentElement.dataset.theme);
});
if (localStorage.getItem("onepass-theme")) document.documentElement.dataset.theme = localStorage.getItem("onepass-theme");

// Whoever may change tasks can do so while the page is open.
async function keepUp(answer) {
  if (answer.revision !== info.revision) await refresh();
}

async function refresh() {
  [info, { tasks }] = await Promise.all([call("/info"), call("/tasks")]);
  $("model").textContent = info.name;
  $("state").textContent = `${tasks.length} tasks, revision ${info.revision}`;
  $("second-box").hidden = !tasks.some((task) => task.texts === 2);
  $("cannot-teach").hidden = info.admin;
  $("teach-form").hidden = !info.admin;
  $("offered").replaceChildren(...tasks.map(offer));
  filter($("offered").children, $("filter").value);
}

// --- try -----------------------------------------------------------------------------------------------------------

const EXAMPLES = [
  "Late goal sends City to the final",
  "Nobody answers the phone, again!",
  "Council approves the new bridge",
];

for (const text of EXAMPLES) {
  const button = make("button", { type: "button", className: "link", textContent: text });
  button.addEventListener("click", () => { $("text").value = text; $("try-form").requestSubmit(); });
  $("examples").append(button);
}

onSubmit($("try-form"), async () => {
  const inputs = [$("text").value];
  if (!$("second-box").hidden && $("second").value) inputs.push([$("text").value, $("second").value]);
  if (!tasks.some((task) => task.texts === 1)) inputs.shift();
  const answer = await call("/predict", { method: "POST", body: { inputs } });
  await keepUp(answer);
  const found = Object.assign({}, ...answer.results.map((result) => result.tasks || {}));
  const fault = answer.results.find((result) => result.error);
  if (fault) throw new Problem(500, fault.error.message);
  $("answers").replaceChildren(...Object.entries(found).map(([name, item]) => card(name, item)));
  $("offered").hidden = $("examples").hidden = true;
  $("legend").hidden = !$("answers").querySelector(".threshold");
  const cut = answer.results.some((result) => result.truncated);
  $("cost").replaceChildren(...cost(answer.times, Object.keys(found).length, info), ...(cut ? [make("p", { className: "cut", textContent: "The text was cut: it is longer than the model reads." })] : []));
  $("cost").hidden = false;
  filterAll();
});

function filterAll() {
  for (const place of ["answers", "offered"]) filter($(place).children, $("filter").value);
}
$("filter").addEventListener("input", filterAll);

// --- compare -------------------------------------------------------------------------------------------------------

function compared(name, left, right) {
  const changed = JSON.stringify(left.label) !== JSON.stringify(right.label);
  const words = (answer) => `${shown(answer)} ${percent(answer.score)}`.trim();
  let difference = "";
  if (typeof left.label === "number" && typeof right.label === "number") difference = (right.label - left.label).toFixed(3);
  else {
    const labels = Object.keys(left.scores || {});
    const most = labels.sort((a, b) => Math.abs(right.scores[b] - left.scores[b]) - Math.abs(right.scores[a] - left.scores[a]))[0];
    if (most) difference = `${most} ${right.scores[most] >= left.scores[most] ? "+" : "−"}${percent(Math.abs(right.scores[most] - left.scores[most]))}`;
  }
  const row = make("tr", { className: changed ? "changed" : "" }, ...[name, words(left), words(right), difference].map((text) => make("td", { textContent: text })));
  row.hidden = $("only-changed").checked && !changed;
  return row;
}

onSubmit($("compare-form"), async () => {
  const answer = await call("/predict", { method: "POST", body: { inputs: [$("left").value, $("right").value] } });
  await keepUp(answer);
  const [left, right] = answer.results;
  if (left.error || right.error) throw new Problem(500, (left.error || right.error).message);
  $("compared").hidden = false;
  $("compared").tBodies[0].replaceChildren(...Object.keys(left.tasks).map((name) => compared(name, left.tasks[name], right.tasks[name])));
});
$("only-changed").addEventListener("change", () => {
  for (const row of $("compared").tBodies[0].rows) row.hidden = $("only-changed").checked && !row.classList.contains("changed");
});

// --- a file --------------------------------------------------------------------------------------------------------

// A file that was mended is often chosen again: a browser says nothing of that if its name is the one that is there.
for (const id of ["csv", "rows-file"]) $(id).addEventListener("click", () => { $(id).value = ""; });

let table = null, stopping = null;
const CHUNK = 32;

$("csv").addEventListener("change", () => guarded($("label-file"), async () => {
  const file = $("csv").files[0];
  $("download").hidden = true;
  table = null;
  $("file-state").textContent = "";
  table = file ? { name: file.name, ...parse(await read(file)) } : null;
  const header = table ? table.header : [];
  $("column").replaceChildren(...header.map((name, place) => make("option", { value: place, textContent: name })));
  const guess = header.findIndex((name) => /^(text|headline|title|sentence|message|body)$/i.test(name));
  if (guess >= 0) $("column").value = guess;
  $("column").disabled = !header.length;
  const odd = table ? oddRows(table) : [];
  const cut = odd.length ? ` More or fewer cells than the header: ${numbered(odd)} Text with a separator in it needs quotes.` : "";
  $("file-state").textContent = table ? `${table.rows.length} rows, ${header.length} columns.${cut}` : "";
}));

function numbered(places) {
  const more = places.length > 5 ? ` and ${places.length - 5} more` : "";
  return `row ${places.slice(0, 5).map((place) => place + 1).join(", ")}${more}.`;
}

function cells(found, names) {
  return names.flatMap((name) => (found[name] ? [typeof found[name].label === "number" ? found[name].label : shown(found[name]), found[name].score] : ["", ""]));
}

function handOut(parts) {
  const link = $("download");
  URL.revokeObjectURL(link.href);
  link.href = URL.createObjectURL(new Blob(parts, { type: "text/csv" }));
  link.download = table.name.replace(/(\.\w+)?$/, "-labelled.csv");
  link.hidden = false;
}

onSubmit($("file-form"), async () => {
  if (!table || !table.rows.length) throw new Problem(0, "Choose a csv file with rows first.");
  const column = Number($("column").value), bar = $("file-progress"), all = table.rows.length, blank = [], unread = [];
  stopping = new AbortController();
  $("download").hidden = true;
  $("stop-file").hidden = bar.hidden = false;
  const size = Math.min(CHUNK, info.limits.max_texts), names = tasks.filter((task) => task.texts === 1).map((task) => task.name);
  const parts = [line([...table.header, ...names.flatMap((name) => [name, `${name}_score`])])];
  let done = 0;
  try {
    while (done < all) {
      const rows = table.rows.slice(done, done + size), asked = rows.filter((row) => row.length === table.header.length && row[column].trim());
      const results = asked.length ? await labelled(asked.map((row) => row[column]), names, stopping.signal) : [];
      const found = new Map(asked.map((row, place) => [row, results[place]]));
      for (const [place, row] of rows.entries()) {
        if (!found.has(row)) unread.push(done + place);
        else if (found.get(row).error) blank.push(done + place);
        parts.push(line([...fitted(row, table), ...cells(found.get(row)?.tasks || {}, names)]));
      }
      done += rows.length;
      bar.value = done / all;
      $("file-state").textContent = `${done} of ${all} rows`;
    }
  } finally {  // also of what was stopped or failed: what is done is not lost
    $("stop-file").hidden = bar.hidden = true;
    if (done) handOut(parts);
    const left = (why, places) => (places.length ? ` Left blank, ${why}: ${numbered(places)}` : "");
    $("file-state").textContent = `${done === all ? all : `${done} of ${all}`} rows are ${unread.length ? "done" : "labelled"}.`
      + left("without a text or with more or fewer cells than the header", unread) + left("since the model did not answer", blank);
  }
});
$("stop-file").addEventListener("click", () => stopping?.abort());

// --- teach ---------------------------------------------------------------------------------------------------------

let taught = null;

function typedRows() {
  return $("rows").value.split("\n").filter((text) => text.trim()).map((text, place) => {
    const found = text.match(/^\s*([^\t|]+?)\s*[\t|]\s*(.+?)\s*$/);
    if (!found) throw new Problem(0, `Line ${place + 1} is no label and text with a tab or “|” between them.`);
    return { label: found[1], text: found[2] };
  });
}

async function fileRows(file) {
  const { header, rows } = parse(await read(file));
  const [odd] = oddRows({ header, rows });
  if (odd !== undefined) throw new Problem(0, `Row ${odd + 1} of ${file.name} has ${rows[odd].length} cells, the header ${header.length}. Text with a separator in it needs quotes.`);
  const [text, label] = ["text", "label"].map((name) => header.findIndex((given) => given.trim().toLowerCase() === name));
  if (text < 0 || label < 0) throw new Problem(0, `The file needs the columns text and label; it has ${header.join(", ")}.`);
  return rows.filter((row) => row[text] && row[label]).map((row) => ({ text: row[text], label: row[label] }));
}

async function givenRows() {
  return [...typedRows(), ...($("rows-file").files[0] ? await fileRows($("rows-file").files[0]) : [])];
}

async function count() {
  const rows = await givenRows().catch(() => []), counts = new Map();
  for (const row of rows) counts.set(row.label, (counts.get(row.label) || 0) + 1);
  $("counted").textContent = rows.length ? `${rows.length} examples: ${[...counts].map(([label, number]) => `${label} ${number}`).join(", ")}` : "";
}
$("rows").addEventListener("input", count);
$("rows-file").addEventListener("change", count);

const STATES = { waiting: "It waits for another change.", running: "It learns.", loading: "The new version is being loaded and tried." };

onSubmit($("teach-form"), async () => {
  const rows = await givenRows(), name = $("name").value;
  if (!rows.length) throw new Problem(0, "Give some labelled examples first.");
  const again = `“${name}” is there already. Teach it anew, from these examples alone?`;
  if (tasks.some((task) => task.name === name) && !confirm(again)) return;
  const useKey = $("admin").value, bar = $("teach-progress");
  $("try-taught").hidden = true;
  bar.hidden = false;
  bar.value = 0;
  try {
    let job = await call(`/tasks/${encodeURIComponent(name)}`, { method: "PUT", body: { rows }, useKey });
    while (!["done", "failed"].includes(job.state)) {
      $("teach-state").textContent = STATES[job.state];
      bar.value = job.state === "loading" ? 1 : job.progress;
      await new Promise((resolve) => setTimeout(resolve, 300));
      job = await call(`/jobs/${job.number}`, { useKey });
    }
    if (job.state === "failed") throw new Problem(409, job.message);
    $("teach-state").replaceChildren(make("strong", { textContent: `“${name}” is learned and served, after ${job.seconds.toFixed(0)} s.` }), make("small", { textContent: job.message }));
    taught = name;
    $("try-taught").hidden = false;
    await refresh();
  } catch (error) {
    $("teach-state").textContent = "";
    throw error;
  } finally {
    bar.hidden = true;
  }
});
$("try-taught").addEventListener("click", () => {
  show($("tab-try"));
  $("filter").value = taught;
  $("text").focus();
});

// A server that still loads its model, or is being restarted, is asked again.
async function connect() {
  for (;;) {
    try {
      await refresh();
      return problem(null);
    } catch (error) {
      problem(error);
      if (error.status && error.status !== 503) return;
      await new Promise((resolve) => setTimeout(resolve, 1000));
    }
  }
}

connect();
