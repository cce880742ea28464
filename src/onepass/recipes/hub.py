"""Known sets from the Hugging Face hub, for whoever has a network and no folder."""

from collections.abc import Iterator

from onepass.data import hub
from onepass.errors import DataError
from onepass.recipes.recipe import KnownSet, Row


def rows_from_hub(known: KnownSet, split: str) -> Iterator[Row]:
    """Our rows of a split, from the hub."""
    place = known.hub
    assert place is not None
    rows = hub.hub_rows(place.name, place.config, place.splits[split])
    try:
        for row in place.read(rows) if place.read else rows:
            # None: the annotators did not agree, or the answers are the leaderboard's secret.
            if row.get(known.keys["label"]) is not None or split.startswith("unlabelled"):
                yield row
    except DataError as error:
        raise DataError(f"{error} The folder of the originals' files is given with --from FOLDER") from None
