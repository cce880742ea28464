"""A whole fine-tuned model per task: what users have today, and what one pass is measured against.

A task's model is an encoder with a pooler, or a copy of another method with everything in it: what MT-DNN and MT-TaG
end with after their second stage, in which each task is fine-tuned from the model trained on all of them.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal, cast

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from onepass.encoder.batch import Batch
from onepass.encoder.encoder import Encoder
from onepass.errors import ConfigError, listed
from onepass.methods.asked import Asked
from onepass.methods.base import READOUTS, Method, Pooler, Stage, States, TokenStates, starts_of

if TYPE_CHECKING:
    from onepass.data.examples import Examples
    from onepass.encoder.tokenizer import Tokenizer


class OwnModel(nn.Module):
    """One task's encoder and pooler."""

    def __init__(self, encoder: Encoder):
        super().__init__()
        self.encoder = copy.deepcopy(encoder)
        self.pooler = Pooler(encoder.width)


class OwnCopy(nn.Module):
    """One task's copy of a whole method, with an encoder of its own."""

    own: Tensor

    def __init__(self, encoder: Encoder, name: str, options: Mapping[str, Any], num_tasks: int):
        super().__init__()
        from onepass.methods import make_method  # which imports this file

        self.method = make_method(name, copy.deepcopy(encoder).requires_grad_(True), options)
        for _ in range(num_tasks):
            self.method.tasks.append(self.method.new_task())
        self.register_buffer("own", torch.zeros((), dtype=torch.long))
        """The task's number within the copy"""

    def forward(self, texts: Batch) -> States:
        return cast(States, self.method(texts, self.own.cpu().expand(len(texts), 1)))

    def begin(self, tokenizer: Tokenizer, examples: Examples) -> None:
        """Give the copy's tasks the start values that the method gives to new ones."""
        for number in range(len(self.method.tasks)):
            self.method.add_task(tokenizer, examples)
            self.method.tasks[number] = self.method.tasks[-1]
            del self.method.tasks[-1]

    def take(self, joint: Method, number: int) -> None:
        """Become a copy of a method that knows all tasks, for one of them."""
        weights = joint.state_dict()
        if len(self.method.tasks) < len(joint.tasks):  # the others' weights do nothing for this task
            named, own = weights.items(), f"tasks.{number}."
            weights = {name: tensor for name, tensor in named if not name.startswith("tasks.")}
            weights |= {f"tasks.0.{name.removeprefix(own)}": t for name, t in named if name.startswith(own)}
            number = 0
        self.method.load_state_dict(weights)
        self.own.fill_(number)


def check_copied(of: Any) -> None:
    """Raise if this is not another method with its options."""
    from onepass.methods import METHODS, option_faults  # which imports this file

    wanted: dict[str, Any] = {"options": {}, "tasks": 1, **of} if isinstance(of, dict) else {}
    named = isinstance(wanted.get("name"), str) and wanted["name"] != "single"
    whole = wanted.keys() == {"name", "options", "tasks"} and isinstance(wanted["options"], dict)
    if not named or not whole or type(wanted["tasks"]) is not int or wanted["tasks"] < 1:
        raise ConfigError(
            f"method 'single': of is {of}; possible: {{name: METHOD, options: {{...}}, tasks: 1}}, another method of "
            f"{', '.join(name for name in METHODS if name != 'single')}."
        )
    if faults := option_faults(wanted["name"], wanted["options"]):
        raise ConfigError(listed([f"method 'single', of: {fault}" for fault in faults]))


class Single(Method):
    """Each task reads the text with a model of its own, trained on its own data, with its own best checkpoint.

    of: another method, of which each task has a whole copy: {name: mttag, options: {experts: 4}, tasks: 1}. `tasks` is
        how many tasks a copy knows: more than one only for methods whose tasks read each other. `train.finetune` makes
        such models.
    """

    one_pass = False
    cannot_choose = "every task is trained by itself, so there are no rows of others to choose from"
    gives_tokens = True
    made_by = {"of": "train.finetune"}

    def __init__(self, encoder: Encoder, *, readout: Literal["cls", "mean"] = "cls", of: dict[str, Any] | None = None):
        super().__init__(encoder)
        self.readout = READOUTS[readout]
        self.of = of
        if of is not None:
            check_copied(of)
        encoder.requires_grad_(False)  # only the tasks' copies learn

    def new_task(self) -> nn.Module:
        if self.of is not None:
            return OwnCopy(self.encoder, self.of["name"], self.of.get("options", {}), self.of.get("tasks", 1))
        own = OwnModel(self.encoder)
        own.requires_grad_(True)
        return own

    def add_task(self, tokenizer: Tokenizer, examples: Examples | None = None) -> None:
        super().add_task(tokenizer, examples)
        if self.of is not None and examples is not None:
            cast(OwnCopy, self.tasks[-1]).begin(tokenizer, examples)

    def copies(self) -> list[OwnCopy]:
        return [task for task in self.tasks if isinstance(task, OwnCopy)]

    def token_parameters(self) -> Iterator[nn.Parameter]:
        for task in self.copies():
            yield from task.method.token_parameters()

    def encoder_parameters(self) -> Iterator[nn.Parameter]:
        yield from super().encoder_parameters()
        in_encoders = {id(parameter) for parameter in super().encoder_parameters()}
        for task in self.copies():
            yield from (p for p in task.method.encoder_parameters() if id(p) not in in_encoders)

    def layers_above(self) -> Iterator[tuple[nn.Parameter, int]]:
        yield from super().layers_above()
        for task in self.copies():
            yield from task.method.layers_above()

    def loss_scale(self, classes: int) -> float:
        copies = self.copies()
        return copies[0].method.loss_scale(classes) if copies else 1.0

    def let_read_tokens(self, task: int) -> None:
        super().let_read_tokens(task)
        own = self.tasks[task]
        if isinstance(own, OwnCopy):
            for number in range(len(own.method.tasks)):
                own.method.let_read_tokens(number)

    def forward(self, batch: Batch, asked: Tensor) -> States:
        order, reading = Asked(asked), self.reading_tokens(asked)
        per_task: list[Tensor] = []
        tokens: list[tuple[NDArray[np.int64], TokenStates]] = []
        for task, asks in zip(order.tasks.tolist(), order.asks, strict=True):
            texts = batch.select((asks // asked.shape[1]).tolist())
            states = self.read(self.tasks[task], texts)
            per_task.append(states.vectors[:, 0])
            if task in reading and states.tokens is not None:
                tokens.append((asks, states.tokens))
        vectors = torch.cat(per_task)  # asks, task by task
        back = torch.empty(asked.numel(), dtype=torch.long)
        back[torch.cat([torch.from_numpy(asks) for asks in order.asks])] = torch.arange(asked.numel())
        vectors = vectors[back.to(vectors.device)].unflatten(0, order.shape)
        return States(vectors, joined(tokens, asked.numel()) if tokens else None)

    def read(self, own: nn.Module, texts: Batch) -> States:
        """What one task reads in texts that are asked it alone."""
        if not isinstance(own, OwnModel):
            return cast(States, own(texts))
        states = own.encoder(texts)
        vectors = own.pooler(self.readout(states, texts.layout))
        return States(vectors.unsqueeze(1), TokenStates(states, starts_of(texts.layout)))

    def stages(self) -> list[Stage]:
        count, copies = len(self.tasks), self.copies()
        fixed = bool(copies) and copies[0].method.stages()[-1].freeze_encoder
        return [Stage(f"task {i + 1} of {count}", tasks=[i], freeze_encoder=fixed) for i in range(count)]


def joined(parts: Sequence[tuple[NDArray[np.int64], TokenStates]], num_asks: int) -> TokenStates:
    """The token states of several tasks as one; each part has the numbers of its asks."""
    starts, length = np.zeros(num_asks, np.int64), 0
    for asks, part in parts:
        starts[asks] = length + part.starts
        length += len(part.states)
    found = TokenStates(torch.cat([part.states for _, part in parts]), starts)
    if all(part.scale is None for _, part in parts):
        return found
    everyone = torch.from_numpy(np.concatenate([asks for asks, _ in parts])).to(found.states.device)
    own = [(cast(Tensor, part.scale), cast(Tensor, part.shift)) for _, part in parts]
    for name, values in (("scale", [scale for scale, _ in own]), ("shift", [shift for _, shift in own])):
        together = torch.cat(values)
        setattr(found, name, together.new_zeros(num_asks, together.shape[1]).index_copy(0, everyone, together))
    return found
