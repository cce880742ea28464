"""Columns that go together in a way only one kind of task has: tokens and tags, a question and its text, candidates."""

import re
from collections.abc import Iterable

from onepass.data.columns import Column
from onepass.data.guesses import Guess, Options
from onepass.data.spans import spans_in

TOKENS = ("tokens", "words")
TAGS = ("tags", "nertags", "postags", "labels", "ner", "pos", "chunktags", "taglist")
SPANS = ("label", "labels", "ner", "entities", "spans")
QUESTIONS = (("question", "context"), ("question", "passage"), ("question", "text"), ("question", "paragraph"))
ANSWERS = ("answers", "answer", "detectedanswers")
STARTS = ("answerstart", "answerstarts", "start")
CANDIDATES = re.compile(r"(choice|option|ending|candidate|answer)[0-9a-e]")
LISTS = ("choices", "options", "candidates", "endings")
CONTEXTS = ("premise", "context", "sentence", "ctx", "text", "question", "passage")
CHOSEN = ("label", "answer", "goldlabel", "target")
MARKED = (("word",), ("target",), ("lemma",), ("word1", "word2"), ("span1text", "span2text"), ("target1", "target2"))
PAIRS = (("sentence1", "sentence2"), ("text1", "text2"))


def guess_shape(columns: list[Column]) -> Guess | None:
    """The task of a kind that reads more than texts, if the columns are clear about it."""
    by_name = {column.plain: column for column in columns}
    for guess in (_tagging, _spans, _extraction, _choice, _words):
        if found := guess(by_name):
            return found
    return None


def _first(by_name: dict[str, Column], names: tuple[str, ...]) -> Column | None:
    return next((by_name[name] for name in names if name in by_name), None)


def _all(by_name: dict[str, Column], choices: Iterable[tuple[str, ...]]) -> list[Column] | None:
    """The columns of the first choice that are all there."""
    found = next((names for names in choices if all(name in by_name for name in names)), None)
    return None if found is None else [by_name[name] for name in found]


def _tagging(by_name: dict[str, Column]) -> Guess | None:
    tokens, tags = _first(by_name, TOKENS), _first(by_name, TAGS)
    if tokens is None or tags is None or not (tokens.is_list and tags.is_list):
        return None
    pairs = zip(tokens.cells, tags.cells, strict=True)
    if not all(len(a) == len(b) for a, b in pairs if isinstance(a, list) and isinstance(b, list)):
        return None
    reason = f"{tokens.name!r} and {tags.name!r} are lists of the same length"
    return Guess("tagging", reason, [tokens], "a list of words", tags, "a tag for each word")


def _spans(by_name: dict[str, Column]) -> Guess | None:
    text, label = by_name.get("text"), None
    for name in SPANS:
        cells = [cell for cell in by_name[name].cells if cell] if name in by_name else []
        if cells and all(isinstance(cell, list) and spans_in(cell) for cell in cells):
            label = by_name[name]
    if text is None or text.is_list or label is None:
        return None
    return Guess("tagging", f"{label.name!r} are parts of the text", [text], "by its name", label, "labels with places")


def _extraction(by_name: dict[str, Column]) -> Guess | None:
    answers, starts = _first(by_name, ANSWERS), _first(by_name, STARTS)
    pair = _all(by_name, QUESTIONS)
    if pair is None or answers is None:
        return None
    if starts is None and not any("answer_start" in cell for cell in answers.filled):
        return None
    options: Options = {} if starts is None else {"starts": starts.name}
    reason = f"{answers.name!r} are parts of {pair[1].name!r}, with their starts"
    return Guess("extraction", reason, pair, "a question and its text", answers, "by its name", options)


def _choice(by_name: dict[str, Column]) -> Guess | None:
    columns = [column for name, column in by_name.items() if CANDIDATES.fullmatch(name)]
    several = _first(by_name, LISTS)
    context, label = _first(by_name, CONTEXTS), _first(by_name, CHOSEN)
    if label in columns or context is None or label is None:
        return None
    if len(columns) > 1:
        options: Options = {"choices": [column.name for column in columns]}
        reason = "there are columns of candidates"
    elif several is not None and several.is_list and not _holds_objects(several):
        options = {"choices": several.name}
        reason = f"{several.name!r} are lists of candidates"
    else:
        return None
    if context.filled and all("_" in text for text in context.filled):
        options["blank"] = "_"
    if label.numbers and min(label.numbers) == 1:
        options["numbered_from"] = "1"
    texts = [context]
    if (question := by_name.get("question")) is not None and question is not context:
        texts.append(question)
    return Guess("choice", reason, texts, "what candidates are for", label, "the number or the text of one", options)


def _holds_objects(column: Column) -> bool:
    """Whether candidates are more than texts, as Prodigy writes them."""
    return any("{" in str(cell)[:2] for cell in column.cells if isinstance(cell, (list, dict)))


def _words(by_name: dict[str, Column]) -> Guess | None:
    label, words = _first(by_name, ("label", "same", "goldlabel")), _all(by_name, MARKED)
    texts = _all(by_name, (*PAIRS, ("text",)))
    if label is None or words is None or texts is None or label in words:
        return None
    if any(column.is_wordy and column.mean_length > 30 for column in words):
        return None
    options: Options = {"words": words[0].name if len(words) == 1 else [column.name for column in words]}
    if starts := [by_name[name] for name in ("span1index", "span2index") if name in by_name]:
        options |= {"starts": [column.name for column in starts], "starts_in": "words"}
    elif len(words) == 1 and not all(_stands(words[0], text) for text in texts):
        options["match"] = "form"
    names = " and ".join(repr(column.name) for column in words)
    return Guess("words", f"{names}: words of the text", texts, "the words are in it", label, "by its name", options)


def _stands(word: Column, text: Column) -> bool:
    """Whether the words of all rows stand in their texts as they are."""
    pairs = zip(word.cells, text.cells, strict=True)
    return all(str(a).lower() in str(b).lower() for a, b in pairs if a is not None and b is not None)
