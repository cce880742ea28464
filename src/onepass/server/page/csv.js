// Reading and writing csv in the browser.

export function parse(text) {
  text = text.replace(/^\ufeff/, "");
  const separator = guessSeparator(text);
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

function guessSeparator(text) {
  const first = text.slice(0, text.search(/[\r\n]|$/));
  const count = (c) => first.split(c).length;
  return [",", ";", "\t"].sort((a, b) => count(b) - count(a))[0];
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
