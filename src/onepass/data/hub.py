"""Sets on the Hugging Face hub, for whoever has a network: `hub:OWNER/NAME`, `hub:OWNER/NAME/CONFIG`, and `#SPLIT`.

A split is fetched once and kept as a parquet file in the cache (see `cached`), so that the next
run needs no network.
"""

import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from onepass.atomic import draft_of
from onepass.cached import cache_folder
from onepass.errors import DataError
from onepass.extras import advice

PREFIX = "hub:"
_PIECE = 10_000  # rows written together


def hub_file(source: str, split: str) -> Path:
    """The file of a split of `hub:...`, fetched if it is not there yet."""
    name, _, named = source.removeprefix(PREFIX).partition("#")
    parts = [part for part in name.split("/") if part]
    if not parts or len(parts) > 3:
        raise DataError(f"{source!r} names no set of the hub. Possible: hub:OWNER/NAME, hub:OWNER/NAME/CONFIG.")
    split = named or split
    path = cache_folder("hub") / (re.sub(r"[^A-Za-z0-9._-]+", "_", "_".join([*parts, split])) + ".parquet")
    if not path.is_file():
        rows = hub_rows("/".join(parts[:2]), parts[2] if len(parts) > 2 else None, split)
        _keep(path, rows, source)
    return path


def hub_rows(name: str, config: str | None, split: str) -> Iterator[dict[str, Any]]:
    """The rows of a split, with labels in words where the hub knows them, and None where it has -1."""
    rows = _loaded(name, config, split)
    spelled = {
        column: feature.names
        for column, feature in (getattr(rows, "features", None) or {}).items()
        if isinstance(getattr(feature, "names", None), list)
    }
    for row in rows:
        made = dict(row)
        for column, names in spelled.items():
            if isinstance(number := made[column], int):
                made[column] = names[number] if 0 <= number < len(names) else None
        yield made


def _loaded(name: str, config: str | None, split: str) -> Any:
    try:
        import datasets
    except ModuleNotFoundError as error:
        raise DataError(f"{advice(error, 'Loading from the hub') or error}. Or give files.") from None
    try:
        return datasets.load_dataset(name, config, split=split)
    except Exception as error:
        # Sets of the early hub have no owner: in glue/sst2 the second part is the configuration.
        if config is None and name.count("/") == 1:
            try:
                return datasets.load_dataset(*name.split("/"), split=split)
            except Exception:  # noqa: BLE001  the first reason is told
                pass
        reason = str(error).strip().partition("\n")[0].rstrip(".")
        raise DataError(
            f"{name}, split {split!r}, could not be loaded from the hub: {reason or type(error).__name__}. "
            "Without a network, give files."
        ) from error


def _keep(path: Path, rows: Iterator[dict[str, Any]], source: str) -> None:
    """Write rows to a parquet file, whole or not at all."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    path.parent.mkdir(parents=True, exist_ok=True)
    draft = draft_of(path)
    writer: Any = None
    try:
        piece: list[dict[str, Any]] = []
        for row in rows:
            piece.append(row)
            if len(piece) == _PIECE:
                writer = _written(pa, pq, writer, draft, piece)
                piece = []
        if piece:
            writer = _written(pa, pq, writer, draft, piece)
        if writer is None:
            raise DataError(f"{source} has no rows.")
        writer.close()
        os.replace(draft, path)
    finally:
        draft.unlink(missing_ok=True)


def _written(pa: Any, pq: Any, writer: Any, path: Path, rows: list[dict[str, Any]]) -> Any:
    table = pa.Table.from_pylist(rows, schema=writer.schema if writer else None)
    if writer is None:
        writer = pq.ParquetWriter(path, table.schema)
    writer.write_table(table)
    return writer
