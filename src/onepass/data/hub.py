"""Sets on the Hugging Face hub, for whoever has a network: `hub:OWNER/NAME`, `hub:OWNER/NAME/CONFIG`, and `#SPLIT`.

A split is fetched once and kept as a parquet file in the cache (see `cached`), so that the next
run needs no network.
"""

import os
import re
from collections.abc import Iterator
from itertools import islice
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
    # No name on the hub has two dashes, so no two sets have one file.
    path = cache_folder("hub") / (re.sub(r"[^A-Za-z0-9._-]+", "_", "--".join([*parts, split])) + ".parquet")
    if not path.is_file():
        rows = _loaded("/".join(parts[:2]), parts[2] if len(parts) > 2 else None, split)
        _keep(path, _in_words(rows), _schema(rows), source)
    return path


def hub_rows(name: str, config: str | None, split: str) -> Iterator[dict[str, Any]]:
    """The rows of a split, with labels in words where the hub knows them, and None where it has -1."""
    yield from _in_words(_loaded(name, config, split))


def _in_words(rows: Any) -> Iterator[dict[str, Any]]:
    features = getattr(rows, "features", None) or {}
    for row in rows:
        yield {column: _spelled(value, features.get(column)) for column, value in row.items()}


def _spelled(value: Any, feature: Any) -> Any:
    """A label, or each of a list of labels, in words."""
    names, inner = getattr(feature, "names", None), getattr(feature, "feature", None)
    if isinstance(names, list) and isinstance(value, int):
        return names[value] if 0 <= value < len(names) else None
    if inner is not None and isinstance(value, list):
        return [_spelled(one, inner) for one in value]
    return value


def _schema(rows: Any) -> Any:
    """The types of the columns with labels in words; the first rows may have nothing in a column that others fill."""
    import pyarrow as pa

    features: Any = getattr(rows, "features", None)
    known = getattr(features, "arrow_schema", None)
    return known and pa.schema([(field.name, _type(features[field.name], field.type)) for field in known])


def _type(feature: Any, kind: Any) -> Any:
    import pyarrow as pa

    if isinstance(getattr(feature, "names", None), list):
        return pa.string()
    inner = getattr(feature, "feature", None)
    return kind if inner is None or not hasattr(kind, "value_type") else pa.list_(_type(inner, kind.value_type))


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


def _keep(path: Path, rows: Iterator[dict[str, Any]], schema: Any, source: str) -> None:
    """Write rows to a parquet file, whole or not at all; without a schema the first of them tell it."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    path.parent.mkdir(parents=True, exist_ok=True)
    draft = draft_of(path)
    writer: Any = None
    try:
        while piece := list(islice(rows, _PIECE)):
            table = pa.Table.from_pylist(piece, schema=schema)
            if writer is None:
                schema = table.schema
                writer = pq.ParquetWriter(draft, schema)
            writer.write_table(table)
        if writer is None:
            raise DataError(f"{source} has no rows.")
        writer.close()
        os.replace(draft, path)
    finally:
        draft.unlink(missing_ok=True)
