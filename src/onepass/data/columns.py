"""What a column of a file looks like: text, labels, numbers, lists, or something that is no part of any task."""

import math
import re
from collections import Counter
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from pathlib import Path
from typing import Any

from onepass.data.files import RowFaults, read_chunks
from onepass.errors import DataError
from onepass.tasks import SEPARATORS, label_text

SAMPLE = 2000  # rows looked at, spread over the first READ rows: many files are sorted by label
READ = 200_000
FEW_NUMBERS = 20  # different whole numbers that may still be labels
FEW_VALUES = 200  # different values of any sort that may still be labels
LONGEST_LABEL = 60  # characters on average

_DATE = re.compile(r"\d{4}-\d\d-\d\d.*|\d{1,2}[./]\d{1,2}[./]\d{2,4}.*")
_ADDRESS = re.compile(r"(https?://|www\.)\S+|\S+@\S+\.\w+")
_DECIMAL_COMMA = re.compile(r"-?\d+,\d+")
_LIST = re.compile(r"\[.*\]|\{.*\}", re.DOTALL)


@dataclass(frozen=True, eq=False)
class Column:
    """The sampled cells of one column, in the order of the rows; blank ones are None."""

    name: str
    cells: list[Any]
    whole: bool = True
    """Whether these are all the cells of the file"""

    @cached_property
    def plain(self) -> str:
        """The name in small letters and digits alone: 'Review Text' is 'reviewtext'."""
        return re.sub(r"[\W_]+", "", self.name.casefold())

    @cached_property
    def words(self) -> list[str]:
        """The words of the name: 'reviewText_2' has 'review', 'text' and '2'."""
        return [word.casefold() for word in re.findall(r"[A-Z]*[a-z]+|[A-Z]+|\d+|[^\W\da-zA-Z_]+", self.name)]

    @property
    def is_named_like_text(self) -> bool:
        """Whether the name looks like a text rather than like a name."""
        return len(self.name.split()) > 3

    @cached_property
    def filled(self) -> list[str]:
        return [label_text(cell) for cell in self.cells if cell is not None]

    @cached_property
    def counts(self) -> Counter[str]:
        """How often each value was seen."""
        return Counter(self.filled)

    @cached_property
    def numbers(self) -> list[float]:
        """The values as numbers, if all of them are; else nothing."""
        try:
            numbers = [float(cell) for cell in self.filled]
        except ValueError:
            return []
        return numbers if all(map(math.isfinite, numbers)) else []  # "nan" and "inf" are words here

    @cached_property
    def is_list(self) -> bool:
        """Whether the cells hold lists, as such or written out."""
        cells = [cell for cell in self.cells if cell is not None]
        lists = sum(isinstance(cell, (list, tuple, dict)) or bool(_LIST.fullmatch(str(cell).strip())) for cell in cells)
        return 2 * lists > len(cells) or any(cell.startswith('{"choices"') for cell in self.filled)

    @cached_property
    def separator(self) -> str:
        """What stands between several labels of a cell, if that is what the cells look like."""
        for separator in SEPARATORS:
            parts = {cell: [part.strip() for part in cell.split(separator)] for cell in self.counts}
            several = {cell: parts[cell] for cell in parts if len(parts[cell]) > 1}
            if len(several) < 2 or 10 * sum(self.counts[cell] for cell in several) < len(self.filled):
                continue
            lengths = [len(part.split()) for cell in several for part in several[cell]]
            if sum(lengths) > 3 * len(lengths) or all(_DECIMAL_COMMA.fullmatch(cell) for cell in several):
                continue
            # "Arts, Crafts" may be one label. Parts of several labels are met again in other cells.
            cells_with = Counter(part for cell in parts for part in set(parts[cell]))
            if 2 * sum(any(cells_with[part] > 1 for part in several[cell]) for cell in several) > len(several):
                return separator
        return ""

    @property
    def distinct(self) -> int:
        return len(self.counts)

    @cached_property
    def mean_length(self) -> float:
        return sum(map(len, self.filled)) / max(len(self.filled), 1)

    @cached_property
    def is_text(self) -> bool:
        """Strings of several words, most of them different; or of letters that are written without spaces."""
        return self.is_wordy and 2 * self.distinct > len(self.filled)

    @cached_property
    def is_wordy(self) -> bool:
        """Whether it would be text if its values did not repeat."""
        if not self.filled or self.numbers or self.is_list or self._mostly(_DATE) or self._mostly(_ADDRESS):
            return False
        words = sum(len(cell.split()) for cell in self.filled) / len(self.filled)
        unspaced = sum(len(cell) > 5 and not cell.isascii() for cell in self.filled)
        return words >= 2 or 2 * unspaced > len(self.filled)

    @cached_property
    def is_key(self) -> bool:
        """Whether it only tells rows apart: ids, dates, addresses, running numbers."""
        if not self.filled:
            return False
        if {"id", "ids", "idx", "index", "uuid", "guid", "unnamed", "date", "time", "timestamp"} & set(self.words):
            return True
        running = len(self.numbers) > 2 and all(b - a >= 1 and b.is_integer() for a, b in pairwise(self.numbers))
        return running or self._mostly(_DATE) or self._mostly(_ADDRESS)

    @cached_property
    def has_few_values(self) -> bool:
        """Whether the values are few, short, and repeat enough to be labels: twice at least on average."""
        if self.numbers and (self.distinct > FEW_NUMBERS or not all(number.is_integer() for number in self.numbers)):
            return False
        return 2 <= self.distinct <= min(FEW_VALUES, len(self.filled) / 2) and self.mean_length <= LONGEST_LABEL

    @property
    def is_constant(self) -> bool:
        """Whether all of many rows say the same, as the title of a job on a crowd's platform."""
        return self.distinct == 1 and len(self.filled) > 2

    def same_as(self, other: "Column") -> bool:
        """Whether the two say the same in other words, as a label's number and its name do."""
        pairs = list(zip(self.cells, other.cells, strict=True))
        if len(self.filled) < 20 or any((one is None) != (two is None) for one, two in pairs):
            return False
        return len(set(zip(self.filled, other.filled, strict=True))) == self.distinct == other.distinct

    def _mostly(self, pattern: re.Pattern[str]) -> bool:
        return 2 * sum(bool(pattern.fullmatch(cell)) for cell in self.filled) > len(self.filled)


def sample_columns(path: Path) -> list[Column]:
    """The columns of a file, with the cells of at most SAMPLE rows; rows that cannot be read are left out."""
    columns: dict[str, list[Any]] = {}
    ranks: list[int] = []
    read, step, faults = 0, 1, RowFaults(path)
    for chunk in read_chunks(path, size=SAMPLE, faults=faults):
        new = [_rank(chunk.first_row + place) for place in range(len(chunk))]
        places = [place for place, rank in enumerate(new) if rank % step == 0]
        ranks += [new[place] for place in places]
        for name, cells in chunk.columns.items():
            columns.setdefault(name, []).extend(None if _blank(cells[place]) else cells[place] for place in places)
        while len(ranks) > SAMPLE:
            step *= 2
            places = [place for place, rank in enumerate(ranks) if rank % step == 0]
            ranks = [ranks[place] for place in places]
            columns = {name: [cells[place] for place in places] for name, cells in columns.items()}
        read += len(chunk)
        if read >= READ:
            break
    if not read:
        faults.check()
        raise DataError(f"{path} has no rows.")
    return [Column(name, cells, whole=len(ranks) == read and not faults) for name, cells in columns.items()]


def _rank(row: int) -> int:
    """A number that has nothing to do with the row's place: rows may alternate between labels."""
    mixed = row * 0x9E3779B97F4A7C15 % 2**64
    return ((mixed ^ (mixed >> 30)) * 0xBF58476D1CE4E5B9 % 2**64) >> 32


def _blank(cell: Any) -> bool:
    return cell is None or cell != cell or (isinstance(cell, str) and not cell.strip())
