"""The README and the pages under docs/ say what is so: their code runs, their links and option tables hold."""

import inspect
import re
import shutil
from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest
import typer
import yaml

import onepass
from onepass.cli.app import app
from onepass.examples import TASK_FILE
from onepass.heads import KINDS
from onepass.methods import METHODS
from onepass.recipes import RECIPES
from onepass.training.adding import AddOptions
from onepass.training.options import TrainOptions

ROOT = Path(__file__).parents[1]
PAGES = sorted([ROOT / "README.md", *(ROOT / "docs").rglob("*.md")])


def blocks(page: Path, language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", page.read_text(encoding="utf-8"), re.DOTALL)


@pytest.fixture(scope="module")
def workplace(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder in which the pages' commands make sense: a demo model, and a task file of a user."""
    folder = tmp_path_factory.mktemp("pages")
    small = ["train.epochs=1", "train.evaluate_every=1"]
    onepass.train(TASK_FILE, folder / "runs" / "demo", overrides=small, progress=False)
    (folder / "tasks.yaml").write_text(
        f"tasks:\n  form: {{train: {TASK_FILE.with_name('form.csv')}, text: text, label: label}}\n"
        "train: {epochs: 1}\n"
    )
    shutil.copytree(TASK_FILE.parent, folder / "tasks")
    return folder


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_python_code_in_the_pages_runs(page: Path, workplace: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(workplace)
    for code in blocks(page, "python"):
        names: dict[str, Any] = {}
        exec(compile(code, str(page), "exec"), names)


def commands() -> dict[str, set[str]]:
    """Every command, as it is typed, with its options."""
    found: dict[str, set[str]] = {}
    left: list[tuple[str, Any]] = [("", typer.main.get_command(app))]
    while left:
        name, command = left.pop()
        left += [(f"{name} {part}".strip(), inner) for part, inner in getattr(command, "commands", {}).items()]
        found[name] = {option for given in command.params for option in (*given.opts, *given.secondary_opts)}
    return found


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_commands_in_the_pages_have_the_options_they_are_given(page: Path) -> None:
    known = commands()
    for name, rest in re.findall(r"\bonepass ((?:bench )?[a-z]+)\b([^`\n|]*)", page.read_text(encoding="utf-8")):
        if name in known:
            assert set(re.findall(r"(?<!\S)--[a-z][a-z0-9-]+", rest)) <= known[name], f"onepass {name}{rest}"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_yaml_in_the_pages_is_valid(page: Path) -> None:
    for text in blocks(page, "yaml"):
        assert isinstance(yaml.safe_load(text), dict)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_between_pages_lead_somewhere(page: Path) -> None:
    for target in re.findall(r"\]\(([^)#]+)\)", page.read_text(encoding="utf-8")):
        assert target.startswith("http") or (page.parent / target).exists(), target


def test_the_readme_and_the_methods_page_list_every_method() -> None:
    for page in (ROOT / "README.md", ROOT / "docs" / "methods.md"):
        rows = re.findall(r"^\| `(\w+)` \|", page.read_text(encoding="utf-8"), re.MULTILINE)
        assert set(METHODS) <= set(rows), page


def test_the_readme_maps_every_part_of_the_library() -> None:
    (tree,) = re.findall(r"```\nsrc/onepass/\n(.*?)```", (ROOT / "README.md").read_text(encoding="utf-8"), re.DOTALL)
    parts = [path for path in (ROOT / "src" / "onepass").iterdir() if not path.name.startswith("__")]
    names = [f"{path.name}/" if path.is_dir() else path.name for path in parts if path.name != "py.typed"]
    assert [name for name in names if name not in tree] == []


def test_the_training_page_lists_every_option_with_its_default() -> None:
    text = (ROOT / "docs" / "training.md").read_text(encoding="utf-8")
    documented = set(re.findall(r"`(\w+)`", " ".join(re.findall(r"^\| (`.*?) \|", text, re.MULTILINE))))
    assert {field.name for field in fields(TrainOptions) if not field.name.startswith("_")} <= documented


def options_of(made: type) -> list[str]:
    signature = inspect.signature(made.__init__)  # type: ignore[misc]
    return [name for name, option in signature.parameters.items() if option.kind is option.KEYWORD_ONLY]


def test_pages_list_every_option_of_methods_and_kinds_and_of_adding() -> None:
    text = (ROOT / "docs" / "methods.md").read_text(encoding="utf-8")
    rows = dict(re.findall(r"^\| `(\w+)` \| (.*)$", text, re.MULTILINE))
    for name, method in METHODS.items():  # `of` is what a fine-tuning writes
        assert [one for one in options_of(method) if f"`{one}`" not in rows[name] and one != "of"] == [], name
    text = (ROOT / "docs" / "task-file.md").read_text(encoding="utf-8")
    for name, kind in KINDS.items():
        assert [one for one in options_of(kind) if f"`{one}`" not in text] == [], name
    text = (ROOT / "docs" / "living-models.md").read_text(encoding="utf-8")
    assert [field.name for field in fields(AddOptions) if f"`{field.name}`" not in text] == []


def test_the_task_file_page_lists_every_kind_and_metric() -> None:
    text = (ROOT / "docs" / "task-file.md").read_text(encoding="utf-8")
    for name, kind in KINDS.items():
        assert f"`{name}`" in text
        assert all(f"`{metric}`" in text for metric in kind.metrics), name


def test_the_page_on_known_sets_lists_every_recipe() -> None:
    rows = re.findall(r"^\| `(\w+)` \|", (ROOT / "docs" / "recipes.md").read_text(encoding="utf-8"), re.MULTILINE)
    assert rows == list(RECIPES)


def test_the_first_thirty_lines_of_the_readme_hold_what_a_newcomer_needs() -> None:
    head = "\n".join((ROOT / "README.md").read_text(encoding="utf-8").splitlines()[:30])
    assert all(
        word in head for word in ("make demo", "make test", "```python", "onepass train", "benchmarks/RESULTS.md")
    )
