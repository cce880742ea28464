"""From items to tokens."""

from collections.abc import Callable, Sequence

import numpy as np
import pytest
from tokenizers import Tokenizer as RawTokenizer
from tokenizers import models, pre_tokenizers, processors, trainers

from onepass.data.encoding import tokenise
from onepass.data.items import Item, Windows
from onepass.encoder.tokenizer import Tokenizer

PIECES = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "play", "##ing", "##ed", "the", "match", "is", "late", "who", "?", "."]


@pytest.fixture(scope="module")
def tokenizer(word_pieces: Callable[[Sequence[str]], RawTokenizer]) -> Tokenizer:
    """Word pieces, at most 10 tokens."""
    return Tokenizer(word_pieces(PIECES), max_length=10)


def words(text: str) -> Item:
    """A text with each of its words marked."""
    marks, place = [], 0
    for word in text.split(" "):
        marks.append((0, place, place + len(word)))
        place += len(word) + 1
    return Item([(text,)], marks)


def test_a_word_is_read_at_its_first_piece(tokenizer: Tokenizer) -> None:
    (found,) = tokenise([words("Playing the PLAYED match")], tokenizer, "words", Windows())
    assert found.reading is not None and not found.truncated
    assert found.sequences[0][0] == [2, 4, 5, 7, 4, 6, 8, 3]
    assert found.reading.ranges[0].tolist() == [[1, 2], [3, 4], [4, 5], [6, 7]]
    assert [found.reading.text[a:b] for a, b in found.reading.spans] == ["Playing", "the", "PLAYED", "match"]


def test_words_that_are_cut_off_or_make_no_token_have_no_point(tokenizer: Tokenizer) -> None:
    item = words("the \x00 match is late the match is late the match")
    (found,) = tokenise([item], tokenizer, "words", Windows(most=1))
    assert found.reading is not None and found.truncated
    assert found.reading.numbers.tolist() == [0, 2, 3, 4, 5, 6, 7, 8]
    assert len(found.reading.marks) == 11


def test_every_word_of_a_long_text_is_read_once(tokenizer: Tokenizer) -> None:
    item = words(" ".join(["the", "playing", "match", "is", "played", "late", "."] * 6))
    short = words("the match")
    one, found = tokenise([short, item], tokenizer, "words", Windows(most=20, overlap=0.4))
    assert len(one.sequences) == 1
    assert found.reading is not None and not found.truncated
    assert len(found.sequences) > 5 and all(len(ids) <= 10 for ids, _ in found.sequences)
    assert sorted(found.reading.numbers.tolist()) == list(range(42))
    for ranges, (ids, _), number in zip(
        found.reading.ranges, found.sequences, range(len(found.sequences)), strict=True
    ):
        own = found.reading.numbers[found.reading.windows == number]
        first = {"the": 7, "playing": 4, "match": 8, "is": 9, "played": 4, "late": 10, ".": 13}
        expected = [first[item.sequences[0][0].split(" ")[word]] for word in own]
        assert [ids[place] for place, _ in ranges] == expected


def test_windows_beyond_the_limit_are_not_read(tokenizer: Tokenizer) -> None:
    (found,) = tokenise([words("late " * 40 + "late")], tokenizer, "words", Windows(most=2, overlap=0.0))
    assert found.reading is not None and found.truncated
    assert found.reading.numbers.tolist() == list(range(16))


def test_marks_in_a_pair_are_found_in_their_own_text(tokenizer: Tokenizer) -> None:
    item = Item([("the match", "played the match")], [(0, 4, 9), (1, 0, 6)])
    (found,) = tokenise([item], tokenizer, "marks", Windows())
    assert found.reading is not None
    assert found.reading.ranges[0].tolist() == [[2, 3], [4, 6]]  # [CLS] the match [SEP] play ##ed the match [SEP]


def test_a_question_stands_before_every_window_of_its_text(tokenizer: Tokenizer) -> None:
    text = "the match is late . the match is played late ."
    (found,) = tokenise([Item([("who ?", text)])], tokenizer, "tokens", Windows(most=9, overlap=0.4))
    assert found.reading is not None and len(found.sequences) > 2
    for ids, types in found.sequences:
        assert ids[:4] == [2, 11, 12, 3] and list(types[:4]) == [0, 0, 0, 0]
    spans = found.reading.spans
    assert (spans[np.flatnonzero(np.diff(found.reading.windows, prepend=-1))] == -1).all()  # each begins with [CLS]
    seen = {text[a:b] for a, b in spans[spans[:, 0] >= 0]}
    assert seen == {"the", "match", "is", "late", ".", "play", "ed"}
    for start, end in spans[spans[:, 0] >= 0]:
        assert text[start:end].strip() == text[start:end]


def test_a_long_question_leaves_room_for_its_text(tokenizer: Tokenizer) -> None:
    (found,) = tokenise([Item([("who " * 30, "the match is late")])], tokenizer, "tokens", Windows(most=9))
    assert found.reading is not None
    assert {found.reading.text[a:b] for a, b in found.reading.spans if a >= 0} == {"the", "match", "is", "late"}


def test_a_group_without_a_name_is_one_too(tokenizer: Tokenizer) -> None:
    """Every row of a task that is scored by groups has a reading, or they would not belong to their rows any more."""
    found = tokenise([Item([("the match",)], group=group) for group in ("", "a", None)], tokenizer, "vector", Windows())
    assert [None if one.reading is None else one.reading.group for one in found] == ["", "a", None]


def test_a_long_question_is_cut_before_it_is_read_and_that_is_told(
    tokenizer: Tokenizer, monkeypatch: pytest.MonkeyPatch
) -> None:
    question, context = " ".join(["late"] * 9), " ".join(["the match"] * 6)
    (found,) = tokenise([Item([(question, context)])], tokenizer, "tokens", Windows(most=20))
    assert found.truncated
    (short,) = tokenise([Item([("who ?", context)])], tokenizer, "tokens", Windows(most=20))
    assert not short.truncated
    read, pieces = [], tokenizer.pieces
    monkeypatch.setattr(tokenizer, "pieces", lambda text: (read.append(len(text)), pieces(text))[1])
    tokenise([Item([("late " * 100_000, context)])], tokenizer, "tokens", Windows(most=2))
    assert max(read) <= 16 * 10 * 2


@pytest.fixture(scope="module")
def spaced() -> Tokenizer:
    """Pieces to which the space before a word belongs, as those of ModernBERT; at most 12 tokens."""
    raw = RawTokenizer(models.BPE())
    raw.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    pieces = trainers.BpeTrainer(
        vocab_size=320, initial_alphabet=pre_tokenizers.ByteLevel.alphabet(), show_progress=False
    )
    raw.train_from_iterator(["the match is playing late"] * 9, pieces)
    raw.add_special_tokens(["[CLS]", "[SEP]"])
    ends = [(name, raw.token_to_id(name)) for name in ("[CLS]", "[SEP]")]
    raw.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]", pair="[CLS] $A [SEP] $B [SEP]", special_tokens=ends
    )
    return Tokenizer(raw, max_length=12)


def test_an_answer_does_not_begin_with_the_space_before_it(spaced: Tokenizer) -> None:
    (found,) = tokenise([Item([("late", "the match  is late")])], spaced, "tokens", Windows())
    assert found.reading is not None and not found.truncated
    text = found.reading.text
    assert [text[a:b] for a, b in found.reading.spans[1:]] == ["the", "match", "", "is", "late"]


def test_every_word_of_a_long_text_is_read_where_spaces_belong_to_words(spaced: Tokenizer) -> None:
    item = words(" ".join(["the", "match", "played", "is", "playing", "late", "matches"] * 6))
    (found,) = tokenise([item], spaced, "words", Windows(most=40, overlap=0))
    assert found.reading is not None and not found.truncated
    assert sorted(found.reading.numbers.tolist()) == list(range(42))
