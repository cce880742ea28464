"""The bytes that rows become."""

import json
import math

from onepass.filejob.formats import Csv, Jsonl

ROWS = [{"price": math.nan, "prices": [1.5, math.nan, math.inf]}, {"price": math.inf, "prices": {"low": -math.inf}}]


def test_jsonl_is_json_whatever_the_numbers_are():
    def refuse(word):
        raise AssertionError(f"{word} is no JSON")

    lines = Jsonl(["price", "prices"]).encode(ROWS).decode().splitlines()
    found = [json.loads(line, parse_constant=refuse) for line in lines]
    assert found == [{"price": None, "prices": [1.5, None, None]}, {"price": None, "prices": {"low": None}}]


def test_a_missing_number_is_a_blank_cell():
    assert Csv(["price", "prices"]).encode(ROWS).decode() == ',"[1.5, null, null]"\ninf,"{""low"": null}"\n'


def test_bytes_are_the_text_that_they_hold_or_base64():
    rows = [{"name": "café".encode(), "image": {"bytes": b"\x89PNG"}}, {"name": b"\xff", "image": {"bytes": b"a\0"}}]
    assert [json.loads(line) for line in Jsonl(["name", "image"]).encode(rows).decode().splitlines()] == [
        {"name": "café", "image": {"bytes": "iVBORw=="}},
        {"name": "/w==", "image": {"bytes": "YQA="}},
    ]
    assert Csv(["name"]).encode(rows).decode() == "café\n/w==\n"
