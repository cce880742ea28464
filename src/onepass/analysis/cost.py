"""What a method costs: weights in total and for each task, and passes and multiplications for each text.

Nothing is known here of any method. Passes are counted in words that are looked up; multiplications are those of the
matrix products that torch runs. Norms, activations and sums are not counted, as is usual.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from typing import Any

import torch
from torch import Tensor
from torch.utils.flop_counter import FlopCounterMode, sdpa_flop_count

from onepass.encoder.batch import Batch, Layout
from onepass.encoder.encoder import Encoder
from onepass.encoder.tokenizer import Tokenizer
from onepass.methods import make_method, settle_method
from onepass.model import Model
from onepass.tasks import MethodChoice, Task


@dataclass(frozen=True)
class Cost:
    """What a model's answers to all its tasks cost."""

    tasks: int
    tokens: int
    parameters: int
    """All weights, the encoder's included"""
    parameters_per_task: int
    """What one more task adds, its head included"""
    passes: float
    """Encoder passes a text"""
    multiplications: int
    """Of a text, all tasks asked"""
    ratio: float
    """The same, relative to one pass of the plain encoder"""

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)


def untrained_model(
    method: str, encoder: Encoder, tokenizer: Tokenizer, num_tasks: int, options: Mapping[str, Any] | None = None
) -> Model:
    """A model of two-label tasks, as it is after its training but for what it would have learned."""
    choice = settle_method(MethodChoice(name=method, options=dict(options or {})), num_tasks)
    model = Model(make_method(choice.name, encoder, choice.options), tokenizer, choice, "")
    for number in range(num_tasks):
        model.add(Task(name=f"task-{number}", text=("text",), label="label", labels=("no", "yes")))
    for stage in model.method.stages():
        if stage.finish is not None:
            stage.finish(model.heads)  # type: ignore[arg-type]
    return model.eval()


def random_texts(encoder: Encoder, tokens: int, count: int = 1) -> Batch:
    """Texts of so many tokens each, drawn from the vocabulary."""
    generator = torch.Generator().manual_seed(0)
    ids = torch.randint(0, encoder.config.vocab_size, (count * tokens,), generator=generator)
    return Batch(ids, torch.zeros_like(ids), Layout([tokens] * count))


def all_tasks(model: Model, batch: Batch) -> Tensor:
    """Every task asked of every text, (B, N)."""
    return torch.arange(len(model.tasks)).expand(len(batch), -1)


@torch.inference_mode()
def cost_of(model: Model, tokens: int = 128) -> Cost:
    """What one text of so many tokens costs, and how many weights there are."""
    batch = random_texts(model.method.encoder, tokens).to(model.device)
    with counted() as plain:
        model.method.encoder(batch)
    with counted() as whole, counted_words(model) as read:
        model(batch, all_tasks(model, batch))
    multiplications = whole.get_total_flops() // 2
    return Cost(
        tasks=len(model.tasks),
        tokens=tokens,
        parameters=sum(parameter.numel() for parameter in used_parameters(model)),
        parameters_per_task=parameters_of_task(model, len(model.tasks) - 1),
        passes=read[0] / batch.layout.total,
        multiplications=multiplications,
        ratio=multiplications / (plain.get_total_flops() // 2),
    )


def used_parameters(model: Model) -> Iterator[torch.nn.Parameter]:
    """The weights that answers depend on: an encoder that no pass enters, because each task has its own, is none."""
    method = model.method
    own = [module for task in method.tasks for module in task.modules() if isinstance(module, Encoder)]
    skipped = {id(parameter) for parameter in method.encoder.parameters()} if own else set()
    return (parameter for parameter in model.parameters() if id(parameter) not in skipped)


def parameters_of_task(model: Model, number: int) -> int:
    """The weights that are one task's own, its head included."""
    parts = (model.method.tasks[number], model.heads[number])
    return sum(parameter.numel() for part in parts for parameter in part.parameters())


@contextmanager
def counted() -> Iterator[FlopCounterMode]:
    """Counts the matrix products within the block."""
    # torch knows the attention kernels of GPUs; the CPU's has another name and is counted in the same way.
    on_cpu = {torch.ops.aten._scaled_dot_product_flash_attention_for_cpu: _attention}
    with FlopCounterMode(display=False, custom_mapping=on_cpu) as counter:
        yield counter


def _attention(query: Any, key: Any, value: Any, *_: Any, **__: Any) -> int:
    return sdpa_flop_count(query, key, value)


@contextmanager
def counted_words(model: Model) -> Iterator[list[int]]:
    """Counts the words that any of the model's encoders looks up within the block: each pass over a text once."""
    count = [0]

    def add(_module: object, inputs: tuple[Tensor]) -> None:
        count[0] += inputs[0].numel()

    handles = [m.word_table.register_forward_pre_hook(add) for m in model.modules() if isinstance(m, Encoder)]
    try:
        yield count
    finally:
        for handle in handles:
            handle.remove()
