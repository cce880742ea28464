"""Texts of a batch as arrays."""

import numpy as np

from onepass.engine.graph import FAR
from onepass.engine.packing import packed
from onepass.inquiry import Pieces

SHORT, LONG = Pieces([7, 8, 9], [0, 0, 1]), Pieces([1, 2, 3, 4, 5], [0] * 5)


def test_tokens_lie_one_behind_the_other_and_know_their_places_side_by_side():
    text = packed([SHORT, LONG], 40)
    assert text["ids"].tolist() == [[7, 8, 9, 1, 2, 3, 4, 5]]  # 8 tokens: none is added
    assert text["types"].tolist() == [[0, 0, 1, 0, 0, 0, 0, 0]]
    assert text["positions"].tolist() == [[0, 1, 2, 0, 1, 2, 3, 4]]
    assert text["spread"].tolist() == [[0, 1, 2] + 13 * [0], [3, 4, 5, 6, 7] + 11 * [3]]  # 16 places for 5 tokens
    assert text["back"].tolist() == [[0, 1, 2, 16, 17, 18, 19, 20]]
    assert (text["mask"][:, 0, 0] == np.where(np.arange(16) < [[3], [5]], 0, FAR)).all()


def test_side_by_side_and_back_is_where_it_was():
    text = packed([LONG, SHORT, SHORT], 40)
    spread = text["ids"][0][text["spread"]]  # (G, M)
    assert spread.reshape(-1)[text["back"][0, :11]].tolist() == [1, 2, 3, 4, 5, 7, 8, 9, 7, 8, 9]


def test_exactly_has_no_token_that_is_no_texts():
    text = packed([LONG], 40, exactly=True)
    assert text["ids"].shape == text["spread"].shape == (1, 5)


def test_no_text_is_laid_out_longer_than_the_encoder_can_read():
    assert packed([LONG], 6)["spread"].shape == (1, 6)


def test_texts_of_the_same_lengths_share_all_but_their_words():
    one, other = packed([SHORT], 40), packed([Pieces([1, 1, 1], [0, 0, 0])], 40)
    assert one["spread"] is other["spread"] and one["mask"] is other["mask"]
    assert one["ids"].tolist() == [[7, 8, 9, 0]] and other["ids"].tolist() == [[1, 1, 1, 0]]
