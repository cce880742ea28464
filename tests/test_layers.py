"""Imports point downwards, as CONTRIBUTING.md has it: no part of the library knows what is built on top of it.

Only imports that run when a module is loaded count: inside a function, a lower part may call for a higher one
(`Model.add_task` for the training), and type checkers may see anything.
"""

import ast
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

import onepass

ROOT = Path(onepass.__file__).parent
# From top to bottom; parts on one line do not know each other. A new module of src/onepass takes its place here.
LAYERS = (
    "__main__",
    "cli",
    "bench",
    "server report analysis",
    "engine",
    "living",
    "training",
    "folder loading filejob recipes",
    "model",
    "readout served calibration card asking",
    "inquiry",
    "methods heads where",
    "encoder data",
    "contents examples",
    "tasks",
    "atomic cached plain_yaml extras prediction hub",
    "errors",
)
DEPTH = {name: depth for depth, names in enumerate(LAYERS) for name in names.split()}


def parts() -> list[str]:
    return sorted({path.relative_to(ROOT).parts[0].removesuffix(".py") for path in ROOT.rglob("*.py")} - {"__init__"})


def loaded_with(statements: Sequence[ast.AST]) -> Iterator[str]:
    """The modules that are imported when these statements run."""
    for node in statements:
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield from (f"{node.module}.{alias.name}" for alias in node.names)
        elif not isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)) and not is_for_type_checkers(node):
            yield from loaded_with(list(ast.iter_child_nodes(node)))


def is_for_type_checkers(node: ast.AST) -> bool:
    return isinstance(node, ast.If) and isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING"


def known_to(part: str) -> Iterator[tuple[str, str]]:
    """The other parts that a part imports, each with the file that does."""
    files = [ROOT / f"{part}.py"] if (ROOT / f"{part}.py").is_file() else sorted((ROOT / part).rglob("*.py"))
    for file in files:
        for name in loaded_with(ast.parse(file.read_text(encoding="utf-8")).body):
            package, _, rest = name.partition(".")
            other = rest.partition(".")[0]
            if package == "onepass" and other in DEPTH and other != part:
                yield other, str(file.relative_to(ROOT))


def test_every_part_has_its_layer():
    assert set(parts()) == set(DEPTH)


@pytest.mark.parametrize("part", parts())
def test_a_part_knows_only_what_is_below_it(part):
    assert [(other, file) for other, file in known_to(part) if DEPTH[other] <= DEPTH[part]] == []


def test_an_import_upwards_would_be_seen():
    code = "if x:\n import onepass.model\nif TYPE_CHECKING:\n import onepass.cli\ndef f():\n import onepass.cli"
    assert list(loaded_with(ast.parse(code).body)) == ["onepass.model"]
