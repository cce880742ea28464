"""The training loop: one for all methods.

Batches mix tasks freely; every row is asked its own task, and with teachers also others. A task that is not asked in a
batch has no gradient, so the optimiser does not touch it: no update, no momentum, no decay.
"""

from __future__ import annotations

import logging
import math
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from typing import Any

import numpy as np
import torch
from torch import nn
from torch.nn.utils import get_total_norm
from tqdm import tqdm

from onepass.calibration import settle
from onepass.data.stream import RowStream
from onepass.encoder.batch import on_device
from onepass.errors import FolderError, TrainingError
from onepass.methods import Stage
from onepass.model import Model
from onepass.training.alarms import find_alarms
from onepass.training.average import RunningMean
from onepass.training.baseline import baseline_of
from onepass.training.best import Best
from onepass.training.cache import MOST_IN_MEMORY, TextCache
from onepass.training.checkpoint import Checkpoints, StageState
from onepass.training.device import make_accelerator
from onepass.training.distillation import Teaching, teachable
from onepass.training.evaluation import all_logits, is_answer, score_decisions, score_tasks, scores_of
from onepass.training.findings import findings_of
from onepass.training.history import history_record, spoken
from onepass.training.losses import TaskLosses
from onepass.training.memory import EVERY, give_back
from onepass.training.objective import Objective
from onepass.training.optimizer import make_optimizer, rate_at, set_rates
from onepass.training.options import TrainOptions, sampler_of
from onepass.training.rows import Draws, UsedRows, choose_rows, draw_epoch
from onepass.training.sets import TaskSet, fingerprint
from onepass.training.stages import Finished, at_rate, fixed, fixed_parameters, stages_of
from onepass.where import pack

log = logging.getLogger(__name__)
MOST_SKIPPED_IN_A_ROW = 3
SMALLER_RATES = "Try smaller rates (train.encoder_rate, train.head_rate), or train.precision=fp32."


class Trainer:
    """Trains a model on its tasks' rows, stage by stage as its method wants it."""

    def __init__(
        self,
        model: Model,
        sets: Sequence[TaskSet],
        options: TrainOptions,
        progress: bool = True,
        checkpoints: Checkpoints | None = None,
        teaching: Teaching | None = None,
        baseline: Mapping[str, float] | None = None,
    ):
        self.given = options
        self.model, self.sets, self.progress = model, sets, progress
        self.checkpoints, self.teaching = checkpoints, teaching
        self.baseline = baseline_of(options.select, model.tasks) if baseline is None else baseline
        """What tasks reach in models of their own; read once, since its file may be gone when the training ends"""
        self.accelerator = make_accelerator(options, model.method.encoder.config.width)
        self.options = self.options_for(sum(len(item.train) for item in sets))
        """What the given options come to, for the rows of the stage that is trained"""
        self.progress = progress and self.accelerator.is_main_process
        self.targets = [
            model.kinds[i].scale_targets(item.task, item.train.targets, item.train.readings)
            for i, item in enumerate(sets)
        ]
        self.history: list[dict[str, Any]] = []
        self.texts: dict[int, TextCache] = {}
        """What a stage on cached texts has of each task's rows"""
        self.skipped = 0
        self.steps, self.tokens, self.seconds = 0, 0, 0.0
        self.begun, self.teachers_s, self.earlier_s = 0.0, 0.0, 0.0
        """When this run began; the seconds of its teachers, and of the run that it goes on from"""
        self.sampler = sampler_of(options.sampler)
        self.used = UsedRows([len(item.train) for item in sets])
        self.tasks: list[int] = list(range(len(sets)))
        """The tasks of the stage that is trained"""
        self.done = 0.0
        """How far that stage is, from 0 to 1"""
        self.from_trained = False
        """Whether the weights are those of a finished training, which are kept where nothing better comes"""

    def run(self, resume: bool = False) -> None:
        """Train all stages, leave the best weights in the model and what happened in `model.training_record`."""
        self.learn(resume)
        self.conclude()

    def learn(self, resume: bool = False) -> None:
        """Train all stages and leave the best weights in the model."""
        self.begun = time.perf_counter()
        saved = self._resumed() if resume else None
        if not resume and self.checkpoints is not None and self.checkpoints.folder.is_dir():
            log.warning(
                "%s holds a training that was cut short; this one begins anew and will replace it. To go on with it, "
                "stop and give --resume (resume=True).",
                self.checkpoints.folder,
            )
        if saved is not None:
            self.model.records, self.history, self.skipped, self.earlier_s = (
                saved["progress"][key] for key in ("records", "history", "skipped", "seconds")
            )
            self.used.restore(saved["progress"]["used"])
        total = sum(len(item.train) for item in self.sets)
        settled = total, len(self.sets), self.options.epochs, self.options.batch_size
        log.info("%d training rows of %d tasks: %d epochs, batches of %d rows", *settled)
        if self.options.rdrop and not any(map(teachable, self.model.kinds)):
            log.warning("train.rdrop does nothing: no task has one answer to the whole of a text, read in one window")
        self.model.to(self.accelerator.device)
        for number, stage in enumerate(stages_of(self.model.method, self.options)):
            if saved is None or number >= saved["stage"]:
                self.run_stage(stage, number, saved if saved is not None and number == saved["stage"] else None)

    def conclude(self) -> None:
        """Settle the tasks of the trained model, and record what happened."""
        self.settle_tasks()
        self.used.gather(self.accelerator)
        self.model.training_record = {
            "options": asdict(self.options),
            "seconds": round(self.teachers_s + self.own_s, 1),
            "tokens_per_s": round(self.tokens_per_s),
            "skipped_steps": self.skipped,
            "alarms": find_alarms(self.model, self.sets, self.options.select, self.baseline),
            "findings": findings_of(self.model, self.sets),
            "rows_used": self.used.report(self.model.names),
            "history": self.history,
        }
        self.model.to("cpu").eval()

    def settle_tasks(self) -> None:
        """Record what every trained task learned from, and settle it on its validation rows."""
        for number, item in enumerate(self.sets):
            rows = {"train": len(item.train), "validation": len(item.validation)}
            self.model.records[number] |= {"rows": rows, "data": fingerprint(item.train)}
        # In full precision, as the model will answer.
        model, half = self.model, self.accelerator.mixed_precision != "no"
        for number, logits in all_logits(model, {n: item.validation for n, item in enumerate(self.sets)}).items():
            if not all(map(is_answer, logits)):
                raise TrainingError(
                    f"The trained model has no finite answer to some rows of task {model.names[number]!r}; "
                    f"nothing was written. {SMALLER_RATES}"
                )
            validation = self.sets[number].validation
            if half and len(validation):  # checkpoints were compared in 16 bits
                scores = scores_of(model.tasks[number], model.kinds[number], logits, validation)
                model.records[number]["scores"] = {"validation": scores}
            settle(model, number, logits, validation)
            score_decisions(model, number, logits, validation)

    def _resumed(self) -> dict[str, Any] | None:
        """What the last checkpoint holds, with the model's weights put back; None if there is none."""
        if self.checkpoints is None:
            return None
        saved = self.checkpoints.load(self.model)
        folder = self.checkpoints.folder
        log.info("going on from %s" if saved is not None else "beginning anew: there is no %s to go on from", folder)
        return saved

    def run_stage(self, stage: Stage, number: int = 0, saved: dict[str, Any] | None = None) -> None:
        """Train one stage, from its start or from where a checkpoint stood."""
        everything = range(len(self.sets))
        self.tasks = list(everything if stage.tasks is None else stage.tasks)
        self.options = self.options_for(sum(len(self.sets[task].train) for task in self.tasks))
        frozen = fixed_parameters(self.model.method, stage, self.options)
        frozen += [p for other in everything if other not in self.tasks for p in self.own_parameters(other)]
        with fixed(frozen):
            self.texts = self.cached_texts() if stage.cached else {}
            self.learn_stage(stage, number, saved)
            self.texts = {}
        if stage.finish is not None:
            stage.finish(self.model.heads)  # type: ignore[arg-type]

    def learn_stage(self, stage: Stage, number: int, saved: dict[str, Any] | None) -> None:
        """Let everything that learns in a stage learn, and leave its best weights in the model."""
        options, model = self.options, self.model
        optimizer = make_optimizer(model.method, model.heads, at_rate(options, stage.rate))
        step, optimizer = self.accelerator.prepare(Objective(model, stage.forward, options, self.teaching), optimizer)
        sizes = [len(self.sets[task].train) for task in self.tasks]
        state = self.new_state(optimizer, sizes)
        if saved is not None:
            state.restore(saved["tensors"], saved["state"])
        epochs = stage.epochs or options.epochs
        total = epochs * sum(sizes)
        losses = TaskLosses()
        bar = tqdm(
            total=total, initial=state.rows, unit="row", desc=stage.name, disable=not self.progress, dynamic_ncols=True
        )
        with bar:
            if self.from_trained and saved is None:
                self.evaluate(stage, 0.0, state, losses, bar)
            while state.epoch < epochs and not self.out_of_patience(state):
                draws = self.rows_of_epoch(state, epochs)
                while state.batch < len(draws):
                    count = draws.trained[state.batch]
                    state.batch += 1
                    state.rows += count
                    self.done = (state.rows - count / 2) / total
                    if (state.batch - 1) % self.accelerator.num_processes == 0:  # one rate for the steps of a round
                        set_rates(optimizer, rate_at(self.done, options.warmup))
                    self.take_turn(step, draws, state, losses, stage)
                    bar.update(count)
                    bar.set_postfix_str(f"{self.tokens_per_s:,.0f} tokens/s", refresh=False)
                    # Rows rather than epochs: 3 * 0.1 is more than 0.3.
                    due = state.rows >= state.next_evaluation * sum(sizes) - 1e-6 or state.rows == total
                    if due and self.round_is_over(state.batch, len(draws)):
                        state.next_evaluation += options.evaluate_every
                        with state.mean.in_place():
                            self.evaluate(stage, state.rows / sum(sizes), state, losses, bar)
                        state.mean.settle(state.finished.fixed)  # or the others would learn beside what is not kept
                        self.keep(number, state)
                        if self.out_of_patience(state):
                            break
                state.epoch, state.batch = state.epoch + 1, 0
        state.mean.settle()  # for trainings without validation rows, which have no best
        state.best.restore(model)
        self.accelerator.free_memory()  # it keeps every stage's optimiser
        state.finished.release()

    def options_for(self, rows: int) -> TrainOptions:
        """What the given options come to for so many rows, on this device."""
        half = self.accelerator.mixed_precision == "bf16"
        return replace(self.given.sized(rows, self.teaching is not None), precision="bf16" if half else "fp32")

    def cached_texts(self) -> dict[int, TextCache]:
        """What the method keeps of the texts of each of the stage's tasks, for steps that need no more of them."""
        model, half = self.model, self.options.precision == "bf16"
        most = MOST_IN_MEMORY // len(self.tasks)
        tokens = any(model.kinds[task].reads_tokens for task in self.tasks)
        return {
            task: TextCache(model.method, self.sets[task].train, most, half=half, tokens=tokens) for task in self.tasks
        }

    def new_state(self, optimizer: Any, sizes: Sequence[int]) -> StageState:
        """Where a stage begins."""
        options = self.options
        return StageState(
            optimizer,
            RunningMean([p for group in optimizer.param_groups for p in group["params"]], options.average),
            Best(options.select, [self.sets[task].task for task in self.tasks], self.baseline),
            RowStream(sizes, options.seed),
            Finished(options.freeze_done, self.tasks, self.own_parameters),
            options.evaluate_every,
        )

    def rows_of_epoch(self, state: StageState, epochs: int) -> Draws:
        """What the epoch's steps draw from; the stream's place before is kept, so that it can be drawn again."""
        self.model.train()
        state.at_epoch = state.stream.state()
        return draw_epoch(
            self.sampler, state.stream, self.sets, self.tasks, (state.epoch, epochs), self.limits,
            one_task=self.options.batches == "task", processes=self.accelerator.num_processes,
        )  # fmt: skip

    @property
    def limits(self) -> tuple[int, int]:
        """Most rows and most tokens of a step."""
        return self.options.batch_size, self.options.batch_tokens

    def take_turn(self, step: nn.Module, draws: Draws, state: StageState, losses: TaskLosses, stage: Stage) -> None:
        """Train on a step's rows, if it is this process's turn."""
        index, processes = self.accelerator.process_index, self.accelerator.num_processes
        if self.has_no_partners(state.batch, len(draws)) or (state.batch - 1) % processes != index:
            return
        started = time.perf_counter()
        rows = draws[state.batch - 1]
        if self.sampler.candidates != 1:
            limits = draws.trained[state.batch - 1], self.limits[1]
            autocast = self.accelerator.autocast()
            rows = choose_rows(self.sampler, self.model, self.sets, rows, limits, autocast, stage.forward)
        ok = self.step(step, state.optimizer, rows, losses, state.mean)
        if ok:
            self.used.add(rows)
        self.seconds += time.perf_counter() - started
        self.tokens += sum(self.sets[task].train.length(row) for task, row in rows)
        state.skipped_in_a_row = 0 if ok else state.skipped_in_a_row + 1
        if state.skipped_in_a_row == MOST_SKIPPED_IN_A_ROW:
            raise self.diverged(rows)
        self.steps += 1
        if self.steps % EVERY == 0 and self.accelerator.device.type == "cpu":
            give_back()

    def has_no_partners(self, batch: int, batches: int) -> bool:
        """Whether a batch is one of the epoch's last, of too few rows for all processes: they would wait for ever."""
        return batch > batches - batches % self.accelerator.num_processes

    def round_is_over(self, batch: int, batches: int) -> bool:
        """Whether every process has taken its step: before, they have different weights and may decide otherwise."""
        return batch % self.accelerator.num_processes == 0 or self.has_no_partners(batch, batches)

    @property
    def own_s(self) -> float:
        """Seconds of the training so far, those before it was resumed included, and its teachers' not."""
        return self.earlier_s + time.perf_counter() - self.begun

    @property
    def tokens_per_s(self) -> float:
        return self.tokens / self.seconds if self.seconds else 0.0

    def out_of_patience(self, state: StageState) -> bool:
        return state.finished.everything or 0 < self.options.patience <= state.best.since

    def keep(self, stage: int, state: StageState) -> None:
        """Leave a checkpoint, if the last one is old enough."""
        if self.checkpoints is not None and self.checkpoints.due() and self.accelerator.is_main_process:
            try:
                self.checkpoints.save(self.model, stage, state, self.so_far())
            except FolderError as error:
                log.warning("the training goes on, but --resume could not go on from here: %s", error)

    def so_far(self) -> dict[str, Any]:
        """What is known of the training beside its weights, for those who go on from here."""
        return {
            "records": self.model.records, "history": self.history, "skipped": self.skipped,
            "used": self.used.state(), "seconds": self.own_s,
        }  # fmt: skip

    def take_in(self, part: Mapping[str, Any], name: str) -> None:
        """Add what is known of a training that was a part of this one, from its `so_far`."""
        self.history += [record | {"stage": record["stage"] + name} for record in part["history"]]
        self.skipped += part["skipped"]
        self.used.join(part["used"])

    def own_parameters(self, task: int) -> list[nn.Parameter]:
        """What learns for one task alone."""
        own = [*self.model.method.tasks[task].parameters(), *self.model.heads[task].parameters()]
        return [parameter for parameter in own if parameter.requires_grad]

    def step(
        self, losses_of: nn.Module, optimizer: Any, rows: list[tuple[int, int]], losses: TaskLosses, mean: RunningMean
    ) -> bool:
        """One update from (task, row) pairs; False if its gradient was not finite and it was left out."""
        packed, asked, where = pack([(task, self.sets[task].train, row) for task, row in rows])
        batch = packed.to(self.accelerator.device)
        lesson = self.teaching.lesson(rows, self.tasks, self.done) if self.teaching is not None else None
        if lesson is not None:
            asked, where = where.asking_more(lesson.asked)
        kept = None
        if self.texts:  # in full precision, whatever they are stored in
            kept = torch.cat([self.texts[task].part(row) for task, row in rows]).to(batch.ids.device, torch.float32)
        targets = [self.targets[task][row] for task, row in rows]
        found = losses_of(batch, asked, targets, lesson, kept, where)  # (R,)
        tasks = np.array([task for task, _ in rows])
        weights = np.array([self.sets[task].task.weight for task in tasks]) * self.sampler.weights(tasks)
        factors = on_device((weights / len(rows)).astype(np.float32), found.device)
        loss = found @ factors + self.model.method.extra_loss()
        loss.backward()
        learning = [p for group in optimizer.param_groups for p in group["params"] if p.grad is not None]
        gradients = [p.grad for p in learning]
        norm, most = float(get_total_norm(gradients)), self.options.clip  # the one time that the device is waited for
        finite = math.isfinite(norm)
        if finite:
            if 0 < most < norm:
                torch._foreach_mul_(gradients, most / norm)
            optimizer.step()
            mean.update()
            losses.add([task for task, _ in rows], found.detach())
        else:
            self.skipped += 1
            log.warning("a step with a non-finite gradient was left out (%d so far)", self.skipped)
        for parameter in learning:
            parameter.grad = None
        return finite

    def evaluate(self, stage: Stage, epoch: float, state: StageState, losses: TaskLosses, bar: Any) -> None:
        """Score the validation rows, keep the weights if they are the best so far, and say so."""
        names = self.model.names
        means = {names[task]: value for task, value in losses.take().items()}
        validation = {task: self.sets[task].validation for task in self.tasks if len(self.sets[task].validation)}
        if not validation:
            return
        scores = score_tasks(self.model, validation, self.accelerator.autocast(), stage.forward)
        better = state.best.offer(scores, self.model, epoch)
        ended = state.finished.update({task: scores[names[task]]["score"] for task in validation})
        record = history_record(stage.name, epoch, means, scores, better)
        self.history.append(record)
        if better:
            for task in validation:
                self.model.records[task]["scores"] = {"validation": scores[names[task]]}
        with bar.external_write_mode():
            log.info(spoken(record, epoch))
            if ended:
                log.info("no longer better, own weights fixed: %s", ", ".join(names[task] for task in ended))

    def diverged(self, rows: list[tuple[int, int]]) -> TrainingError:
        where = ", ".join(f"{self.sets[t].task.name} row {self.sets[t].train.rows[r]}" for t, r in rows[:8])
        return TrainingError(
            f"{MOST_SKIPPED_IN_A_ROW} steps in a row had a gradient that is not finite; training stopped and nothing "
            f"was written. The last batch held: {where}{', ...' if len(rows) > 8 else ''}. {SMALLER_RATES}"
        )
