import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tokenizers import Tokenizer as RawTokenizer
from tokenizers import models

from onepass.encoder import tokenizer as tokenizer_module
from onepass.encoder.tokenizer import Tokenizer
from onepass.errors import EncoderError

CLS, SEP = 2, 3


@pytest.fixture(scope="module")
def tokenizer(raw_tokenizer_json: str) -> Tokenizer:
    return Tokenizer(RawTokenizer.from_str(raw_tokenizer_json), max_length=8)


def test_a_text_and_a_pair(tokenizer: Tokenizer):
    text, pair = tokenizer.encode([("the cat playing",), ("a cat", "the dog")])
    assert text.ids == [CLS, 5, 6, 10, 11, SEP]
    assert text.types == [0] * 6
    assert text.offsets == [(0, 0), (0, 3), (4, 7), (8, 12), (12, 15), (0, 0)]
    assert text.sequences == [None, 0, 0, 0, 0, None]
    assert pair.types == [0, 0, 0, 0, 1, 1, 1]
    assert pair.sequences == [None, 0, 0, None, 1, 1, None]
    assert not text.truncated
    assert len(pair) == 7


def test_nothing_is_padded(tokenizer: Tokenizer):
    assert [len(row) for row in tokenizer.encode([("the",), ("the cat sat",)])] == [3, 5]


def test_a_long_text_is_cut_and_says_so(tokenizer: Tokenizer):
    long, fits = tokenizer.encode([("the cat sat on the mat .",), ("the cat sat on the mat",)])
    assert len(long) == 8
    assert long.truncated
    assert long.ids[-1] == SEP
    assert not fits.truncated


def test_the_longer_text_of_a_pair_is_cut_first(tokenizer: Tokenizer):
    (pair,) = tokenizer.encode([("the cat sat on the mat", "a dog")])
    assert pair.truncated
    assert pair.sequences.count(0) == 3
    assert pair.sequences.count(1) == 2


def test_characters_are_cut_before_the_work_starts(tokenizer: Tokenizer):
    limit = 16 * 8
    spaces, over = tokenizer.encode([(" " * (limit - 1) + "a",), (" " * limit + "a",)])
    assert spaces.ids == [CLS, 13, SEP]
    assert not spaces.truncated
    assert over.ids == [CLS, SEP]
    assert over.truncated


@pytest.mark.parametrize("text", ["", " ", "\ufeff\u0301", "\x00", "\n\t"])
def test_a_text_without_words_still_has_its_special_tokens(tokenizer: Tokenizer, text: str):
    (encoded,) = tokenizer.encode([(text,)])
    assert encoded.ids == [CLS, SEP]


def test_half_a_surrogate_pair_is_replaced(tokenizer: Tokenizer):
    (encoded,) = tokenizer.encode([("the \ud83d cat",)])
    assert encoded.ids[1] == 5
    assert encoded.ids[-2] == 6
    assert encoded.offsets[-2] == (6, 9)


@given(st.lists(st.text(st.characters(), max_size=40), min_size=1, max_size=4))
def test_no_text_is_refused(tokenizer: Tokenizer, texts: list[str]):
    for encoded in tokenizer.encode([(text,) for text in texts]):
        assert 2 <= len(encoded.ids) <= 8


def test_no_texts_give_nothing(tokenizer: Tokenizer):
    assert tokenizer.encode([]) == []


def test_many_threads_may_use_one_tokenizer(tokenizer: Tokenizer):
    with ThreadPoolExecutor(8) as pool:
        rows = list(pool.map(lambda _: tokenizer.encode([("the cat playing",)])[0].ids, range(200)))
    assert rows == [[CLS, 5, 6, 10, 11, SEP]] * 200


def test_saving_keeps_the_file_as_it_was(raw_tokenizer_json: str, tmp_path: Path):
    (tmp_path / "tokenizer.json").write_text(raw_tokenizer_json)
    tokenizer = Tokenizer.load(tmp_path / "tokenizer.json", max_length=8)
    tokenizer.save(tmp_path / "copy.json")
    assert (tmp_path / "copy.json").read_text() == raw_tokenizer_json
    again = Tokenizer.load(tmp_path / "copy.json", max_length=8)
    assert again.encode([("the cat",)])[0].ids == tokenizer.encode([("the cat",)])[0].ids


def test_padding_in_the_file_is_turned_off(raw_tokenizer_json: str):
    raw = RawTokenizer.from_str(raw_tokenizer_json)
    raw.enable_padding(length=20)
    assert len(Tokenizer(raw, 8).encode([("the",)])[0]) == 3


def test_a_damaged_file_is_an_error(tmp_path: Path):
    (tmp_path / "tokenizer.json").write_text("{}")
    with pytest.raises(EncoderError, match="cannot be read as a tokenizer"):
        Tokenizer.load(tmp_path / "tokenizer.json")


def test_too_small_a_length_is_an_error(raw_tokenizer_json: str):
    with pytest.raises(EncoderError, match=r"max_length is 4.*needs 5"):
        Tokenizer(RawTokenizer.from_str(raw_tokenizer_json), max_length=4)


def test_a_tokenizer_without_special_tokens_is_an_error():
    with pytest.raises(EncoderError, match="post_processor"):
        Tokenizer(RawTokenizer(models.WordPiece({"[UNK]": 0, "a": 1}, unk_token="[UNK]")))


def test_the_tokenizer_needs_no_torch():
    program = "import sys, onepass.encoder.tokenizer; sys.exit('torch' in sys.modules)"
    path = str(Path(tokenizer_module.__file__).parents[2])
    assert subprocess.run([sys.executable, "-c", program], env={"PYTHONPATH": path}, check=False).returncode == 0
