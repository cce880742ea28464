"""The README.md of a model folder: what the model answers and how well."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from onepass.model import Model


def model_card(model: Model) -> str:
    """A model card with one row a task."""
    rows = []
    for task, record in zip(model.tasks, model.records, strict=True):
        scores = record.get("scores", {}).get("validation", {})
        score = f"{scores['score']:.1f} ({scores['metric']}, {scores['rows']} rows)" if scores else ""
        labels = ", ".join(task.labels[:12]) + (", ..." if len(task.labels) > 12 else "")
        labels = " ".join(labels.replace("|", "\\|").split())  # what would break the table
        rows.append(f"| {task.name} | {task.kind} | {labels} | {record.get('rows', {}).get('train', '')} | {score} |")
    passes = "one pass" if model.method.one_pass else f"{len(model.tasks)} passes"
    return f"""---
library_name: onepass
pipeline_tag: text-classification
---
# {len(model.tasks)} tasks, {passes}

Encoder: {model.source} ({model.method.encoder.config.family}). Method: {model.choice.name}.

| task | kind | labels | training rows | validation score |
|---|---|---|---|---|
{chr(10).join(rows)}

```python
import onepass

model = onepass.load("path/to/this/folder")
model.predict("A text")
```
"""
