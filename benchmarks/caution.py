"""How far a threshold should pass its target on validation, so that it holds on other rows.

python benchmarks/caution.py SUITES/content.yaml

Logistic regressions on tf-idf stand in for encoders: they are trained in a minute, and badly calibrated. Validation and
test rows are thrown together and drawn anew six times. Only thresholds above zero count: where every answer may be
given, nothing was chosen.
"""

import sys
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.linear_model import LogisticRegression, SGDClassifier

from onepass.data.files import read_chunks
from onepass.heads import make_kind, thresholds
from onepass.tasks import Task, read_task_file

TARGET, DRAWS, ROWS = 0.9, 6, 6000


def cells(task: Task, path: Any, most: int | None = None) -> tuple[list[str], list[str]]:
    names = [task.text[0], task.label]
    chunks = [chunk.columns for chunk in read_chunks(Path(path), names)]
    texts, labels = ([str(cell) for chunk in chunks for cell in chunk[name]][:most] for name in names)
    return texts, labels


def logits_of(task: Task) -> tuple[Task, np.ndarray, np.ndarray, int]:
    """The task with its labels, the logits and the labels of validation and test rows, and how many are the first."""
    texts, labels = cells(task, task.train, ROWS)
    vectors = TfidfVectorizer(ngram_range=(1, 2), min_df=2, sublinear_tf=True, max_features=30000)
    many = len(set(labels)) > 15
    model = (
        SGDClassifier(loss="log_loss", alpha=1e-6, max_iter=30, random_state=0)
        if many
        else LogisticRegression(C=30, max_iter=200)
    )
    model.fit(vectors.fit_transform(texts), labels)
    names = list(model.classes_)
    found, targets, counts = [], [], []
    for path in (task.validation, task.test):
        pairs = [(text, label) for text, label in zip(*cells(task, path), strict=True) if label in names]
        scores = model.decision_function(vectors.transform([text for text, _ in pairs]))
        found.append(np.stack([np.zeros_like(scores), scores], -1) if scores.ndim == 1 else scores)
        targets += [names.index(label) for _, label in pairs]
        counts.append(len(pairs))
    return task.model_copy(update={"labels": tuple(names)}), np.concatenate(found), np.array(targets), counts[0]


def main(suite: str) -> None:
    reached: dict[tuple[str, float], list[float]] = {}
    for task in read_task_file(suite).tasks.values():
        if task.kind != "classification":
            continue
        task, logits, targets, count = logits_of(task)
        for draw in range(DRAWS):
            order = np.random.default_rng(draw).permutation(len(logits))
            chosen_on, other = order[:count], order[count:]
            calibration = make_kind(task).calibrate(task, logits[chosen_on], targets[chosen_on])
            for per in ("task", "label"):
                rule = {"target_precision": TARGET, "per": per}
                asked = task.model_copy(update={"options": {"threshold": rule}, "fitted": {"calibration": calibration}})
                kind = make_kind(asked)
                for caution in (0.0, 0.5, 1.0, 1.5):
                    thresholds.CAUTION = caution
                    limits = kind.choose_thresholds(asked, logits[chosen_on], targets[chosen_on])["thresholds"]
                    with_limits = asked.model_copy(update={"fitted": asked.fitted | {"thresholds": limits}})
                    mentions = kind.mentions(with_limits, logits[other], targets[other])
                    counted = {label: pair for label, pair in mentions.items() if limits[label]}
                    pairs = [tuple(map(sum, zip(*counted.values(), strict=True)))] if per == "task" and counted else []
                    shares = [right / given for given, right in (pairs or counted.values()) if given]
                    reached.setdefault((per, caution), []).extend(shares)
        print(task.name, file=sys.stderr)
    print(f"precision on other rows, target {TARGET:g}")
    for (per, caution), shares in reached.items():
        below = np.mean(np.array(shares) < TARGET - 0.02)
        figures = f"{len(shares)} thresholds, mean {np.mean(shares):.4f}, {below:.0%} below 0.88"
        print(f"per {per}, caution {caution:g}: {figures}")


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit("usage: python benchmarks/caution.py SUITES/content.yaml")
    main(sys.argv[1])
