// Answers as cards with bars. Everything from outside goes in as text, never as markup.

const SHOWN = 6;

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
    make("h2", {}, make("span", { textContent: name }), make("small", { textContent: `version ${answer.version}` })),
    make("p", { className: "label" }, make("span", { textContent: shown(answer) }), make("small", { textContent: percent(answer.score) })));
  if (answer.abstained) element.append(make("p", {}, make("span", { className: "chip", textContent: `abstained${answer.reason ? `: ${answer.reason}` : ""}` })));
  element.append(...bars.slice(0, SHOWN));
  if (bars.length > SHOWN) element.append(make("details", {}, make("summary", { textContent: `${bars.length - SHOWN} more ${bars.length === SHOWN + 1 ? "label" : "labels"}` }), ...bars.slice(SHOWN)));
  element.dataset.find = `${name} ${scores.map(([label]) => label).join(" ")}`.toLowerCase();
  return element;
}

// What a task answers, before anything was asked.
export function offer(task) {
  const labels = task.labels.slice(0, 8).map((label) => make("span", { className: "tag", textContent: label }));
  if (task.labels.length > 8) labels.push(make("span", { className: "tag", textContent: `and ${task.labels.length - 8} more` }));
  const element = make("article", { className: "card offered" },
    make("h2", {}, make("span", { textContent: task.name }), make("small", { textContent: task.kind })),
    make("p", { className: "tags" }, ...(labels.length ? labels : ["a number"])));
  element.dataset.find = `${task.name} ${task.labels.join(" ")}`.toLowerCase();
  return element;
}

// One pass beside a pass for each task, as bars of time.
export function cost(times, count, info) {
  // Both times are measured, on a machine that may be busy: a pass for one task never costs more than one for all.
  const apart = count * times.run_ms * Math.min(1, info.one_task_ms / info.pass_ms);
  const ms = (value) => `${value < 10 ? value.toFixed(1) : value.toFixed(0)} ms`;
  const time = (name, value, className) => {
    const fill = make("div", { className: `fill ${className}` });
    fill.style.setProperty("--share", value / Math.max(apart, times.run_ms));
    return make("div", { className: "time" }, make("span", { textContent: name }), make("div", { className: "track" }, fill), make("strong", { textContent: ms(value) }));
  };
  const waited = times.queue_ms >= 1 ? ` It waited ${ms(times.queue_ms)} before.` : "";
  if (count < 2) return [time("One pass", times.run_ms, "one"), make("p", { textContent: waited })];
  const words = `${count} tasks in one pass. A pass for each, one a task, would take about ${(apart / times.run_ms).toFixed(1)} times as long.`;
  return [time("This pass", times.run_ms, "one"), time(`${count} passes`, apart, "many"), make("p", { textContent: words + waited })];
}

export function filter(cards, words) {
  const wanted = words.toLowerCase().split(/[\s,]+/).filter(Boolean);
  for (const element of cards) element.hidden = wanted.length > 0 && !wanted.some((word) => element.dataset.find.includes(word));
}
