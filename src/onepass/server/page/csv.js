// Reading and writing csv in the browser.

import { Problem } from "./api.js";

export async function read(file) {
  const bytes = await file.arrayBuffer().catch(() => { throw new Problem(0, `${file.name} cannot be read. If it was changed, choose it again.`); });
  try {
    return new TextDecoder("utf-8", { fatal: true }).decode(bytes);
  } catch {
    throw new Problem(0, `${file.name} is not UTF-8, and its letters would come out wrong. Save it as UTF-8 and choose it again.`);
  }
}

export function parse(text) {
  text = text.replace(/^\ufeff/, "");
  const separator = guessSeparator(text);
  const rows = separator === "\t" && !areQuoted(text) ? linesOf(text).map((line) => line.split("\t")) : [...split(text, separator)];
  const header = rows.shift() || [];
  return { header, rows, separator };
}

// The rows, one by one, until a quote is wrong: with it, it is open where all later cells begin and end.
function* split(text, separator) {
  let row = [], cell = "", opened = 0, closed = false, any = false, line = 1;
  for (let i = 0; i < text.length; i++) {
    const c = text[i];
    const end = c === "\r" || c === "\n";
    if (end && c === "\r" && text[i + 1] === "\n") { if (opened) cell += c; i++; }
    if (end) line++;
    if (opened) {
      if (c !== '"') cell += text[i];
      else if (text[i + 1] === '"') { cell += '"'; i++; }
      else { opened = 0; closed = true; }
    } else if (c === separator) { row.push(cell); cell = ""; closed = false; any = true; }
    else if (end) {
      if (any) yield [...row, cell];
      row = []; cell = ""; closed = any = false;
    } else if (closed) throw new Problem(0, `Line ${line}: quotes are wrong. A quote inside a quoted cell is written twice.`);
    else if (c === '"' && cell === "") { opened = line; any = true; }
    else { cell += c; any = true; }
  }
  if (opened) throw new Problem(0, `Line ${opened}: a quote is opened here and never closed.`);
  if (any) yield [...row, cell];
}

function linesOf(text) {
  return text.split(/\r\n|\r|\n/).filter((line) => line.trim());
}

// How many cells the rows of a text have, as far as its quotes are right.
function counts(text, separator) {
  const found = [];
  try {
    for (const row of split(text, separator)) found.push(row.length);
  } catch {}
  return found;
}

// Many files with tabs quote nothing: there each line has its cells as it is, and in one of them a quote would be wrong.
function areQuoted(text) {
  const [first, ...others] = linesOf(text), width = first.split("\t").length;
  const lines = others.filter((line) => line.includes('"'));
  const wrong = lines.some((line) => counts(line, "\t")[0] !== width);
  return !wrong || lines.some((line) => line.split("\t").length !== width);
}

// As the command line does: of those in the header, the one by which most of the first rows have as many cells as it.
function guessSeparator(text) {
  const lines = linesOf(text).slice(0, 50);
  const header = (lines[0] || "").replace(/"[^"]*"/g, "");
  const found = [",", ";", "\t", "|"].filter((c) => header.includes(c));
  const fitting = (c) => {
    const [width, ...others] = counts(lines.join("\n"), c);
    return others.filter((other) => other === width).length;
  };
  const spaced = (c) => header.includes(c + " ");
  return found.sort((a, b) => fitting(b) - fitting(a) || spaced(a) - spaced(b))[0] || ",";
}

// The rows of more or fewer cells than the header: they were cut in the wrong places, and which is the text is open.
export function oddRows({ header, rows }) {
  return [...rows.keys()].filter((place) => rows[place].length !== header.length);
}

// All cells of a row, in as many columns as the header has.
export function fitted(row, { header, separator }) {
  const last = header.length - 1;
  return header.map((_, i) => (i < last ? row[i] : row.slice(last).join(separator)) ?? "");
}

// A cell that a spreadsheet would take for a formula gets an apostrophe, and quotes where csv needs them.
export function cell(value) {
  let text = value === null || value === undefined ? "" : String(value);
  if (typeof value !== "number" && /^[=+\-@\t\r\0]/.test(text)) text = "'" + text;
  return /[",\r\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
}

export function line(cells) {
  return cells.map(cell).join(",") + "\r\n";
}
