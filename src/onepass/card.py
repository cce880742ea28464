"""The README.md of a model folder: what the model answers and how well."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from onepass.tasks import Task


def card(tasks: Sequence[Task], records: Sequence[Mapping[str, Any]], config: Mapping[str, Any]) -> str:
    """A model card with one row a task; `config` is the folder's config.json."""
    rows = []
    for task, record in zip(tasks, records, strict=True):
        scores = record.get("scores", {}).get("validation", {})
        score = f"{scores['score']:.1f} ({scores['metric']}, {scores['rows']} rows)" if scores else ""
        labels = ", ".join(task.labels[:12]) + (", ..." if len(task.labels) > 12 else "")
        labels = " ".join(labels.replace("|", "\\|").split())  # what would break the table
        rows.append(f"| {task.name} | {task.kind} | {labels} | {record.get('rows', {}).get('train', '')} | {score} |")
    encoder = config["encoder"]
    passes = "one pass" if config.get("one_pass", True) else f"{len(tasks)} passes"
    return f"""---
library_name: onepass
pipeline_tag: text-classification
---
# {len(tasks)} tasks, {passes}

Encoder: {encoder["source"]} ({encoder["config"]["family"]}). Method: {config["method"]["name"]}.

| task | kind | labels | training rows | validation score |
|---|---|---|---|---|
{chr(10).join(rows)}

```python
import onepass

model = onepass.load("path/to/this/folder")
model.predict("A text")
```
"""
