"""The checks of a server, each once on a tiny model: counts must hold anywhere, times only on idle cores."""

import shutil
from pathlib import Path

import pytest

from onepass.bench.serve import Bench
from onepass.errors import FolderError

COUNTS = {
    "disconnects": ["files back", "coroutines back"],
    "slow": ["all answered"],
    "poison": ["all neighbours", "all bad ones told"],
    "flood": ["none queued", "no 5xx"],
    "changes": ["all changes made", "broken ones refused", "no request failed", "every answer of one version"],
    "kills": ["no hung or broken socket", "no lie"],
    "drain": ["none lost", "exit 0"],
    "canaries": ["none in log", "none in metrics", "none in errors", "none in model folder"],
}


@pytest.mark.slow
def test_a_server_stands_every_check(model: Path, tmp_path: Path) -> None:
    from onepass.engine.export import export_model

    folder = Path(shutil.copytree(model, tmp_path / "model"))
    export_model(folder)
    bench = Bench(folder, threads=1, rounds=1, capacity=20)
    checks = {check.name: check for check in bench.run(list(COUNTS))}
    assert checks.keys() == COUNTS.keys()
    for name, goals in COUNTS.items():
        assert all(checks[name].goals[goal] for goal in goals), checks[name].told()


def test_what_is_no_model_is_named_as_it_was_given(tmp_path: Path) -> None:
    with pytest.raises(FolderError, match=rf"^{tmp_path} is no model folder"):
        Bench(tmp_path)
