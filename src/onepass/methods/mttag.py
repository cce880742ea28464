"""MT-TaG: experts in place of every feed-forward, and a gate of each task's own that sends tokens to them.

Sparsely Activated Mixture-of-Experts are Robust Multi-Task Learners, arXiv:2204.07689 (equations 1 to 10). No code was
released; where the paper is silent:
- Residual, dropout and norm stay outside of the experts and are shared.
- The output of an expert is multiplied by its gate value p (equation 6; `scaling: literal`, the default). With E
  experts that is about 1 / E at the start, which is not the pretrained function; `scaled` multiplies by E * p, and
  `preserving` by p / p with the gradient stopped below, which leaves the value alone and still trains the gate.
- No capacity limit: no token is dropped. No balancing loss, no jitter (the paper has none either).
- The losses of tasks with C classes are divided by log C; a number's (C = 1) and those of spans are left alone.
`gate: shared` is the paper's MT-Switch, `gate: dense` its MT-Dense: neither depends on the task, so one pass does.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Literal, cast

import torch
from torch import Tensor, nn

from onepass.encoder.batch import Batch
from onepass.encoder.encoder import Encoder, Layer, evaluating
from onepass.errors import ConfigError
from onepass.methods.asked import Asked
from onepass.methods.base import Method, States, TokenStates, first_tokens, shared_tokens, starts_of
from onepass.methods.experts import Experts, GroupedWeights, can_group, gate_values, grouped_weights
from onepass.methods.folding import once_per_ask
from onepass.methods.parts import with_parts

MOST_EXPERTS = 64  # each is a copy of every feed-forward, which are two thirds of the encoder


class GatedTask(nn.Module):
    """One task's gates, for all layers."""

    def __init__(self, depth: int, experts: int, width: int):
        super().__init__()
        self.gates = new_gates(depth, experts, width)


def new_gates(depth: int, experts: int, width: int) -> nn.Parameter:
    return nn.Parameter(torch.randn(depth, experts, width) * 0.001)


class MTTaG(Method):
    """Each token goes to one expert a layer, which its task's gate chooses.

    The paper's values: 4 experts, a gate per task, the gate value as it is, losses divided by log C.
    """

    gives_tokens = True
    routed = ("experts.",)

    def __init__(
        self,
        encoder: Encoder,
        *,
        experts: int = 4,
        gate: Literal["task", "shared", "dense"] = "task",
        scaling: Literal["literal", "scaled", "preserving"] = "literal",
        divide_losses: bool = True,
    ):
        super().__init__(encoder)
        if not 1 <= experts <= MOST_EXPERTS:
            possible = f"a whole number from 1 to {MOST_EXPERTS} (the paper: 4)"
            raise ConfigError(f"method 'mttag': experts is {experts}; possible: {possible}.")
        self.gate, self.scaling, self.divide_losses = gate, scaling, divide_losses
        self.num_experts = 1 if gate == "dense" else experts
        self.one_pass = self.reads_once({"gate": gate})
        self.experts = nn.ModuleList(Experts(layer, self.num_experts) for layer in encoder.layers)
        sizes = (encoder.depth, self.num_experts, encoder.width)
        self.shared_gates = new_gates(*sizes) if gate == "shared" else None

    @classmethod
    def reads_once(cls, options: Mapping[str, Any]) -> bool:
        return options.get("gate", "task") != "task"

    def new_task(self) -> nn.Module:
        if self.gate != "task":
            return nn.Module()
        return GatedTask(self.encoder.depth, self.num_experts, self.encoder.width)

    def encoder_parameters(self) -> Iterator[nn.Parameter]:
        yield from super().encoder_parameters()
        yield from self.experts.parameters()

    def layers_above(self) -> Iterator[tuple[nn.Parameter, int]]:
        yield from super().layers_above()
        for index, experts in enumerate(self.experts):
            for parameter in experts.parameters():
                yield parameter, self.encoder.depth - 1 - index

    def loss_scale(self, classes: int) -> float:
        return 1 / math.log(classes) if self.divide_losses and classes > 1 else 1.0

    def forward(self, batch: Batch, asked: Tensor) -> States:
        tokens = None
        if self.one_pass:
            states, _ = self.encode(batch, None)
            if self.reading_tokens(asked):
                tokens = shared_tokens(states, batch.layout, asked.shape[1])
            return States(first_tokens(states, batch.layout).unsqueeze(1).expand(-1, asked.shape[1], -1), tokens)
        asks = Asked(asked, batch.ids.device)
        folded = once_per_ask(batch, asked)
        states, _ = self.encode(folded, asks)
        if self.reading_tokens(asked):
            tokens = TokenStates(states, starts_of(folded.layout))
        return States(first_tokens(states, folded.layout).unflatten(0, asks.shape), tokens)

    def encode(self, batch: Batch, asks: Asked | None) -> tuple[Tensor, list[Tensor]]:
        """The states (T, H) of texts, one row an ask, and the expert of each token in each layer, (T,) each."""
        encoder, layout, routes = self.encoder, batch.layout, list[Tensor]()
        x = encoder.embed(encoder.words(batch.ids), layout.positions, batch.types)
        gates = self.gates_of(asks)
        of_token = layout.rows if asks is None else asks.of_ask[layout.rows]  # (T,) whose gate, among those asked
        every: list[GroupedWeights] | None = None
        if gates is not None and can_group(x, encoder.layers[0]):
            every = grouped_weights(encoder.layers, cast(Sequence[Experts], self.experts))
        for index, layer in enumerate(encoder.layers):
            if gates is not None:
                grouped = None if every is None else every[index]
                layer = self.with_experts(index, layer, gates[index], of_token, routes, grouped)
            x = layer(x, layout)
        return encoder.finish(x), routes

    def gates_of(self, asks: Asked | None) -> Sequence[Tensor] | None:
        """By layer the gates of the tasks asked, (U, E, H); (1, ...) where all tasks share them, None without."""
        if self.shared_gates is not None:
            return self.shared_gates.unsqueeze(1).unbind(0)
        if self.gate == "dense" or asks is None:
            return None
        # Taken apart at once: by one layer after the other, each would make a gradient as large as all of them.
        return self.tasks.stacked("gates", asks.tasks).transpose(0, 1).contiguous().unbind(0)

    def with_experts(
        self,
        index: int,
        layer: Layer,
        gates: Tensor,
        of_token: Tensor,
        routes: list[Tensor],
        grouped: GroupedWeights | None = None,
    ) -> Layer:
        """A layer whose feed-forward is a choice of experts; what was chosen is noted in `routes`."""
        experts = cast(Experts, self.experts[index])

        def mlp(x: Tensor) -> Tensor:
            seen = layer.mlp_norm(x) if layer.config.pre_norm else x  # the gate reads what the experts read
            value, chosen = gate_values(seen, gates, of_token).max(-1)  # (T,) each, equation 5
            routes.append(chosen)
            out = experts(layer, x, chosen, grouped)
            return out * self.scale(value).unsqueeze(-1).to(out.dtype)  # equation 6

        return with_parts(layer, mlp=mlp)

    def scale(self, value: Tensor) -> Tensor:
        if self.scaling == "scaled":
            return value * self.num_experts
        return value / value.detach() if self.scaling == "preserving" else value

    def findings(self, batches: Iterable[tuple[Batch, Tensor]]) -> dict[int, Any]:
        """The share of each task's tokens that each expert of each layer gets."""
        if self.gate == "dense":
            return {}
        use = expert_use(self, batches).double()
        shares = (use / use.sum(-1, keepdim=True).clamp(min=1)).mul(1e4).round().div(1e4).tolist()
        return {task: {"expert_use": shares[task]} for task in range(len(self.tasks)) if use[task].sum()}


@torch.inference_mode()
def expert_use(method: MTTaG, batches: Iterable[tuple[Batch, Tensor]]) -> Tensor:
    """How many tokens of each task went to each expert of each layer: (tasks, layers, experts).

    `batches` are the arguments of the method's forward: texts and the tasks (B, K) asked of each.
    """
    if method.gate == "dense":
        raise ConfigError("method 'mttag' with gate: dense has no experts, so none can be counted.")
    num_tasks, num_experts = len(method.tasks), method.num_experts
    counts = torch.zeros(num_tasks, method.encoder.depth, num_experts, dtype=torch.long)
    with evaluating(method):
        for batch, asked in batches:
            folded = once_per_ask(batch.to(method.device), asked)
            _, routes = method.encode(folded, Asked(asked, method.device))
            task = asked.flatten().to(method.device)[folded.layout.rows]  # (T,)
            for index, chosen in enumerate(routes):
                found = (task * num_experts + chosen).bincount(minlength=num_tasks * num_experts)
                counts[:, index] += found.view(num_tasks, num_experts).cpu()
    return counts
