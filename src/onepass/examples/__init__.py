"""The demo's data, written by us: six questions a news desk asks of a text, and 60 texts labelled for all of them."""

from pathlib import Path

TASK_FILE = Path(__file__).with_name("tasks.yaml")
TEST_FILE = Path(__file__).with_name("test.yaml")
TEST_TABLE = Path(__file__).with_name("test.csv")
