"""onepass info: what a model folder holds, read without its weights."""

from __future__ import annotations

from typing import Any

from onepass.cli.console import percent, show, table, write_json
from onepass.cli.options import Folder, Json

UNTOLD = {"version": "1", "calibration": "-", "threshold": "-"}


def info(
    folder: Folder,
    json: Json = False,
) -> None:
    """Show the tasks of a model, its encoder and its method."""
    from onepass.report.summary import summary

    found = summary(folder)
    if json:
        write_json(found)
        return
    rows = [_row(task) for task in found["tasks"]]
    # Eighty columns are narrow: what says the same of every task, and no more than by default, is left out.
    told = [key for key in rows[0] if any(row[key] != UNTOLD.get(key) for row in rows)]
    made = table(*told, numbers=("rows", "validation", "weights", "version"))
    made.columns[told.index("kind")].no_wrap = True
    for row in rows:
        made.add_row(*(row[key] for key in told))
    encoder = found["encoder"]
    show(
        f"encoder  {encoder['family']}, {encoder['layers']} layers, {encoder['width']} wide, "
        f"{encoder['max_length']} tokens, from {encoder['source']}",
        f"method   {_method(found['method'])}",
        f"passes   {_passes(found['passes_per_text'], len(rows))}",
        *_training_lines(found),
        *_engine_lines(found["engine"]),
        made,
    )


def _row(task: dict[str, Any]) -> dict[str, str]:
    """What is shown of a task, by column."""
    score = task["validation"]
    return {
        "task": task["name"],
        "kind": task["kind"],
        "labels": _shortened(task["labels"]) or "-",
        "rows": f"{task['rows'].get('train', 0):,}",
        "validation": f"{percent(score['score'])} {score['metric']}" if score else "-",
        "weights": f"{task['parameters']:,}",
        "version": str(task["version"]),
        "calibration": _calibration(task["calibration"]),
        "threshold": _threshold(task["threshold"], task["thresholds"]),
    }


def _passes(passes: int, tasks: int) -> str:
    if passes > 1:
        return f"{passes}, one a task"
    return "1 for its task" if tasks == 1 else f"1 for all {tasks} tasks"


def _engine_lines(engine: dict[str, Any]) -> list[str]:
    """What the folder's engine computes in, and why."""
    if not engine:
        return []
    gate = engine["gate"]
    if not gate:
        return ["engine   fp32"]
    if untried := ", ".join(engine["untried"]):
        return [
            f"engine   fp32 for now, though exported in {gate['precision']}: not tried in it: {untried}. Export again."
        ]
    parts = [gate["computed"], *map(tried_before, gate["tried"])]
    return [f"engine   {engine['precision']}; in 8 bits: {'; '.join(parts)}"]


def tried_before(tried: dict[str, Any]) -> str:
    """What of 8 or 16 bits was tried in vain, and for whom."""
    return f"tried before: {tried['computed']} ({', '.join(tried['failed'])} did not pass)"


def _training_lines(found: dict[str, Any]) -> list[str]:
    """What is worth knowing of the training."""
    problems: dict[str, list[str]] = {}  # by the advice that is given for them, which many tasks may share
    for alarm in found["alarms"]:
        problem, _, advice = alarm["message"].partition(". ")
        problems.setdefault(advice, []).append(f"alarm    {problem.rstrip('.')}.")
    lines = [line for advice, own in problems.items() for line in (*own, *([f"advice   {advice}"] if advice else []))]
    if found["rows_used"].get("share", 1.0) < 1.0:
        lines.insert(0, f"rows     {percent(100 * found['rows_used']['share'])} % of the training rows were used")
    return lines


def _method(method: dict[str, Any]) -> str:
    """A method with its options, and why those were chosen that were left open."""
    why = method.get("chosen", {})
    options = [f"{key}={value}" + (f" ({why[key]})" if key in why else "") for key, value in method["options"].items()]
    return " ".join([method["name"], ", ".join(options)]).rstrip()


def _calibration(known: dict[str, Any]) -> str:
    """How a task is calibrated, and its calibration error on validation before and after."""
    if known.get("form", "none") == "none":
        return "none" if known else "-"
    low, high = min(found := _values(known)), max(found)
    error = f", error {known['before']['ece']:.1f} to {known['after']['ece']:.1f}" if "before" in known else ""
    return f"temperature {low:.2f}" + (f" to {high:.2f}" if high > low else "") + error


def _values(known: dict[str, Any]) -> list[float]:
    return list(known["temperatures"].values()) if "temperatures" in known else [known["temperature"]]


def _threshold(option: Any, chosen: dict[str, float | None]) -> str:
    """What a task's threshold is to be, and what was chosen for it."""
    if not isinstance(option, dict):
        return "-" if option is None else f"{option:g}"
    goal = ", ".join(f"{key.replace('_', ' ')} {value}" for key, value in option.items())
    given = [value for value in chosen.values() if value is not None]
    shown = f": {min(given):.3f}" + (f" to {max(given):.3f}" if max(given) > min(given) else "") if given else ""
    never = f"; {len(chosen) - len(given)} of {len(chosen)} labels never given" if len(given) < len(chosen) else ""
    return goal + shown + never


def _shortened(labels: list[str], most: int = 6) -> str:
    return ", ".join(labels[:most]) + (f", ... ({len(labels)})" if len(labels) > most else "")
