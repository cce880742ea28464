"""onepass predict: answers about texts, pairs of texts, or the rows of a file."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from onepass.cli.console import progress, say, write_json
from onepass.cli.output import check_output, new_sheet
from onepass.errors import ConfigError, DataError

if TYPE_CHECKING:
    from onepass.model import Model
    from onepass.prediction import Labelled, Text

ROWS = 1024  # texts read ahead, sorted by length and labelled together


def predict(
    folder: Annotated[str, typer.Argument(help="A model folder, or a hub name.", metavar="MODEL")],
    texts: Annotated[
        list[str] | None, typer.Argument(help="Texts; - reads them from stdin, one a line.", metavar="[TEXT]...")
    ] = None,
    tasks: Annotated[
        str | None, typer.Option(help="Only these tasks, with commas between them.", metavar="A,B")
    ] = None,
    pair: Annotated[
        bool, typer.Option("--pair", help="Texts come in twos (on stdin: with a tab between them).")
    ] = False,
    input: Annotated[
        Path | None, typer.Option("--input", "-i", help="A data file whose rows to label.", metavar="FILE")
    ] = None,
    output: Annotated[
        Path | None,
        typer.Option("--output", "-o", help="Its rows with the answers: csv, tsv, jsonl, parquet.", metavar="FILE"),
    ] = None,
    text: Annotated[
        list[str] | None,
        typer.Option(
            help="The column of --input that holds the text, twice for a pair; by default the columns of the training.",
            metavar="COLUMN",
        ),
    ] = None,
    prefix: Annotated[str, typer.Option(help="Put before the names of the columns that are added.")] = "",
    force: Annotated[bool, typer.Option("--force", help="Replace an existing output file.")] = False,
    json: Annotated[bool, typer.Option("--json", help="One JSON object a text on stdout.")] = False,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="No progress bar.")] = False,
) -> None:
    """Answer every task for texts, or for the rows of a file.

    onepass predict runs/news "Senate passes the budget"

    onepass predict runs/news --input mails.csv --output labelled.csv
    """
    _check_usage(texts, input, output, text, pair, json)
    if output is not None:
        check_output(output, overwrite=force)
    from onepass.model import Model

    model = Model.load(folder)
    names = None if tasks is None else [name.strip() for name in tasks.split(",") if name.strip()]
    if input is None:
        for labelled in _answers(model, _given(texts or [], pair), names):
            write_json(labelled.to_dict()) if json else typer.echo(block(labelled))
        return
    rows = LabelledFile(model, input, names, text or [], prefix)
    if output is None:
        for labelled in rows.answers():
            write_json(labelled.to_dict())
    else:
        count = rows.write(output, progress(quiet))
        say(f"{count:,} rows are in {output}, with the columns {', '.join(rows.added)}.")


def _check_usage(
    texts: Sequence[str] | None,
    input: Path | None,
    output: Path | None,
    text: Sequence[str] | None,
    pair: bool,
    json: bool,
) -> None:
    if texts and input:
        raise ConfigError("Give texts or --input, not both.")
    if not texts and not input:
        raise ConfigError('Nothing to label. Give texts ("..."), - for stdin, or --input FILE.')
    if output and not input:
        raise ConfigError("--output is the labelled copy of a data file: it needs --input FILE.")
    if text and not input:
        raise ConfigError("--text names a column of a data file: it needs --input FILE.")
    if input and not output and not json:
        raise ConfigError("--input needs --output FILE, or --json for stdout.")
    if input and pair:
        raise ConfigError(
            "--pair is for texts on the command line; the columns of a file are named with --text A --text B."
        )
    if text and len(text) > 2:
        raise ConfigError(f"--text is given {len(text)} times. Possible: one column, or two for a pair.")


def _given(texts: Sequence[str], pair: bool) -> Iterator[Text]:
    """The texts of the command line or of stdin, one by one or in twos."""
    if list(texts) == ["-"]:
        for number, line in enumerate(_stdin_lines(), 1):
            parts = line.split("\t")
            if not pair:
                yield line
            elif len(parts) == 2:
                yield parts[0], parts[1]
            else:
                raise DataError(f"stdin, line {number}: {len(parts)} texts with tabs between them, but --pair needs 2.")
    elif pair:
        if len(texts) % 2:
            raise ConfigError(f"--pair takes texts in twos, but there are {len(texts)}.")
        yield from zip(texts[::2], texts[1::2], strict=True)
    else:
        yield from texts


def _stdin_lines() -> Iterator[str]:
    """The lines of stdin that are not blank."""
    for number, line in enumerate(sys.stdin.buffer, 1):
        try:
            text = line.decode("utf-8-sig" if number == 1 else "utf-8").rstrip("\r\n")
        except UnicodeDecodeError as error:
            raise DataError(f"stdin, line {number}: byte 0x{line[error.start]:02x} is not UTF-8.") from None
        if text.strip():
            yield text


def _answers(model: Model, texts: Iterable[Text], names: Sequence[str] | None) -> Iterator[Labelled]:
    """The texts with their answers, in order; never more than a chunk of them in memory."""
    left = iter(texts)
    # Someone who types wants the answer to each line at once.
    size = 1 if sys.stdin is not None and sys.stdin.isatty() else ROWS
    while some := list(islice(left, size)):
        yield from model.label(some, names)


def block(labelled: Labelled) -> str:
    """A text and its answers, for reading."""
    text = labelled.text if isinstance(labelled.text, str) else " | ".join(labelled.text)
    lines = [text + ("   (cut: too long)" if labelled.truncated else "")]
    wide = max(map(len, labelled.tasks))
    for name, answer in labelled.tasks.items():
        label = f"{answer.label:.4g}" if isinstance(answer.label, float) else str(answer.label)
        lines.append(f"  {name:<{wide}}  {label}" + ("" if answer.score is None else f"  {answer.score:.0%}"))
    return "\n".join(lines)


class LabelledFile:
    """The rows of a data file, and the answers of a model about them."""

    def __init__(self, model: Model, path: Path, names: Sequence[str] | None, text: Sequence[str], prefix: str):
        from onepass.data.files import column_names

        self.model, self.path = model, path
        self.columns = column_names(path)
        self.groups = self._grouped(names, tuple(text))
        self.added: list[str] = []
        """The names of the new columns, in order: each task's label, and its score where the kind has one"""
        self.answer_of: dict[str, tuple[str, str]] = {}
        for columns, tasks in self.groups.items():
            # A first answer shows which tasks have scores; the kinds are not asked for their names.
            probe = model.label([columns[0] if len(columns) == 1 else (columns[0], columns[1])], tasks)[0]
            for name, answer in probe.tasks.items():
                self.answer_of[prefix + name] = (name, "label")
                if answer.score is not None:
                    self.answer_of[f"{prefix}{name}_score"] = (name, "score")
        self.added = list(self.answer_of)
        if clash := [name for name in self.added if name in self.columns]:
            raise ConfigError(
                f"{path} has columns of these names already: {', '.join(clash)}. "
                "Give the answers others: --prefix predicted_"
            )

    def _grouped(self, names: Sequence[str] | None, text: tuple[str, ...]) -> dict[tuple[str, ...], list[str]]:
        """The tasks to ask, by the columns they read."""
        model = self.model
        if text:
            groups = {text: [model.tasks[number].name for number in model.applicable(len(text), names)]}
        else:
            groups = {}
            known = {task.name: task for task in model.tasks}
            for name in names if names is not None else known:
                if name not in known:
                    model.applicable(1, [name])  # raises, with the nearest name
                groups.setdefault(known[name].text, []).append(name)
        for columns, tasks in groups.items():
            missing = [column for column in columns if column not in self.columns]
            if missing:
                raise DataError(
                    f"{self.path} has no column {missing[0]!r}, which {', '.join(tasks)} "
                    f"{'reads' if len(tasks) == 1 else 'read'}. Columns: {', '.join(self.columns)}. "
                    "Name the column of the text with --text."
                )
        return groups

    def chunks(self) -> Iterator[tuple[dict[str, list[Any]], list[dict[str, Labelled]]]]:
        """Columns of some rows, and for each row its labelled text by task."""
        from onepass.data.files import read_chunks
        from onepass.heads.base import blank

        for chunk in read_chunks(self.path, self.columns, size=ROWS):
            found: list[dict[str, Labelled]] = [{} for _ in range(len(chunk))]
            for columns, tasks in self.groups.items():
                cells = list(zip(*(chunk.columns[column] for column in columns), strict=True))
                rows = [row for row, values in enumerate(cells) if not any(blank(value) for value in values)]
                texts: list[Any] = [
                    str(cells[row][0]) if len(columns) == 1 else tuple(map(str, cells[row])) for row in rows
                ]
                for row, labelled in zip(rows, self.model.label(texts, tasks) if texts else [], strict=True):
                    found[row].update(dict.fromkeys(tasks, labelled))
            yield chunk.columns, found

    def answers(self) -> Iterator[Labelled]:
        """Every labelled text of the file; rows without a text are left out."""
        for _, rows in self.chunks():
            for row in rows:
                yield from {id(labelled): labelled for labelled in row.values()}.values()

    def write(self, output: Path, show_progress: bool) -> int:
        """Write the rows with their answers; rows without a text have blank ones. Returns how many rows there are."""
        from tqdm import tqdm

        count = 0
        names = [*self.columns, *self.added]
        with new_sheet(output, names, self.path) as sheet, tqdm(unit=" rows", disable=not show_progress) as bar:
            for columns, rows in self.chunks():
                for added, (task, part) in self.answer_of.items():
                    columns[added] = [getattr(row[task].tasks[task], part) if task in row else None for row in rows]
                sheet.write(columns)
                count += len(rows)
                bar.update(len(rows))
            if not count:
                raise DataError(f"{self.path} has no rows.")
        return count
