// Reading and writing csv in the browser.

import { Problem } from "/page/api.js";

export async function read(file) {
  try {
    return new TextDecoder("utf-8", { fatal: true }).decode(await file.arrayBuffer());
  } catch {
    throw new Problem(0, `${file.name} is not UTF-8, and its letters would come out wrong. Save it as UTF-8 and choose it again.`);
  }
}

export function parse(text) {
  text = text.replace(/^\ufeff/, "");
  return split(text, guessSeparator(text));
}

function split(text, separator) {
  const rows = [];
  let row = [], cell = "", quoted = false, any = false;
  for (let i = 0; i < text.length; i++) {
    const c = text[i];
    if (quoted) {
      if (c !== '"') cell += c;
      else if (text[i + 1] === '"') { cell += '"'; i++; }
      else quoted = false;
    } else if (c === '"' && cell === "") { quoted = true; any = true; }
    else if (c === separator) { row.push(cell); cell = ""; any = true; }
    else if (c === "\n" || c === "\r") {
      if (c === "\r" && text[i + 1] === "\n") i++;
      if (any || cell !== "") { row.push(cell); rows.push(row); }
      row = []; cell = ""; any = false;
    } else { cell += c; any = true; }
  }
  if (any || cell !== "") { row.push(cell); rows.push(row); }
  const header = rows.shift() || [];
  return { header, rows };
}

// As the command line does: of those in the header, the one by which most of the first rows have as many cells as it.
function guessSeparator(text) {
  const lines = text.split(/\r\n|\r|\n/).filter((line) => line.trim()).slice(0, 50);
  const header = (lines[0] || "").replace(/"[^"]*"/g, "");
  const found = [",", ";", "\t", "|"].filter((c) => header.includes(c));
  const fitting = (c) => {
    const { header, rows } = split(lines.join("\n"), c);
    return rows.filter((row) => row.length === header.length).length;
  };
  const spaced = (c) => header.includes(c + " ");
  return found.sort((a, b) => fitting(b) - fitting(a) || spaced(a) - spaced(b))[0] || ",";
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
