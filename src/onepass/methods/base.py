"""What a method is, and the stages in which it wants to be trained."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, cast

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from onepass.encoder.batch import Batch, Layout, on_device
from onepass.encoder.encoder import Encoder
from onepass.errors import ConfigError, listed
from onepass.methods.asked import Asked, linear_by_task
from onepass.methods.stacked import TaskModules

if TYPE_CHECKING:
    from onepass.data.examples import Examples
    from onepass.encoder.tokenizer import Tokenizer


@dataclass
class TokenStates:
    """The states of the texts' tokens, for the asks that read them; those that share states share their memory."""

    states: Tensor  # (T', H)
    starts: NDArray[np.int64]  # (B * K,) where the text of each ask begins; any number for asks that read no tokens
    scale: Tensor | None = None  # (B * K, H)
    shift: Tensor | None = None  # (B * K, H) what an ask makes of a state x: (1 + scale) * x + shift

    def take(self, asks: NDArray[np.int64], places: NDArray[np.int64]) -> Tensor:
        """The states of tokens, each given by an ask and its place in that ask's text: (P, H)"""
        device = self.states.device
        found = self.states[on_device(self.starts[asks] + places, device)]
        if self.scale is None or self.shift is None:
            return found
        own = on_device(asks, device)
        return (1 + self.scale[own]) * found + self.shift[own]


@dataclass
class States:
    """What a method read: one vector per text and asked task, and token states if an asked task reads them."""

    vectors: Tensor  # (B, K, H)
    tokens: TokenStates | None = None
    asks: Asked | None = None
    """The asks sorted by task, if the method had to sort them"""


@dataclass
class Stage:
    """One leg of a training: which tasks are learned, with which weights fixed.

    A joint method has one stage; `single` has one per task; MTOP's ST initialisation puts a frozen stage before the
    joint one.
    """

    name: str = "train"
    tasks: Sequence[int] | None = None
    """The tasks of this stage; None: all of them"""
    epochs: int | None = None
    """How long it lasts, if not as long as the options say"""
    rate: float | None = None
    """The learning rate of all that learns in it, if not those of the options"""
    freeze_encoder: bool = False
    fixed: Sequence[nn.Parameter] = ()
    """Other weights that do not learn in this stage"""
    cached: bool = False
    """Train on what the method's `cache` has of each text, computed once: nothing below that learns"""
    forward: Callable[[Batch, Tensor], States] | None = None
    """What to run in place of the method's own forward"""
    finish: Callable[[Sequence[nn.Linear]], None] | None = None
    """Called with the heads when the stage is over"""


class Method(nn.Module):
    """Turns a batch of texts into one vector per text and asked task.

    B texts, T packed tokens, K tasks asked of each text, N tasks known, H width, L layers.
    A task's own weights are one module in `tasks`, never rows of a common tensor: a task that is not in a batch then
    has no gradient, and the optimiser does not touch it.
    """

    one_pass = True
    """False: the encoder reads a text once per task"""
    depends_on_tasks = False
    """True: an answer changes when other tasks are added or removed"""
    cannot_add = ""
    """Why a trained model can be given no further task, as the end of a sentence; empty: it can"""
    cannot_choose = ""
    """Why no sampler can choose between rows of its tasks by its answers, as the end of a sentence; empty: one can"""
    made_by: dict[str, str] = {}
    """Options that are no choice in a task file, with what makes models that have them"""
    teachers = 0
    """With how many teachers of its own it is best trained, see `onepass.training.teachers`"""
    caches: Literal["nothing", "tokens", "texts"] = "nothing"
    """What `cache` has a row for, while nothing but a task's own weights learns"""
    gives_tokens = False
    """Whether kinds of task that read tokens can be served"""

    has_groups = False
    """Whether tasks of one group (`group` in the task file) share a part of their weights"""

    routed: tuple[str, ...] = ()
    """The beginnings of the names of weights that only some tokens reach, so that a small batch may leave them idle"""

    def __init__(self, encoder: Encoder):
        super().__init__()
        self.encoder = encoder
        self.tasks = TaskModules()

    @property
    def device(self) -> torch.device:
        return next(self.encoder.parameters()).device

    @classmethod
    def settle(cls, options: Mapping[str, Any], num_tasks: int) -> dict[str, Any]:
        """Values of the options that were left to be chosen (`auto`), for so many tasks; `options` are all of them."""
        return {}

    @classmethod
    def reads_once(cls, options: Mapping[str, Any]) -> bool:
        """`one_pass` of a method with these options, without building it."""
        return cls.one_pass

    def new_task(self) -> nn.Module:
        """The weights of one more task, before they are initialised from its data."""
        return nn.Module()

    def add_task(self, tokenizer: Tokenizer, examples: Examples | None = None) -> None:
        """Make room for one more task; `examples` are its training rows, for methods that start from them."""
        self.tasks.append(self.new_task())

    def let_read_tokens(self, task: int) -> None:
        """Give a task what it needs to read tokens."""
        cast(Any, self.tasks[task]).reads_tokens = True
        self.tasks.forget()

    def reading_tokens(self, asked: Tensor) -> list[int]:
        """The tasks among those asked (B, K) that read tokens."""

        def find() -> set[int]:
            return {number for number, task in enumerate(self.tasks) if getattr(task, "reads_tokens", False)}

        known = self.tasks.remember("reading tokens", find)
        return sorted(known.intersection(asked.unique().tolist())) if known else []

    def share(self, new: int, old: int) -> None:
        """Let a task hold, in place of its own, what tasks of one group share with another of its group."""
        raise NotImplementedError

    def shares_alike(self, one: int, other: int) -> bool:
        """Whether what two tasks of a group share has the same values."""
        return False

    def start_from(self, new: int, old: int) -> None:
        """Give a task a copy of another's own weights: its embedding, gates or prompts, but not its head."""
        self._begin(new, self.tasks[old].state_dict())

    def start_from_mean(self, new: int, olds: Sequence[int]) -> None:
        """Give a task the mean of other tasks' own weights."""
        others = [self.tasks[old].state_dict() for old in olds]
        names = [name for name, _ in self.tasks[new].named_parameters()]
        found = {name: [other[name] for other in others if name in other] for name in names}
        self._begin(new, {name: torch.stack(values).mean(0) for name, values in found.items() if values})

    @torch.no_grad()
    def _begin(self, new: int, values: Mapping[str, Tensor]) -> None:
        """Give a task these weights, as far as it has such; what it shares with others stays."""
        others = {id(p) for number, task in enumerate(self.tasks) if number != new for p in task.parameters()}
        for name, parameter in self.tasks[new].named_parameters():
            if id(parameter) not in others and name in values:
                parameter.copy_(values[name])

    def forward(self, batch: Batch, asked: Tensor) -> States:
        """The states for `asked` (B, K), the numbers of the tasks asked of each text; `asked` stays on the CPU."""
        raise NotImplementedError

    def cache(self, batch: Batch, tokens: bool = False) -> Tensor:
        """What of a forward depends on the texts alone, whatever task is asked: (T, ...) or (B, ...), see `caches`.

        With `tokens` also what tasks need that read tokens: always (T, ...).
        """
        raise NotImplementedError

    def from_cache(self, cached: Tensor, layout: Layout, asked: Tensor) -> States:
        """The rest of the forward: from_cache(cache(batch), batch.layout, asked) is forward(batch, asked).

        If a task is asked that reads tokens, the cache must have been made with `tokens`.
        """
        raise NotImplementedError

    def others_depend_on(self, task: int) -> bool:
        """Whether the answers of other tasks change when this one is removed or trained anew."""
        return self.depends_on_tasks

    def engine_recipe(self) -> dict[str, Any] | None:
        """What the torch-free engine has to do in place of `forward`: a runner of `engine.engine` and its options.

        None: no engine can be built.
        """
        return None

    def stages(self) -> list[Stage]:
        return [Stage()]

    def token_parameters(self) -> Iterator[nn.Parameter]:
        """Learned input tokens; they train at a rate of their own."""
        return iter(())

    def encoder_parameters(self) -> Iterator[nn.Parameter]:
        """What learns at the encoder's rate: the encoders, and weights that began as a copy of a part of one."""
        for module in self.modules():
            if isinstance(module, Encoder):
                yield from module.parameters()

    def layers_above(self) -> Iterator[tuple[nn.Parameter, int]]:
        """What learns at the encoder's rate and lies in or under its layers, with how many layers lie above it."""
        for encoder in (module for module in self.modules() if isinstance(module, Encoder)):
            for name, parameter in encoder.named_parameters():
                if name.startswith("layers."):
                    yield parameter, encoder.depth - 1 - int(name.split(".")[1])
                elif not name.startswith("final_norm."):
                    yield parameter, encoder.depth

    def extra_loss(self) -> Tensor | float:
        return 0.0

    def loss_scale(self, classes: int) -> float:
        """The factor of the losses of tasks with so many classes; 1 for a number."""
        return 1.0

    def findings(self, batches: Iterable[tuple[Batch, Tensor]]) -> dict[int, Any]:
        """What the method has to tell of its tasks, by number, from some texts and the tasks asked of each."""
        return {}

    def limits(self, num_tasks: int, max_length: int) -> list[str]:
        """Why so many tasks, or texts so long, cannot be served, if so."""
        return []


def refuse(method: str, *faults: str | Literal[False]) -> None:
    """One error with all that is wrong with a method's options: False, or what to say.

    >>> length = 0
    >>> refuse("mtop", length < 1 and "prompt_length is 0; possible: a whole number from 1.")
    Traceback (most recent call last):
    onepass.errors.ConfigError: method 'mtop': prompt_length is 0; possible: a whole number from 1.
    """
    if said := [f"method {method!r}: {fault}" for fault in faults if fault]:
        raise ConfigError(listed(said))


class Pooler(nn.Linear):
    """The dense layer before a head, tanh(W x + b), with Glorot-uniform weights."""

    def __init__(self, width: int):
        super().__init__(width, width)

    def reset_parameters(self) -> None:
        nn.init.xavier_uniform_(self.weight)
        nn.init.zeros_(self.bias)

    def forward(self, x: Tensor) -> Tensor:
        return torch.tanh(super().forward(x))


class PooledTask(nn.Module):
    """A task whose only weights beside its head are a pooler."""

    def __init__(self, width: int):
        super().__init__()
        self.pooler = Pooler(width)


def pool_by_task(vectors: Tensor, tasks: TaskModules, asks: Asked) -> Tensor:
    """Each ask through its task's pooler: (B, K, H) -> (B, K, H)"""
    weight, bias = (tasks.stacked(f"pooler.{name}", asks.tasks) for name in ("weight", "bias"))
    return torch.tanh(asks.by_row(linear_by_task(asks.by_task(vectors), weight, bias)))


def first_tokens(x: Tensor, layout: Layout) -> Tensor:
    """The [CLS] states of packed tokens: (T, H) -> (B, H)"""
    return x[layout.starts]


def mean_tokens(x: Tensor, layout: Layout) -> Tensor:
    """The mean state of each text: (T, H) -> (B, H)"""
    sums = x.new_zeros(len(layout), x.shape[-1]).index_add(0, layout.rows, x)
    return sums / on_device(np.asarray(layout.lengths), x.device).to(x.dtype).unsqueeze(-1)


def shared_tokens(states: Tensor, layout: Layout, num_asked: int) -> TokenStates:
    """The states (T, H) of texts that are read once for all K tasks asked of each."""
    return TokenStates(states, np.repeat(starts_of(layout), num_asked))


def starts_of(layout: Layout) -> NDArray[np.int64]:
    """(B,) where each text begins in the packed batch."""
    return np.cumsum([0, *layout.lengths], dtype=np.int64)[:-1]


READOUTS: dict[str, Callable[[Tensor, Layout], Tensor]] = {"cls": first_tokens, "mean": mean_tokens}
