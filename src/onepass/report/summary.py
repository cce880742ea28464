"""All that a model folder says about itself, in one dictionary."""

from __future__ import annotations

from pathlib import Path
from typing import Any


def summary(folder: Path) -> dict[str, Any]:
    """What `info --json` shows."""
    from onepass.contents import read_config, read_tasks

    config, tasks = read_config(folder), read_tasks(folder)
    encoder, method = config["encoder"], config["method"]
    return {
        "folder": str(folder),
        "format": config["format"],
        "encoder": {
            "source": encoder["source"],
            "family": encoder["config"]["family"],
            "layers": encoder["config"]["depth"],
            "width": encoder["config"]["width"],
            "max_length": encoder["max_length"],
            "sha256": encoder["sha256"],
        },
        "method": method,
        "engine": engine_of(folder),
        "passes_per_text": 1 if _reads_once(config) else len(tasks),
        "tasks": [
            {
                "name": task["name"],
                "kind": task["kind"],
                "labels": task["labels"],
                "text": task["text"],
                "rows": task.get("rows", {}),
                "validation": task.get("scores", {}).get("validation", {}),
                "parameters": task["parameters"],
                "version": task["version"],
                "data": task.get("data"),
                "calibration": {**task["fitted"].get("calibration", {}), **task.get("calibration", {})},
                "threshold": task["options"].get("threshold"),
                "thresholds": task["fitted"].get("thresholds", {}),
                "reached": task.get("thresholds", {}).get("reached", {}),
            }
            for task in tasks
        ],
        "rows_used": config["training"].get("rows_used", {}),
        "alarms": _alarms(config, tasks),
        "versions": config["versions"],
    }


def _alarms(config: dict[str, Any], tasks: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """What the training said of tasks that are as it left them: not removed, nor trained anew since."""
    of_training = {task.get("trained_as", task["name"]): task["name"] for task in tasks if "added" not in task}
    found = []
    for alarm in config["training"].get("alarms", []):
        if (then := alarm["task"]) in of_training:
            now = of_training[then]  # the message begins with the name, too
            found.append(alarm | {"task": now, "message": now + alarm["message"].removeprefix(then)})
    return found


def _reads_once(config: dict[str, Any]) -> bool:
    """Whether the model reads a text once for all tasks; a folder of an early version does not say so."""
    if "one_pass" in config:
        return bool(config["one_pass"])
    from onepass.methods import METHODS  # brings torch, which a folder that is only looked at shall not need

    name, options = config["method"]["name"], config["method"]["options"]
    return name not in METHODS or METHODS[name].reads_once(options)


def engine_of(folder: Path) -> dict[str, Any]:
    """What a folder's engine computes in, which tasks keep it from 8 bits, and what its gate found; else nothing."""
    from onepass.atomic import read_json
    from onepass.contents import unjudged
    from onepass.loading import ENGINE, GATE, RANGES

    if not (folder / ENGINE).is_file():
        return {}
    gate = read_json(folder / GATE) if (folder / GATE).is_file() else {}
    untried = unjudged(folder, gate) if gate and (folder / RANGES).is_file() else []
    precision = "fp32" if untried else gate.get("precision", "fp32")
    return {"precision": precision, "untried": untried, "gate": gate}
