"""onepass predict: answers about texts, pairs of texts, or the rows of a file."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping, Sequence
from contextlib import closing
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from onepass.cli.console import progress, say, write_json
from onepass.cli.given import answers, given
from onepass.errors import ConfigError, DataError

if TYPE_CHECKING:
    from onepass.asking import Asking
    from onepass.cli.given import Placed
    from onepass.filejob import FileJob, Progress
    from onepass.prediction import Labelled, Prediction

LONGEST_SHOWN = 300  # characters of a text; --json has all of them


def predict(
    folder: Annotated[str, typer.Argument(help="A model folder, or a hub name.", metavar="MODEL")],
    texts: Annotated[
        list[str] | None, typer.Argument(help="Texts; - reads them from stdin, one a line.", metavar="TEXT")
    ] = None,
    tasks: Annotated[
        list[str] | None, typer.Option(help="Only these tasks, with commas between them.", metavar="A,B")
    ] = None,
    pair: Annotated[
        bool, typer.Option("--pair", help="Texts come in twos (on stdin: with a tab between them).")
    ] = False,
    rows: Annotated[
        bool, typer.Option("--rows", help="Texts are rows: JSON objects with the columns that the tasks read.")
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
    rejects: Annotated[
        Path | None,
        typer.Option(
            help="Where rows that cannot be labelled go, with line and reason: csv, tsv, jsonl; "
            "by default OUTPUT.rejects.jsonl.",
            metavar="FILE",
        ),
    ] = None,
    spreadsheet_safe: Annotated[
        bool,
        typer.Option("--spreadsheet-safe", help="Put ' before csv cells that a spreadsheet would run as formulas."),
    ] = False,
    force: Annotated[
        bool, typer.Option("--force", help="Replace an existing output file, or an unfinished job of other options.")
    ] = False,
    versions: Annotated[
        bool, typer.Option("--versions", help="With --json: each answer with its task's version and data fingerprint.")
    ] = False,
    device: Annotated[
        str | None,
        typer.Option(help="cuda: the model on a GPU; by default the engine, or the model on the CPU.", metavar="cuda"),
    ] = None,
    precision: Annotated[str, typer.Option(help="With --device: fp32, or bf16 for a GPU.")] = "fp32",
    json: Annotated[
        bool, typer.Option("--json", help="One JSON object a text on stdout; with --output one about the job.")
    ] = False,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="No progress bar.")] = False,
) -> None:
    """Answer every task for texts, or for the rows of a file.

    onepass predict runs/news "Senate passes the budget"

    onepass predict runs/news --input mails.csv --output labelled.csv

    A file of any size is labelled piece by piece. A command that was stopped or killed goes on when it is run again.
    """
    _check_usage(texts, input, output, text, pair, rows, json)
    if (rejects or spreadsheet_safe) and not output:
        raise ConfigError("--rejects and --spreadsheet-safe are for a data file: they need --input and --output.")
    if versions and (output or not json):
        raise ConfigError("--versions is for JSON on stdout: it needs --json, without --output.")
    if input is not None and output is not None:
        from onepass.filejob import check_paths

        check_paths(input, output, rejects, overwrite=force, spreadsheet_safe=spreadsheet_safe)
    if precision != "fp32" and device is None:
        raise ConfigError("--precision is for a model on a device: it needs --device cuda.")
    from onepass.loading import load, load_fastest

    model = load_fastest(folder) if device is None else load(folder, device, precision=precision)
    names = None if tasks is None else [name.strip() for name in ",".join(tasks).split(",") if name.strip()]
    if input is None:
        _answer(model, given(texts or [], pair, rows), names, versions, json)
    elif output is None:
        _stream(model, input, names, text or [], versions)
    else:
        from onepass.filejob import FileJob

        job = FileJob(
            model,
            input,
            output,
            model_id=_model_id(folder) + ("" if device is None else f" {device} {precision}"),
            tasks=names,
            text=text or [],
            prefix=prefix,
            rejects=rejects,
            spreadsheet_safe=spreadsheet_safe,
            overwrite=force,
        )
        _run(job, progress(quiet), json)


def _check_usage(
    texts: Sequence[str] | None,
    input: Path | None,
    output: Path | None,
    text: Sequence[str] | None,
    pair: bool,
    rows: bool,
    json: bool,
) -> None:
    if texts and "-" in texts and len(texts) > 1:
        raise ConfigError("- reads all texts from stdin: give no others beside it.")
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
    if input and input.suffix.lower() == ".txt":
        raise ConfigError(
            f"{input} has no columns. Texts one a line are read from stdin: onepass predict MODEL - < {input}"
        )
    if rows and (input or pair):
        raise ConfigError("--rows is for rows on the command line; it goes with neither --input nor --pair.")
    if input and pair:
        raise ConfigError(
            "--pair is for texts on the command line; the columns of a file are named with --text A --text B."
        )
    if text and len(text) > 2:
        raise ConfigError(f"--text is given {len(text)} times. Possible: one column, or two for a pair.")


def block(labelled: Labelled) -> str:
    """A text and its answers, for reading."""
    parts = labelled.text.values() if isinstance(labelled.text, Mapping) else labelled.text
    text = parts if isinstance(parts, str) else " | ".join(map(str, parts))
    text = text if len(text) <= LONGEST_SHOWN else text[: LONGEST_SHOWN - 3] + "..."
    lines = [text + ("   (cut: too long)" if labelled.truncated else "")]
    wide = max(map(len, labelled.tasks))
    for name, answer in labelled.tasks.items():
        label = f"{answer.label:.4g}" if isinstance(answer.label, float) else shown(answer)
        score = "" if answer.score is None else f"  {answer.score:.0%}"
        lines.append(f"  {name:<{wide}}  " + (f"withheld: {answer.reason}" if answer.abstained else f"{label}{score}"))
    return "\n".join(lines)


def shown(answer: Prediction) -> str:
    """An answer in words."""
    if isinstance(answer.label, list) and answer.spans is None:
        return ", ".join(map(str, answer.label)) or "-"
    if answer.spans is None or isinstance(answer.label, str):
        return str(answer.label)
    return ", ".join(f"{span.text} ({span.label})" for span in answer.spans) or "-"


def _model_id(folder: str) -> str:
    """What tells a model from another, and from itself before it was exported: the digest of its manifest."""
    from onepass.atomic import MANIFEST, digest
    from onepass.contents import find_folder

    return digest(find_folder(folder) / MANIFEST)


def _answer(
    model: Asking, texts: Iterable[Placed | None], names: Sequence[str] | None, versions: bool, json: bool
) -> None:
    """The texts of the command line or of stdin with their answers on stdout, each as soon as it is there."""
    asked: set[str] = set()
    for labelled in answers(model, texts, names):
        asked |= labelled.tasks.keys()
        if json:
            write_json((model.with_versions([labelled])[0] if versions else labelled).to_dict())
        else:
            typer.echo(block(labelled))
        sys.stdout.flush()  # who reads it may wait for it
    if not asked:
        say("Nothing to label: stdin has no text.")
    elif names is None and not json and (left := [task.name for task in model.tasks if task.name not in asked]):
        say(f"Not asked, because they read something else than these texts: {', '.join(left)}. See --pair, --rows.")


def _stream(model: Asking, input: Path, names: Sequence[str] | None, text: Sequence[str], versions: bool) -> None:
    """Every labelled text of a file on stdout; rows that cannot be labelled are told on stderr."""
    from onepass.data.rows import RowFaults
    from onepass.filejob import Questions, open_source
    from onepass.filejob.records import Reject, Row, pieces

    faults, answered = RowFaults(input), 0
    with closing(open_source(input)) as source:
        questions = Questions(model, input, list(source.columns), tasks=names, text=text, adds=False)
        _say_left(input, questions.left)
        for piece in pieces(source, None):
            labelled, rejects = questions.label([record for record in piece if isinstance(record, Row)])
            for _, by_task in labelled:
                found = list({id(one): one for one in by_task.values()}.values())
                for one in model.with_versions(found) if versions else found:
                    write_json(one.to_dict())
            answered += len(labelled)
            for reject in [record for record in piece if isinstance(record, Reject)] + rejects:
                faults.add(reject.number, reject.reason, reject.line)
    for message in faults.messages():
        say(message)
    if not answered:
        raise DataError(f"No row of {input} could be labelled." if faults else f"{input} has no rows.")


def _say_left(input: Path, tasks: Sequence[str]) -> None:
    if tasks:
        say(
            f"Not asked, because {input} lacks columns that they read: {', '.join(tasks)}. "
            "With --text COLUMN all tasks on single texts read that column."
        )


def _run(job: FileJob, show_progress: bool, json: bool) -> None:
    """Do a job with a progress bar, and tell what was done."""
    from tqdm import tqdm

    with tqdm(unit=" rows", disable=not show_progress, smoothing=0.1) as bar:

        def advance(done: Progress) -> None:
            if bar.n == 0:  # what an earlier run did is no part of this run's speed
                bar.initial = bar.n = done.resumed
            bar.total = done.expected
            bar.update(done.rows - bar.n)

        try:
            summary = job.run(advance)
        except KeyboardInterrupt:
            say(f"What is done is kept in {job.journal.folder}. To go on, run the same command again.")
            raise
    if summary.resumed:
        say(f"This run went on where an earlier one had stopped: rows read by then: {summary.resumed:,}.")
    _say_left(job.path, summary.not_asked)
    if json:
        places = {
            "output": str(job.output),
            "rejects": str(job.rejects_file) if summary.rejected or job.rejects else None,
        }
        write_json(asdict(summary) | places)
    say(f"Rows labelled: {summary.rows:,}, in {job.output}, with the columns {', '.join(summary.added)}.")
    if summary.truncated:
        say(f"Rows whose text was cut, being longer than the model reads: {summary.truncated:,} ({summary.added[-1]}).")
    if summary.rejected:
        say(f"Rows that could not be labelled: {summary.rejected:,}, in {job.rejects_file}, with line and reason.")
        if not summary.rows:
            raise DataError(f"No row of {job.path} could be labelled.")
