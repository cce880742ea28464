"""The commands add, update, remove, rename and copy."""

import json
import shutil

import pytest

TONES = "text,label\n" + "\n".join(f"good match {n},glad\nbad vote {n},sad" for n in range(12)) + "\n"


@pytest.fixture
def own(model, tmp_path):
    """A model folder of the test's own, and data for one more task."""
    shutil.copytree(model, tmp_path / "model")
    (tmp_path / "mood.csv").write_text(TONES)
    (tmp_path / "mood.yaml").write_text("tasks:\n  mood: {train: mood.csv, text: text, label: label}\n")
    return tmp_path / "model"


def names(run, folder):
    return [task["name"] for task in json.loads(run("info", folder, "--json").stdout)["tasks"]]


def test_a_task_comes_changes_its_name_and_goes(run, own):
    before = names(run, own)
    added = run("add", own, own.parent / "mood.yaml", "epochs=1")
    assert added.exit_code == 0, added.stderr
    assert added.stdout.startswith("proof: ") and added.stdout.count("\n") == 1
    assert "mood: added" in added.stderr
    assert run("predict", own, "good match", "--json").exit_code == 0
    assert run("update", own, "mood", "epochs=1", "--quiet").exit_code == 0
    assert json.loads(run("info", own, "--json").stdout)["tasks"][-1]["version"] == 2
    assert run("rename", own, "mood", "temper").exit_code == 0
    assert names(run, own) == [*before, "temper"]
    assert run("remove", own, "temper").exit_code == 0
    assert names(run, own) == before


def test_an_update_tells_of_other_labels(run, own):
    assert run("add", own, own.parent / "mood.yaml", "epochs=1").exit_code == 0
    more = own.parent / "more.csv"
    more.write_text(TONES.replace("sad", "cross"))
    updated = run("update", own, "mood", "--train", more, "epochs=1", "--json")
    assert json.loads(updated.stdout)["labels"] == ["glad", "sad", "cross"]
    assert "warning: mood: the rows have new labels" in updated.stderr and "no row has the labels sad" in updated.stderr
    updated = run("update", own, "mood", "--replace-labels", "epochs=1", "--json")
    assert json.loads(updated.stdout)["labels"] == ["cross", "glad"] and not updated.stderr
    more.write_text(TONES.replace("sad", "0").replace("glad", "1"))
    refused = run("update", own, "mood", "epochs=1")
    assert (refused.exit_code, refused.stdout) == (2, "") and "--replace-labels" in refused.stderr


def test_one_task_is_given_on_the_command_line(run, own):
    data = own.parent / "mood.csv"
    done = run(
        "add", own, "--name", "mood", "--train", data, "--text", "text", "--label", "label", "epochs=1", "--json"
    )
    found = json.loads(done.stdout)
    assert found["added"] == ["mood"] and found["proof"]["change"] == 0.0


def test_a_task_is_copied(run, own, model):
    assert run("copy", model, "topic", own, "--as", "subject").exit_code == 0
    assert names(run, own)[-1] == "subject"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["add", "MODEL"], "either a task file, or one task with --name"),
        (["add", "MODEL", "mood.yaml", "--name", "x"], "either a task file, or one task with --name"),
        (["add", "MODEL", "mood.yaml", "--label", "x"], "--label is for one task"),
        (["add", "MODEL", "mood.yaml", "epoch=1"], "Did you mean 'epochs'"),
        (["add", "MODEL", "mood.yaml", "word"], "key=value"),
        (["add", "MODEL", "--name", "mood", "--text", "text"], "faults"),
        (["add", "MODEL", "--name", "mood", "epochs"], "'epochs'; options are written as key=value"),
        (["add", "MODEL", "--name", "mood", "tasks.mood.metric=f1"], "'tasks.mood.metric=f1' is for a task file"),
        (["add", "MODEL", "mood.yaml", "epochs={"], "'epochs={': "),
        (["add", "MODEL", "mood.yaml", "seed=4294967296"], "a whole number from 0 to 4294967295"),
        (["add", "MODEL", "mood.yaml", f"epochs={10**400}"], "a number from 0"),
        (["add", "nowhere", "mood.yaml"], "no model folder"),
        (["add", "MODEL", "nothing.yaml"], "no task file"),
        (["remove", "MODEL", "topc"], "Did you mean 'topic'"),
        (["rename", "MODEL", "topic", "tone"], "already"),
        (["rename", "MODEL", "topic", "My Topic"], "Did you mean 'my_topic'?"),
        (["update", "MODEL", "topc"], "Did you mean 'topic'"),
        (["copy", "MODEL", "topic", "MODEL"], "already"),
    ],
)
def test_mistakes_are_explained_and_nothing_changes(run, own, monkeypatch, arguments, message):
    monkeypatch.chdir(own.parent)
    before = (own / "MANIFEST.json").read_bytes()
    done = run(*(str(own) if argument == "MODEL" else argument for argument in arguments))
    assert (done.exit_code, done.stdout) == (2, "")
    assert message in done.stderr
    assert (own / "MANIFEST.json").read_bytes() == before


def test_a_change_without_its_proof_is_not_made_and_exits_with_1(run, own, monkeypatch):
    before = (own / "MANIFEST.json").read_bytes()
    monkeypatch.setattr("onepass.living.change.largest_change", lambda *_: float("nan"))
    done = run("remove", own, "topic")
    assert (done.exit_code, done.stdout) == (1, "")
    assert "Nothing was changed" in done.stderr
    assert (own / "MANIFEST.json").read_bytes() == before


def test_an_update_needs_no_old_test_file_and_takes_a_share_for_validation(run, own):
    for name in ("validation", "test"):
        (own.parent / f"{name}.csv").write_text(TONES)
    task = own.parent / "mood.yaml"
    task.write_text(task.read_text().replace("mood.csv", "mood.csv, validation: validation.csv, test: test.csv"))
    assert run("add", own, task, "epochs=1").exit_code == 0
    for name in ("validation", "test"):
        (own.parent / f"{name}.csv").unlink()
    refused = run("update", own, "mood", "epochs=1")
    assert refused.exit_code == 2 and "validation: there is no file" in refused.stderr
    updated = run("update", own, "mood", "epochs=1", "--validation", "0.2")
    assert updated.exit_code == 0, updated.stderr
    assert "there is no test file" in updated.stderr


def test_a_name_that_is_taken_comes_with_the_advice_of_its_command(run, own):
    assert "onepass update" in run("add", own, "--name", "topic", "--train", own.parent / "mood.csv", "--text", "text",
                                   "--label", "label").stderr  # fmt: skip
    assert "--as" in run("copy", own, "topic", own).stderr
    assert run("rename", own, "topic", "tone").stderr.strip().endswith("Choose another name.")
