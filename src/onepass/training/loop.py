"""The training loop: one for all methods.

Batches mix tasks freely; every row is asked its own task, and with teachers also others. A task that is not asked in a
batch has no gradient, so the optimiser does not touch it: no update, no momentum, no decay.
"""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Sequence
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from accelerate import Accelerator, DistributedDataParallelKwargs
from accelerate.state import AcceleratorState
from accelerate.utils import set_seed
from torch import nn
from tqdm import tqdm

from onepass.calibration import settle
from onepass.data.stream import RowStream
from onepass.encoder.loading import load_encoder
from onepass.errors import ConfigError, TrainingError, listed
from onepass.folder import check_output, size_of
from onepass.heads import check_kinds
from onepass.methods import Stage, check_method, make_method, settle_method
from onepass.model import Model, check_served
from onepass.tasks import TaskFile, read_task_file
from onepass.training.alarms import find_alarms
from onepass.training.average import RunningMean
from onepass.training.best import Best
from onepass.training.cache import MOST_IN_MEMORY, TextCache
from onepass.training.checkpoint import Checkpoints, StageState, training_key
from onepass.training.distillation import Teaching, teach
from onepass.training.evaluation import all_logits, average, score_tasks
from onepass.training.findings import findings_of
from onepass.training.finetuning import JointFolder, copies_of, joint_record, second_stage
from onepass.training.losses import TaskLosses
from onepass.training.objective import Objective
from onepass.training.optimizer import make_optimizer, rate_at, set_rates
from onepass.training.options import TrainOptions, check_train, sampler_of, train_options
from onepass.training.rows import Draws, UsedRows, choose_rows, draw_epoch
from onepass.training.sets import TaskSet, fingerprint, read_sets
from onepass.training.stages import Finished, fixed_parameters, stages_of
from onepass.training.teachers import forget_teachers, own_teachers, teachers_wanted
from onepass.where import pack

log = logging.getLogger(__name__)
CHECKS = (check_method, check_kinds, check_served, check_train)
MOST_SKIPPED_IN_A_ROW = 3


def train(
    file: str | Path | TaskFile,
    output: str | Path | None = None,
    *,
    overrides: Sequence[str] = (),
    overwrite: bool = False,
    resume: bool = False,
    progress: bool = True,
) -> Model:
    """Train a model on the tasks of a task file, and write its folder if `output` is given.

    All faults of the task file and of the data are raised at once, before anything is trained or written.
    A long training leaves checkpoints beside its output; `resume` goes on from the last one, if there is one.
    """
    if not isinstance(file, TaskFile):
        file = read_task_file(file, overrides, checks=CHECKS)
    elif faults := [fault for check in CHECKS for fault in check(file)]:
        raise ConfigError(listed(faults))
    if output is not None:
        check_output(Path(output), overwrite=overwrite)
    options = train_options(file.train)
    set_seed(options.seed)
    encoder, tokenizer = load_encoder(file.encoder, max_length=options.max_length)
    choice = settle_method(file.method, len(file.tasks))
    method = make_method(choice.name, encoder, choice.options)
    if faults := method.limits(len(file.tasks), options.max_length):
        raise ConfigError(listed(faults))
    sets = read_sets(file, tokenizer)
    model = Model(method, tokenizer, choice, file.encoder, dropout=options.dropout)
    for item in sets:
        model.add(item.task, item.train)
    key = training_key(file, sets)
    checkpoints = None
    if output is not None:
        output = Path(output)
        check_output(
            output, overwrite=overwrite, needed=size_of(model) * (1 if options.finetune is None else len(sets))
        )
        checkpoints = Checkpoints(output, key, options.checkpoint_every_s)
        if not resume:
            forget_teachers(output)
    again = partial(train, resume=resume, progress=progress)
    count = teachers_wanted(options, method, len(sets), _device(options))
    with own_teachers(again, file, key, options, count, output) as own:
        distill = own or options.distill
        teaching = teach(file, sets, tokenizer, distill, _device(options), keep=own is None) if distill else None
        set_seed(options.seed)  # whatever teachers drew before
        joint = JointFolder(output, key) if output is not None and options.finetune is not None else None
        found = joint.load() if joint is not None and resume else None
        trainer = Trainer(found or model, sets, options, progress, checkpoints, teaching)
        if found is None:
            trainer.run(resume)
        if options.finetune is not None:
            trainer = fine_tune(trainer, output, key, resume, joint)
        if output is not None and checkpoints is not None:
            if trainer.accelerator.is_main_process:
                trainer.model.save(output, overwrite=overwrite)
                for left in (checkpoints, trainer.checkpoints, joint):
                    if left is not None:
                        left.remove()
            trainer.accelerator.wait_for_everyone()
    return trainer.model


def fine_tune(joint: Trainer, output: Path | None, key: str, resume: bool, folder: JointFolder | None) -> Trainer:
    """Go on from a trained model with a copy for each task; the first stage's result is kept for a resumed training."""
    options, checkpoints = second_stage(joint.given), None
    if output is not None and folder is not None:
        if joint.accelerator.is_main_process:
            folder.save(joint.model)
        checkpoints = Checkpoints(output.with_name(f"{output.name}.finetune"), key, options.checkpoint_every_s)
        if not resume:
            checkpoints.remove()
    copies = copies_of(joint.model, joint.sets)
    trainer = Trainer(copies, joint.sets, options, joint.progress, checkpoints, joint.teaching)
    trainer.from_trained = True
    trainer.run(resume)
    copies.training_record = joint_record(joint.model, copies)
    return trainer


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
    ):
        self.given = options
        self.options = options.sized(sum(len(item.train) for item in sets))
        """What the given options come to, for the rows of the stage that is trained"""
        self.model, self.sets, self.progress = model, sets, progress
        self.checkpoints, self.teaching = checkpoints, teaching
        use_cpu = _device(options) == "cpu"
        if options.device not in ("auto", "cpu") and use_cpu:
            raise ConfigError(f"train.device is {options.device!r}, but no GPU is visible here. Use auto or cpu.")
        half = options.precision == "bf16" or (options.precision == "auto" and not use_cpu)
        if int(os.environ.get("WORLD_SIZE", 1)) == 1:
            # accelerate holds on to the process's first device and precision; a second training may want others.
            AcceleratorState._reset_state(reset_partial_state=True)
        self.accelerator = Accelerator(
            cpu=use_cpu,
            mixed_precision="bf16" if half else "no",
            kwargs_handlers=[DistributedDataParallelKwargs(find_unused_parameters=True)],
        )
        self.progress = progress and self.accelerator.is_main_process
        self.targets = [
            model.kinds[i].scale_targets(item.task, item.train.targets, item.train.readings)
            for i, item in enumerate(sets)
        ]
        self.history: list[dict[str, Any]] = []
        self.texts: dict[int, TextCache] = {}
        """What a stage on cached texts has of each task's rows"""
        self.skipped = 0
        self.tokens, self.seconds = 0, 0.0
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
        start = time.perf_counter()
        saved = self.checkpoints.load(self.model) if resume and self.checkpoints is not None else None
        if saved is not None:
            self.model.records, self.history, self.skipped = (
                saved["progress"][key] for key in ("records", "history", "skipped")
            )
            self.used.restore(saved["progress"]["used"])
            log.info("going on from %s", self.checkpoints.folder)  # type: ignore[union-attr]
        self.model.to(self.accelerator.device)
        for number, stage in enumerate(stages_of(self.model.method, self.options)):
            if saved is None or number >= saved["stage"]:
                self.run_stage(stage, number, saved if saved is not None and number == saved["stage"] else None)
        for number, item in enumerate(self.sets):
            rows = {"train": len(item.train), "validation": len(item.validation)}
            self.model.records[number] |= {"rows": rows, "data": fingerprint(item.train)}
        # In full precision, as the model will answer.
        for number, logits in all_logits(self.model, {n: item.validation for n, item in enumerate(self.sets)}).items():
            settle(self.model, number, logits, self.sets[number].validation)
        self.used.gather(self.accelerator)
        self.model.training_record = {
            "options": asdict(self.options),
            "seconds": round(time.perf_counter() - start, 1),
            "tokens_per_s": round(self.tokens_per_s),
            "skipped_steps": self.skipped,
            "alarms": find_alarms(self.model, self.sets, self.options),
            "findings": findings_of(self.model, self.sets),
            "rows_used": self.used.report(self.model.names),
            "history": self.history,
        }
        self.model.to("cpu").eval()

    def run_stage(self, stage: Stage, number: int = 0, saved: dict[str, Any] | None = None) -> None:
        """Train one stage, from its start or from where a checkpoint stood."""
        tasks = list(range(len(self.sets))) if stage.tasks is None else list(stage.tasks)
        self.tasks, self.options = tasks, self.given.sized(sum(len(self.sets[task].train) for task in tasks))
        options, model = self.options, self.model
        frozen = fixed_parameters(model.method, stage, options)
        frozen += [p for other in range(len(self.sets)) if other not in tasks for p in self.own_parameters(other)]
        for parameter in frozen:
            parameter.requires_grad_(False)
        if stage.cached:
            most = MOST_IN_MEMORY // len(tasks)
            tokens = any(model.kinds[task].reads_tokens for task in tasks)
            half = self.accelerator.mixed_precision == "bf16"
            self.texts = {
                task: TextCache(model.method, self.sets[task].train, most, half=half, tokens=tokens) for task in tasks
            }
        optimizer = make_optimizer(model.method, model.heads, options)
        step, optimizer = self.accelerator.prepare(Objective(model, stage.forward, options, self.teaching), optimizer)
        sizes = [len(self.sets[task].train) for task in tasks]
        state = StageState(
            optimizer,
            RunningMean([p for group in optimizer.param_groups for p in group["params"]], options.average),
            Best(options.select, [self.sets[task].task for task in tasks]),
            RowStream(sizes, options.seed),
            Finished(options.freeze_done, tasks, self.own_parameters),
            options.evaluate_every,
        )
        if saved is not None:
            state.restore(saved["tensors"], saved["state"])
        epochs = stage.epochs or options.epochs
        total = epochs * sum(sizes)
        losses = TaskLosses(len(self.sets), self.accelerator.device)
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
                    set_rates(optimizer, rate_at(self.done, options.warmup))
                    self.take_turn(step, draws, state, losses, stage)
                    bar.update(count)
                    bar.set_postfix_str(f"{self.tokens_per_s:,.0f} tokens/s", refresh=False)
                    # Rows rather than epochs: 3 * 0.1 is more than 0.3.
                    if state.rows >= state.next_evaluation * sum(sizes) - 1e-6 or state.rows == total:
                        state.next_evaluation += options.evaluate_every
                        with state.mean.in_place():
                            self.evaluate(stage, state.rows / sum(sizes), state, losses, bar)
                        self.keep(number, state)
                        if self.out_of_patience(state):
                            break
                state.epoch, state.batch = state.epoch + 1, 0
        state.mean.settle()  # for trainings without validation rows, which have no best
        state.best.restore(model)
        self.accelerator.free_memory()  # it keeps every stage's optimiser
        self.texts = {}
        state.finished.release()
        for parameter in frozen:
            parameter.requires_grad_(True)
        if stage.finish is not None:
            stage.finish(model.heads)  # type: ignore[arg-type]

    def rows_of_epoch(self, state: StageState, epochs: int) -> Draws:
        """What the epoch's steps draw from; the stream's place before is kept, so that it can be drawn again."""
        self.model.train()
        state.at_epoch = state.stream.state()
        return draw_epoch(self.sampler, state.stream, self.sets, self.tasks, (state.epoch, epochs), self.limits)

    @property
    def limits(self) -> tuple[int, int]:
        """Most rows and most tokens of a step."""
        return self.options.batch_size, self.options.batch_tokens

    def take_turn(self, step: nn.Module, draws: Draws, state: StageState, losses: TaskLosses, stage: Stage) -> None:
        """Train on a step's rows, if it is this process's turn."""
        index, processes = self.accelerator.process_index, self.accelerator.num_processes
        last_round = state.batch > len(draws) - len(draws) % processes  # too few for all: they would wait for ever
        if last_round or (state.batch - 1) % processes != index:
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

    @property
    def tokens_per_s(self) -> float:
        return self.tokens / self.seconds if self.seconds else 0.0

    def out_of_patience(self, state: StageState) -> bool:
        return state.finished.everything or 0 < self.options.patience <= state.best.since

    def keep(self, stage: int, state: StageState) -> None:
        """Leave a checkpoint, if the last one is old enough."""
        if self.checkpoints is not None and self.checkpoints.due() and self.accelerator.is_main_process:
            progress = {"records": self.model.records, "history": self.history, "skipped": self.skipped}
            progress["used"] = self.used.state()
            self.checkpoints.save(self.model, stage, state, progress)

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
        factors = torch.from_numpy(weights.astype(np.float32)).to(found.device, non_blocking=True)
        loss = (found * factors).mean() + self.model.method.extra_loss()
        if not loss.requires_grad:  # nothing but finished tasks, on a fixed encoder
            return True
        self.accelerator.backward(loss)
        learning = [p for group in optimizer.param_groups for p in group["params"] if p.grad is not None]
        norm = self.accelerator.clip_grad_norm_(learning, self.options.clip or float("inf"))
        finite = bool(torch.isfinite(norm))
        if finite:
            optimizer.step()
            mean.update()
            losses.add([task for task, _ in rows], found.detach())
        else:
            self.skipped += 1
            log.warning("a step with a non-finite gradient was left out (%d so far)", self.skipped)
        optimizer.zero_grad(set_to_none=True)
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
        record = {
            "stage": stage.name,
            "epoch": round(epoch, 2),
            "average": average(scores),
            "losses": means,
            "scores": {name: result["score"] for name, result in scores.items()},
            "best": better,
        }
        self.history.append(record)
        if better:
            for task in validation:
                self.model.records[task]["scores"] = {"validation": scores[names[task]]}
        worst = min(scores, key=lambda name: scores[name]["score"])
        with bar.external_write_mode():
            log.info(
                "%s, epoch %.4g: mean %.1f, worst %.1f (%s), loss %.3f%s",
                stage.name, epoch, record["average"], scores[worst]["score"], worst,
                float(np.mean(list(means.values()))) if means else float("nan"), ", best so far" if better else "",
            )  # fmt: skip
            if ended:
                log.info("no longer better, own weights fixed: %s", ", ".join(names[task] for task in ended))

    def diverged(self, rows: list[tuple[int, int]]) -> TrainingError:
        where = ", ".join(f"{self.sets[t].task.name} row {self.sets[t].train.rows[r]}" for t, r in rows[:8])
        return TrainingError(
            f"{MOST_SKIPPED_IN_A_ROW} steps in a row had a gradient that is not finite; training stopped and nothing "
            f"was written. The last batch held: {where}{', ...' if len(rows) > 8 else ''}. Try smaller rates "
            "(train.encoder_rate, train.head_rate), or train.precision=fp32."
        )


def _device(options: TrainOptions) -> str:
    return "cpu" if options.device == "cpu" or not torch.cuda.is_available() else "cuda"
