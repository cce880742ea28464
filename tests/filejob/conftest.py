"""The toy model, and files with good and bad rows in every format."""

import importlib.util
import json
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from onepass.filejob import records

SCRIPT = Path(__file__).with_name("toy.py")


@pytest.fixture(scope="session")
def toy() -> ModuleType:
    spec = importlib.util.spec_from_file_location("filejob_toy", SCRIPT)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def small_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    """Pieces of four rows."""
    monkeypatch.setattr(records, "PIECE_ROWS", 4)


@pytest.fixture
def write(tmp_path: Path) -> Callable[..., Path]:
    """Writes so many rows with an id and a text, every 17th without one, in a format."""

    def call(ending: str, rows: int) -> Path:
        path = tmp_path / f"in.{ending}"
        table = [{"id": n, "text": None if n % 17 == 16 else f'text {n % 50}, "quoted"\nline'} for n in range(rows)]
        if ending == "jsonl":
            path.write_text("".join(json.dumps(row) + "\n" for row in table))
        elif ending == "parquet":
            pq.write_table(pa.Table.from_pylist(table), path, row_group_size=100)
        elif ending == "arrow":
            with pa.ipc.new_file(path, (made := pa.Table.from_pylist(table)).schema) as file:
                file.write_table(made, max_chunksize=100)
        elif ending == "json":
            path.write_text(json.dumps(table))
        else:
            path.write_bytes(csv_bytes(table))
        return path

    return call


def csv_bytes(table: list[dict[str, Any]]) -> bytes:
    lines = ["id,text"]
    for row in table:
        text = "" if row["text"] is None else '"' + row["text"].replace('"', '""') + '"'
        lines.append(f"{row['id']},{text}")
    return "\n".join(lines).encode() + b"\n"
