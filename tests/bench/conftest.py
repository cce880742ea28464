"""A small suite."""

from pathlib import Path

import pytest


@pytest.fixture
def suite(news: Path) -> Path:
    """The three tasks of the tests, with test files."""
    text = news.read_text()
    for task in ("tone", "same"):
        text = text.replace(f"train: {task}.csv", f"train: {task}.csv, test: {task}.csv")
    text = text.replace("train: topic.csv", "train: topic.csv\n    test: topic.csv")
    news.write_text(text)
    return news
