"""Runs that learn new tasks on a model trained on others."""

import json
from pathlib import Path
from typing import Any

import pytest
import torch

from onepass.bench.transfer import TransferRun, new_tasks_of, run_transfer
from onepass.errors import ConfigError
from onepass.model import Model

SMALL = ("train.epochs=1", "train.evaluate_every=1")


def test_new_tasks_are_those_named_or_the_last_of_the_suite() -> None:
    assert new_tasks_of(["a", "b", "c"], ["c", "a"]) == ("a", "c")
    assert new_tasks_of(["a", "b"], ["a", "b"]) == ("a",)  # one has to be there first
    assert new_tasks_of(list("abcdefgh"), ["x"]) == ("g", "h")
    with pytest.raises(ConfigError, match="one task"):
        new_tasks_of(["a"], [])


def test_every_way_of_learning_a_new_task_leaves_a_cell(suite: Path) -> None:
    ways = [{"share": 0.5}, {"share": 1.0, "like": {"same": "topic"}, "learn": "own"}, {"share": 0.0, "like": "each"}]
    run = TransferRun(str(suite), "camtl", 0, SMALL, new=("same",), ways=tuple(json.dumps(way) for way in ways))
    found = run_transfer(run)
    assert found["key"] == run.key
    cells = [(cell["share"], cell["like"], cell["each"]) for cell in found["cells"]]
    assert cells == [(0.5, "", False), (1.0, "topic", False), (0.0, "topic", True), (0.0, "tone", True)]
    assert all(0 <= cell["test"] <= 100 for cell in found["cells"])


def test_a_model_without_a_base_learns_the_new_task_alone(suite: Path) -> None:
    run = TransferRun(
        str(suite), "single", 0, SMALL, new=("topic",), base=False, ways=(json.dumps({"like": "similar"}),)
    )
    (cell,) = run_transfer(run)["cells"]
    assert (cell["task"], cell["like"]) == ("topic", "")


def test_a_task_with_several_answers_a_row_has_no_most_similar_one(suite: Path) -> None:
    rows = [{"tokens": ["late", "goal", str(n)], "tags": ["O", "B-x", "O"]} for n in range(12)]
    suite.with_name("tags.jsonl").write_text("\n".join(map(json.dumps, rows)))
    keys = "train: tags.jsonl, test: tags.jsonl, text: tokens, label: tags, kind: tagging"
    suite.write_text(suite.read_text().replace("tasks:\n", f"tasks:\n  tags: {{{keys}}}\n"))
    run = TransferRun(str(suite), "mttag", 0, SMALL, new=("tags",), ways=(json.dumps({"like": "similar"}),))
    (cell,) = run_transfer(run)["cells"]
    assert (cell["task"], cell["like"]) == ("tags", "")


def test_the_seed_rules_a_run(suite: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    learned: list[list[torch.Tensor]] = []

    def noted(model: Model, *_: Any) -> float:
        learned.append([parameter.detach().clone() for parameter in model.parameters()])
        return 0.0

    monkeypatch.setattr("onepass.analysis.sources.mean_score", noted)
    run = TransferRun(str(suite), "prefix", 3, SMALL, new=("topic",), protocol="one_by_one", rows=8)
    for noise in (1, 2):
        torch.manual_seed(noise)
        run_transfer(run)
    for first, second in zip(learned[:4], learned[4:], strict=True):
        assert all(torch.equal(one, other) for one, other in zip(first, second, strict=True))


def test_sources_are_removed_and_both_choices_reported(suite: Path) -> None:
    run = TransferRun(str(suite), "prefix", 0, SMALL, new=("topic",), protocol="removal")
    cells = {cell["way"]: cell for cell in run_transfer(run)["cells"]}
    assert list(cells) == ["all", "chosen-1", "chosen-2", "oracle-1", "oracle-2"]
    assert cells["all"]["removed"] == []
    assert cells["oracle-2"]["test"] >= cells["oracle-1"]["test"] >= cells["all"]["test"]
    assert cells["oracle-2"]["test"] >= cells["chosen-2"]["test"]


def test_sources_come_one_by_one_against_training_all_anew(suite: Path) -> None:
    run = TransferRun(
        str(suite), "prefix", 0, SMALL, new=("topic",), protocol="one_by_one", rows=8, order=("same", "tone")
    )
    ways = [cell["way"] for cell in run_transfer(run)["cells"]]
    assert ways == ["prefix-1", "multitask-1", "prefix-2", "multitask-2"]
