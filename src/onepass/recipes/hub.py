"""Known sets from the Hugging Face hub, for whoever has a network and no folder."""

from collections.abc import Iterator
from typing import Any

from onepass.errors import DataError
from onepass.extras import advice
from onepass.recipes.recipe import Hub, KnownSet, Row


def hub_rows(known: KnownSet, split: str) -> Iterator[Row]:
    """Our rows of a split, from the hub."""
    hub = known.hub
    assert hub is not None
    rows = _named(_loaded(hub, hub.splits[split]))
    for row in hub.read(rows) if hub.read else rows:
        # None: the annotators did not agree, or the answers are the leaderboard's secret.
        if row.get(known.keys["label"]) is not None or split.startswith("unlabelled"):
            yield row


def _loaded(hub: Hub, split: str) -> Any:
    try:
        import datasets
    except ModuleNotFoundError as error:
        raise DataError(f"{advice(error, 'Loading from the hub') or error}. Or give a folder: --from FOLDER") from None
    try:
        return datasets.load_dataset(hub.name, hub.config, split=split)
    except Exception as error:  # whatever the library and the network raise
        reason = str(error).strip().partition("\n")[0].rstrip(".")
        raise DataError(
            f"{hub.name} could not be loaded from the hub: {reason or type(error).__name__}. "
            "Without a network, give the folder of the original files: --from FOLDER"
        ) from error


def _named(rows: Any) -> Iterator[Row]:
    """The rows with labels in words, where the hub knows them; -1 stands for no label."""
    names = {
        column: feature.names
        for column, feature in getattr(rows, "features", {}).items()
        if isinstance(getattr(feature, "names", None), list)
    }
    for row in rows:
        made = dict(row)
        for column, spelled in names.items():
            number = made[column]
            if isinstance(number, int):
                made[column] = spelled[number] if 0 <= number < len(spelled) else None
        yield made
