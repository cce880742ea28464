"""Which columns of a file are the text and which are labels, and of what kind the tasks are: by name, then by value."""

import re

from onepass.data.columns import FEW_NUMBERS, FEW_VALUES, LONGEST_LABEL, Column
from onepass.data.findings import short
from onepass.data.guesses import Guess, Options
from onepass.data.shapes import guess_shape

# Names in small letters and digits, in order of preference.
# fmt: off
TEXT_NAMES = (
    "text", "sentence", "headline", "content", "body", "comment", "review", "title", "tweet", "post", "message",
    "document", "article", "statement", "utterance", "question", "query", "description", "abstract", "summary",
    "snippet", "paragraph", "passage", "caption", "prompt", "input", "context", "premise",
)
PAIRS = (
    ("premise", "hypothesis"), ("sentence1", "sentence2"), ("sentencea", "sentenceb"), ("text1", "text2"),
    ("texta", "textb"), ("question1", "question2"), ("question", "answer"), ("question", "sentence"),
    ("question", "passage"), ("question", "context"), ("query", "document"), ("query", "passage"),
)
GENERAL_LABEL_NAMES = (
    "label", "labels", "category", "categories", "class", "classes", "target", "targets", "y", "goldlabel", "labelname",
    "labelnames", "labeltext",
)
LABEL_NAMES = (
    *GENERAL_LABEL_NAMES, "score", "rating", "stars", "sentiment", "polarity", "topic", "topics", "intent", "emotion",
    "emotions", "tone", "tag", "tags", "section", "genre",
)
# Columns of few values that seldom are what one wants to know of a text.
ASIDE = {
    "source", "author", "authors", "user", "username", "name", "split", "fold", "lang", "language", "annotator",
    "worker", "file", "filename",
}
# fmt: on


def guess_roles(columns: list[Column]) -> list[Guess]:
    """The tasks that a file's columns suggest: several for a wide table, none where text or labels are not found."""
    columns = [column for column in columns if column.filled]
    if shape := guess_shape(columns):
        return [shape]
    text, text_reason = _text(columns)
    if not text:
        return []
    labels = _labels([column for column in columns if column not in text])
    return [Guess(*_kind(label), text, text_reason, label, reason, _options(label)) for label, reason in labels]


def _options(label: Column) -> Options:
    """What the guessed kind needs besides: a comma, say, may stand in labels that have bars between them."""
    return {"separator": label.separator} if label.separator and not label.is_list else {}


def _text(columns: list[Column]) -> tuple[list[Column], str]:
    by_name = {column.plain: column for column in columns if not column.numbers and not column.is_list}
    if "text" in by_name:
        return [by_name["text"]], "by its name"
    for one, two in PAIRS:
        if one in by_name and two in by_name and by_name[one].is_wordy and by_name[two].is_wordy:
            return [by_name[one], by_name[two]], "a pair, by their names"
    texts = [column for column in columns if column.is_text]
    for column in texts:
        if "text" in column.words:  # reviewText says more than the title or the summary beside it
            return [column], "by its name ('text' is in it)"
    for name in TEXT_NAMES:
        if name in by_name and not by_name[name].has_few_values and not by_name[name].is_constant:
            return [by_name[name]], "by its name"
    for name in TEXT_NAMES:
        for column in texts:
            if name in column.words:
                return [column], f"by its name ({name!r} is in it)"
    if texts:
        best = max(texts, key=lambda column: column.mean_length * column.distinct / len(column.filled))
        return [best], f"the longest texts: {best.mean_length:.0f} characters on average"
    return [], ""


def _labels(columns: list[Column]) -> list[tuple[Column, str]]:
    """The columns that are questions of their own, with the reason why each is one."""
    named = [column for column in columns if _named_as_label(column)]
    if any(map(is_general, named)):
        return [(column, "by its name") for column in _once(named)]
    others = [column for column in columns if not column.is_key and not column.is_text and column not in named]
    few = [column for column in others if column.has_few_values]
    found = _once([*named, *(column for column in few if not ASIDE & set(column.words))])
    if not found and len(few) == 1:
        found = few
    if found:
        reason = "few different values, often repeated"
        found.sort(key=columns.index)
        return [(column, "by its name" if column in named else reason) for column in found]
    numbers = [column for column in others if column.numbers and column.distinct > FEW_NUMBERS]
    return [(numbers[0], "the only column of numbers")] if len(numbers) == 1 else []


def _named_as_label(column: Column) -> bool:
    if is_general(column) and column.mean_length <= LONGEST_LABEL:
        return True  # in a file of three rows each label may stand once and have two words
    if column.is_text and not is_several(column):
        return False
    return column.plain in LABEL_NAMES or column.words[:1] in (["is"], ["has"]) or column.words[-1:] == ["label"]


def is_general(label: Column) -> bool:
    """Whether the name says no more than that it is a label."""
    return label.plain in GENERAL_LABEL_NAMES


def is_several(column: Column) -> bool:
    """Whether a cell may hold more than one label."""
    return column.is_list or bool(column.separator)


def _are_numbered(label: Column) -> bool:
    """Whether numbers are those of classes, 0 to 76 or 1 to 77, of which each is met several times."""
    if not all(number.is_integer() for number in label.numbers) or len(label.filled) < 3 * label.distinct:
        return False
    low, high = min(label.numbers), max(label.numbers)
    # In a sample of the rows a rare class may be missing.
    return low in (0, 1) and FEW_NUMBERS < label.distinct <= FEW_VALUES and 0.95 * (high - low + 1) <= label.distinct


def _once(columns: list[Column]) -> list[Column]:
    """Without the columns that repeat another: of a label's number and its name, the name is kept."""
    kept: list[Column] = []
    for column in columns:
        twin = next((other for other in kept if column.same_as(other)), None)
        if twin is None:
            kept.append(column)
        elif _in_numbers(twin) and not _in_numbers(column):
            kept[kept.index(twin)] = column
    return kept


def _in_numbers(column: Column) -> bool:
    return not re.search(r"[^\W\d_]", "".join(column.filled))


def _kind(label: Column) -> tuple[str, str]:
    shown = repr(short(label.name))
    if label.is_list:
        return "multilabel", f"the cells of {shown} are lists"
    if label.separator:
        return "multilabel", f"the cells of {shown} hold several labels, with {label.separator!r} between them"
    if label.numbers:
        whole = all(number.is_integer() for number in label.numbers)
        if is_general(label) and _are_numbered(label):
            numbers = f"{label.distinct} numbers with hardly a gap, as classes have"
            return "classification", f"{shown} holds {numbers}; regression if their order matters"
        if label.distinct > FEW_NUMBERS or (not whole and label.distinct >= 5):
            low, high = min(label.numbers), max(label.numbers)
            return "regression", f"{shown} holds {label.distinct:,} different numbers, {low:g} to {high:g}"
        if label.distinct > 2:
            return "classification", f"{shown} holds {label.distinct} numbers; regression if their order matters"
    if label.distinct == 1:
        return "classification", f"{shown} has one value in the rows looked at: one label alone cannot be learned"
    if label.distinct > 20 and 2 * label.distinct > len(label.filled):
        values = f"{label.distinct:,} values in {len(label.filled):,} rows"
        return "classification", f"but {shown} has {values}: is it the label?"
    return "classification", f"{shown} has {label.distinct:,} different values"
