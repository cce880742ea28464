// Answers as cards with bars. Everything from outside goes in as text, never as markup.

const SHOWN = 5;

export function make(tag, properties = {}, ...children) {
  const element = Object.assign(document.createElement(tag), properties);
  element.append(...children);
  return element;
}

export function percent(value) {
  return value === null || value === undefined ? "" : `${(100 * value).toFixed(value > 0.0995 || value === 0 ? 0 : 1)} %`;
}

export function shown(answer) {
  const label = answer.label;
  if (label === null) return "no answer";
  if (Array.isArray(label)) return label.length ? label.map((item) => (typeof item === "object" ? item.text ?? item.label ?? "" : item)).join(", ") : "none";
  if (typeof label === "number") return label.toFixed(3);
  if (typeof label === "object") return label.text ?? JSON.stringify(label);
  return label;
}

function bar(name, score, chosen, threshold) {
  const fill = make("div", { className: "fill" });
  fill.style.setProperty("--share", Math.max(0, Math.min(1, score)));
  const track = make("div", { className: "track" }, fill);
  if (typeof threshold === "number") {
    const mark = make("div", { className: "threshold", title: `threshold ${percent(threshold)}` });
    mark.style.setProperty("--at", threshold);
    track.append(mark);
  }
  return make("div", { className: chosen ? "bar best" : "bar" },
    make("span", { className: "name", textContent: name, title: name }), track,
    make("span", { className: "value", textContent: percent(score) }));
}

export function card(name, answer) {
  const scores = Object.entries(answer.scores || {}).sort((a, b) => b[1] - a[1]);
  const chosen = new Set(Array.isArray(answer.label) ? answer.label : [answer.label]);
  const limit = (label) => (answer.threshold && typeof answer.threshold === "object" ? answer.threshold[label] : chosen.has(label) || answer.abstained ? answer.threshold : null);
  const bars = scores.map(([label, score]) => bar(label, score, chosen.has(label), limit(label)));
  const element = make("article", { className: answer.abstained ? "card abstained" : "card" },
    make("h2", {}, make("span", { textContent: name }), make("small", { textContent: `v${answer.version}` })),
    make("p", { className: "label", textContent: shown(answer) }));
  if (answer.abstained) element.append(make("p", {}, make("span", { className: "chip", textContent: `abstained${answer.reason ? `: ${answer.reason}` : ""}` })));
  element.append(...bars.slice(0, SHOWN));
  if (bars.length > SHOWN) element.append(make("details", {}, make("summary", { textContent: `${bars.length - SHOWN} more ${bars.length === SHOWN + 1 ? "label" : "labels"}` }), ...bars.slice(SHOWN)));
  element.dataset.find = `${name} ${scores.map(([label]) => label).join(" ")}`.toLowerCase();
  return element;
}

export function filter(cards, words) {
  const wanted = words.toLowerCase().split(/[\s,]+/).filter(Boolean);
  for (const element of cards) element.hidden = wanted.length > 0 && !wanted.some((word) => element.dataset.find.includes(word));
}
