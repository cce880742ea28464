"""The script that adds tasks from few rows, on the tiny model."""

import importlib.util
from pathlib import Path
from types import ModuleType

import pytest

SCRIPT = Path(__file__).parents[2] / "benchmarks" / "few_shot.py"


@pytest.fixture
def few_shot() -> ModuleType:
    found = importlib.util.spec_from_file_location("few_shot", SCRIPT)
    assert found is not None and found.loader is not None
    module = importlib.util.module_from_spec(found)
    found.loader.exec_module(module)
    return module


def test_a_task_is_added_and_scored_beside_a_linear_head(few_shot: ModuleType, model: Path, suite: Path) -> None:
    suite.write_text(suite.read_text().replace("  topic:", "  subject:"))
    given = {"shots": [4, 0], "draws": 1, "ways": ["epochs=1"], "full_ways": ["epochs=1"], "device": "cpu"}
    lines = few_shot.added(str(suite), str(model), "subject", 0, given)
    assert [(line["way"], line["shots"]) for line in lines] == [
        ("linear_on_base", 4), ("linear_on_base", 0), ("added epochs=1", 4), ("added epochs=1", 0),
    ]  # fmt: skip
    assert all(0 <= line[split] <= 100 for line in lines for split in ("validation", "test"))


def test_a_line_that_a_kill_cut_short_is_made_anew(few_shot: ModuleType, tmp_path: Path) -> None:
    results = tmp_path / "results.jsonl"
    results.write_text('{"unit": "one", "test": 1.0}\n{"unit": "two", "te')
    pool = few_shot.Pool(1, results)
    assert pool.done == {"one"} and results.read_text().endswith('"te\n')
    pool.processes.shutdown()
