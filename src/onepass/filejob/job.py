"""The job itself: read a piece, label it, write it, count it; then move the files to their places."""

import errno
import os
import shutil
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack, closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from onepass import __version__
from onepass.atomic import draft_of, locked, reason, sync_folder
from onepass.errors import ConfigError, DataError
from onepass.filejob.formats import ENDINGS, Csv, Format, Jsonl, make_format
from onepass.filejob.journal import Draft, Journal, State
from onepass.filejob.questions import Labels, Questions
from onepass.filejob.records import Record, Reject, Row, Source, pieces
from onepass.filejob.sources import open_source

REJECT_COLUMNS = ("row", "line", "reason", "start")
ROWS, REJECTS = "rows", "rejects"  # the names of the drafts


@dataclass(frozen=True)
class Progress:
    """How far a job is, after each piece."""

    rows: int
    """Read so far, by earlier runs too"""
    expected: int | None
    """About how many there are"""
    resumed: int
    """How many an earlier run had read"""


@dataclass(frozen=True)
class Summary:
    """What a job has done."""

    rows: int
    """Rows in the output"""
    rejected: int
    truncated: int
    added: list[str]
    """The new columns"""
    not_asked: list[str]
    """The tasks that read columns which the file does not have"""
    resumed: int
    """Rows that an earlier run had read"""
    seconds: float


def rejects_beside(output: Path) -> Path:
    """Where rejected rows go if nothing is said: news.csv and news.parquet have files of their own."""
    return output.with_name(f"{output.name}.rejects.jsonl")


def behind_link(path: Path) -> Path:
    """The file that a link leads to, which is written; the link itself is left alone."""
    return path.resolve() if path.is_symlink() else path


def check_paths(source: Path, output: Path, rejects: Path | None, *, overwrite: bool, spreadsheet_safe: bool) -> None:
    """Raise if an output cannot be written, before any work is done."""
    output = behind_link(output)
    named = [(output, ENDINGS), (behind_link(rejects or rejects_beside(output)), ENDINGS[:-1])]
    for path, endings in named:
        if path.suffix.lower() not in endings:
            raise ConfigError(f"{path} cannot be written. Possible endings: {', '.join(endings)}.")
        if path.is_dir():
            raise ConfigError(f"{path} is a folder. Give the name of a file.")
        if not path.absolute().parent.is_dir():
            raise ConfigError(f"There is no folder {path.parent}. Make it first, or choose another output.")
        if path.exists() and source.exists() and path.samefile(source):
            raise ConfigError(f"{path} is the input. Choose another output.")
        if path.exists() and not overwrite and not Journal(output).may_replace(path):
            raise ConfigError(f"{path} exists already. Choose another output, or replace it with --force.")
    if named[0][0].resolve() == named[1][0].resolve():
        raise ConfigError(f"{output} is given both for the answers and for the rejected rows. Choose two names.")
    if spreadsheet_safe and output.suffix.lower() not in (".csv", ".tsv"):
        raise ConfigError(f"--spreadsheet-safe is for .csv and .tsv; {output.name} is not opened as a table of texts.")


class FileJob:
    """Labels the rows of a file, and goes on where an earlier run of the same job was stopped.

    model_id: what tells one model from another, such as the digest of its manifest.
    overwrite: replace existing files, and give up an unfinished job of other settings. A run that goes on without it
    replaces only the files that were there when it was given.
    """

    def __init__(
        self,
        model: Labels,
        source: Path,
        output: Path,
        *,
        model_id: str,
        tasks: Sequence[str] | None = None,
        text: Sequence[str] = (),
        prefix: str = "",
        rejects: Path | None = None,
        spreadsheet_safe: bool = False,
        overwrite: bool = False,
    ):
        check_paths(source, output, rejects, overwrite=overwrite, spreadsheet_safe=spreadsheet_safe)
        output, rejects = behind_link(output), behind_link(rejects) if rejects else None
        self.model, self.path, self.output, self.rejects = model, source, output.absolute(), rejects
        self.asked: dict[str, Any] = {"tasks": tasks, "text": text, "prefix": prefix}
        self.spreadsheet_safe, self.overwrite = spreadsheet_safe, overwrite
        self.settings: dict[str, Any] = {
            "onepass": __version__,
            "model": model_id,
            "input": str(source.absolute()),
            "columns read": list(text),
            "tasks": None if tasks is None else list(tasks),
            "prefix": prefix,
            "spreadsheet-safe": spreadsheet_safe,
            "rejects": None if rejects is None else str(rejects.absolute()),
        }
        self.journal = Journal(self.output)

    @property
    def rejects_file(self) -> Path:
        """Where rows go that cannot be labelled: the file given, or one beside the output."""
        return self.rejects or rejects_beside(self.output)

    def run(self, progress: Callable[[Progress], None] | None = None) -> Summary:
        """Do what is left of the job. Stopped at any moment, it leaves all but one piece to the next run."""
        started = time.monotonic()
        with locked(self.output), ExitStack() as stack:
            if self.rejects is not None:
                stack.enter_context(locked(self.rejects))
            state = self._unfinished()
            source = stack.enter_context(closing(open_source(self.path, state.columns if state else None)))
            questions = Questions(self.model, self.path, list(source.columns), **self.asked)
            fresh = state is None
            if state is None:
                shutil.rmtree(self.journal.folder, ignore_errors=True)
                state = State(self.settings, source.columns)
            if self.overwrite:
                state.give_leave(self.output, self.rejects_file)
            resumed = state.rows + state.rejected
            try:
                if state.finished is None:
                    self._work(state, source, questions, progress)
                self._deliver(state)
            except OSError as error:
                self._check_room(self.output, state, error)
                raise
            except Exception:
                if fresh and not state.position:
                    self.journal.remove()
                raise
        return Summary(
            state.rows,
            state.rejected,
            state.truncated,
            list(questions.first),
            questions.left,
            resumed,
            time.monotonic() - started,
        )

    def _unfinished(self) -> State | None:
        """The state of an earlier run of this job, if there is one to go on with."""
        state = self.journal.read()
        try:
            about = self.path.stat()
            self.settings["input's size and time"] = [about.st_size, about.st_mtime_ns]
        except OSError:
            self.settings["input's size and time"] = None
        if state is None or state.settings == self.settings:
            return state
        if self.overwrite:
            return None
        other = [key for key in self.settings if state.settings.get(key) != self.settings[key]]
        raise ConfigError(
            f"An unfinished job for {self.output} lies in {self.journal.folder}, but it differs in: "
            f"{', '.join(other)}. Run it again as it was, or start anew with --force."
        )

    def _work(
        self, state: State, source: Source, questions: Questions, progress: Callable[[Progress], None] | None
    ) -> None:
        self.journal.folder.mkdir(exist_ok=True)
        resumed = state.rows + state.rejected
        schema = getattr(source, "schema", None)
        rows_format = make_format(self.output, source.columns, questions.first, schema, self.spreadsheet_safe)
        rejects_format = _rejects_format(self.rejects, self.spreadsheet_safe)
        with ExitStack() as stack:
            drafts = {}
            for name, form in ((ROWS, rows_format), (REJECTS, rejects_format)):
                drafts[name] = Draft(self.journal.draft(name), state.sizes.get(name, 0))
                stack.callback(drafts[name].close)
                if name not in state.sizes:
                    drafts[name].append(form.header())
            for piece in pieces(source, state.position):
                labelled, rejected = _answered(piece, questions)
                if labelled:
                    drafts[ROWS].append(rows_format.encode(labelled))
                if rejected:
                    drafts[REJECTS].append(rejects_format.encode([reject.to_dict() for reject in rejected]))
                state.rows += len(labelled)
                state.rejected += len(rejected)
                state.truncated += sum(row[questions.cut] for row in labelled)
                state.position = source.position()
                state.sizes = {name: draft.size for name, draft in drafts.items()}
                self.journal.write(state)
                if progress:
                    done, share = state.rows + state.rejected, source.share()
                    progress(Progress(done, round(done / share) if share else None, resumed))
        if state.position is None:
            raise DataError(f"{self.path} has no rows.")
        self._finish(state, rows_format)

    def _finish(self, state: State, form: Format) -> None:
        made = form.finish(self.journal.draft(ROWS))
        with open(made, "rb") as file:
            os.fsync(file.fileno())
        state.finished = {}
        if self.rejects is not None or state.rejected:
            state.finished[str(self.rejects_file.absolute())] = REJECTS
        state.finished[str(self.output)] = made.name  # last: where there is an output, all is there
        self.journal.write(state)

    def _deliver(self, state: State) -> None:
        """Move the finished files to their places; a kill in between leaves the rest to the next run."""
        for place, name in (state.finished or {}).items():
            draft, target = self.journal.draft(name), Path(place)
            if not draft.exists():  # moved by a run that was killed then
                continue
            if target.exists() and not (self.overwrite or state.may_replace(target)):
                raise ConfigError(
                    f"{target} appeared while the job was under way. All rows are done and kept in "
                    f"{self.journal.folder}: move {target.name} away and run the same command again, or replace it "
                    "with --force."
                )
            try:
                _move(draft, target)
            except OSError as error:
                self._check_room(target, state, error)
                raise
        stale = rejects_beside(self.output)
        if self.rejects is None and not state.rejected and (self.overwrite or state.may_replace(stale)):
            stale.unlink(missing_ok=True)  # of the output that was replaced
        self.journal.remove()

    def _check_room(self, target: Path, state: State, error: OSError) -> None:
        """Raise with what is kept if it is a full disk that the target could not be written to."""
        if error.errno not in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG):
            return
        for name, size in state.sizes.items():
            draft = self.journal.draft(name)
            if draft.exists() and draft.stat().st_size > size:
                os.truncate(draft, size)
        kept = f"{state.rows + state.rejected:,} rows are done and kept in {self.journal.folder}."
        raise DataError(
            f"{target} cannot be written: {reason(error)}. {kept} Make room, then run the same command again."
        ) from error


def _move(draft: Path, target: Path) -> None:
    """Move a file, to another disk too; the target is the old file or the whole new one."""
    try:
        os.replace(draft, target)
    except OSError as error:
        if error.errno != errno.EXDEV:
            raise
        copy = draft_of(target)
        try:
            shutil.copyfile(draft, copy)
            with open(copy, "rb") as file:
                os.fsync(file.fileno())
            os.replace(copy, target)
        finally:
            copy.unlink(missing_ok=True)
    sync_folder(target.parent)


def _rejects_format(path: Path | None, spreadsheet_safe: bool) -> Format:
    ending = path.suffix.lower() if path else ".jsonl"
    if ending in (".csv", ".tsv"):
        return Csv(REJECT_COLUMNS, delimiter="\t" if ending == ".tsv" else ",", spreadsheet_safe=spreadsheet_safe)
    return Jsonl(REJECT_COLUMNS)


def _answered(piece: Sequence[Record], questions: Questions) -> tuple[list[dict[str, Any]], list[Reject]]:
    """The output rows of a piece, and its rejects in the order of the file."""
    readable = [record for record in piece if isinstance(record, Row)]
    labelled, rejected = questions.label(readable)
    rejected += [record for record in piece if isinstance(record, Reject)]
    rows = [row.values | questions.columns(answers) for row, answers in labelled]
    return rows, sorted(rejected, key=lambda reject: reject.number)
