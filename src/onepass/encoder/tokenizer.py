"""From texts to word pieces: a thin wrapper around a tokenizer.json.

The raw `tokenizers` library is used, with truncation set once: it may then be called from many threads.
"""

import re
from collections.abc import Sequence
from functools import cached_property
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from tokenizers import Encoding
from tokenizers import Tokenizer as RawTokenizer

from onepass.errors import EncoderError

MAX_LENGTH = 128
"""Tokens of a sequence when nothing else is said"""
CHARACTERS_PER_TOKEN = 16
"""Longer texts are cut to this times max_length before the work starts"""

_SURROGATES = re.compile("[\ud800-\udfff]")


class Encoded:
    """The word pieces of one text, or of a pair of texts."""

    __slots__ = ("_encoding", "ids", "truncated", "types")

    def __init__(self, encoding: Encoding, cut: bool):
        self.ids: list[int] = encoding.ids
        self.types: list[int] = encoding.type_ids
        """0 for the first text, 1 for the second"""
        self.truncated = cut or bool(encoding.overflowing)
        """Whether a part of the text was left out"""
        self._encoding = encoding

    def __len__(self) -> int:
        return len(self.ids)

    @property
    def offsets(self) -> list[tuple[int, int]]:
        """Where each word piece starts and ends in its text, in characters."""
        return list(self._encoding.offsets)

    @property
    def sequences(self) -> list[int | None]:
        """Which text each word piece is of: 0, 1, or None for special tokens."""
        return list(self._encoding.sequence_ids)


class Tokenizer:
    """Cuts texts into word pieces."""

    def __init__(self, tokenizer: RawTokenizer, max_length: int = MAX_LENGTH, text: str | None = None):
        """`text` is the tokenizer.json that `save` writes; left out, it is made from the tokenizer."""
        self._text = tokenizer.to_str() if text is None else text
        self._tokenizer = tokenizer
        self.max_length = max_length
        self.vocab_size: int = tokenizer.get_vocab_size()
        least = tokenizer.num_special_tokens_to_add(True) + 2
        if max_length < least:
            raise EncoderError(f"max_length is {max_length}; with this tokenizer a pair of texts needs {least}.")
        tokenizer.no_padding()
        tokenizer.enable_truncation(max_length, strategy="longest_first")
        if not tokenizer.encode("").ids:
            raise EncoderError(
                "The tokenizer adds no special tokens such as [CLS], so that an empty text would have no token. "
                "Its tokenizer.json needs a post_processor."
            )

    @property
    def highest_id(self) -> int:
        """The largest number of a word piece; numbers may have gaps."""
        return max(self._tokenizer.get_vocab().values())

    def encode(self, texts: Sequence[tuple[str, ...]]) -> list[Encoded]:
        """The word pieces of each text; a text is a tuple of one string, or of two for a pair."""
        limit = CHARACTERS_PER_TOKEN * self.max_length
        cut = [any(len(part) > limit for part in text) for text in texts]
        # Half of a surrogate pair, as broken JSON has it, is no character: the library would refuse it.
        whole = [tuple(_SURROGATES.sub("\ufffd", part[:limit]) for part in text) for text in texts]
        inputs = [text if len(text) == 2 else text[0] for text in whole]
        encodings = self._tokenizer.encode_batch(inputs)
        return [Encoded(encoding, was_cut) for encoding, was_cut in zip(encodings, cut, strict=True)]

    def pieces(self, text: str) -> NDArray[np.int64]:
        """Where each word piece of a whole text starts and ends, (n, 2), without limit and special tokens."""
        encoding = self._endless.encode(_SURROGATES.sub("\ufffd", text), add_special_tokens=False)
        return np.array(encoding.offsets, np.int64).reshape(-1, 2)

    def special_tokens(self, num_texts: int) -> int:
        """How many tokens such as [CLS] stand in a sequence of one text or two."""
        return int(self._tokenizer.num_special_tokens_to_add(num_texts > 1))

    @cached_property
    def _endless(self) -> RawTokenizer:
        # Another object, since switching truncation off and on again would not be safe with several threads.
        tokenizer = RawTokenizer.from_str(self._text)
        tokenizer.no_truncation()
        tokenizer.no_padding()
        return tokenizer

    def same_as(self, other: "Tokenizer") -> bool:
        """Whether both cut every text alike."""
        return self._text == other._text and self.max_length == other.max_length

    def save(self, path: str | Path) -> None:
        """Writes tokenizer.json."""
        Path(path).write_text(self._text, encoding="utf-8")

    @classmethod
    def load(cls, path: str | Path, max_length: int = MAX_LENGTH) -> "Tokenizer":
        """Reads tokenizer.json."""
        try:
            text = Path(path).read_text(encoding="utf-8")
            tokenizer = RawTokenizer.from_str(text)
        except Exception as error:  # the library raises plain Exception for a file it cannot read
            raise EncoderError(f"{path} cannot be read as a tokenizer: {error}") from error
        return cls(tokenizer, max_length, text)
