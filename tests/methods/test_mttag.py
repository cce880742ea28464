"""MT-TaG: experts, gates, the way of tokens to experts, losses."""

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from onepass.encoder.batch import Batch
from onepass.encoder.config import EncoderConfig
from onepass.encoder.encoder import Encoder
from onepass.encoder.loading import random_encoder
from onepass.errors import ConfigError
from onepass.methods import make_method
from onepass.methods.experts import dispatch, gate_values, grouped_weights, slots_by_expert
from onepass.methods.mttag import MTTaG, expert_use
from onepass.model import Model

SIZES: dict[str, Any] = {
    "vocab_size": 64,
    "width": 32,
    "depth": 3,
    "heads": 4,
    "ffn_width": 64,
    "max_positions": 64,
    "dropout": 0.0,
    "attention_dropout": 0.0,
}
BERT = EncoderConfig(family="bert", type_vocab=2, **SIZES)
MODERN = EncoderConfig(
    family="modernbert", pre_norm=True, gated=True, norm_bias=False, mlp_bias=False, attention_bias=False,
    position_table=False, global_theta=10000.0, local_theta=100.0, local_window=8, local_layers=(1,), **SIZES,
)  # fmt: skip
families = pytest.mark.parametrize("config", [BERT, MODERN], ids=lambda config: config.family)


def make(num_tasks: int = 3, config: EncoderConfig = BERT, strange: bool = False, **options: Any) -> MTTaG:
    """A method; `strange` weights are far from their start, and the experts no longer alike."""
    torch.manual_seed(0)
    method = make_method("mttag", random_encoder(config, seed=1), options)
    assert isinstance(method, MTTaG)
    for _ in range(num_tasks):
        method.tasks.append(method.new_task())
    if strange:
        for parameter in method.parameters():
            parameter.data += 0.2 * torch.randn(parameter.shape)
    return method.eval()


@pytest.fixture
def batch() -> Batch:
    generator = torch.Generator().manual_seed(0)
    ids = [torch.randint(1, 64, (length,), generator=generator).tolist() for length in (5, 16, 3, 9, 12, 7)]
    return Batch.of([(row, [0] * len(row)) for row in ids])


def ask(method: MTTaG, batch: Batch, task: int) -> Tensor:
    return method(batch, torch.full((len(batch), 1), task)).vectors[:, 0]


@torch.no_grad()
@families
@pytest.mark.parametrize("options", [{"experts": 1}, {"experts": 1, "scaling": "scaled"}, {"scaling": "preserving"},
                                     {"gate": "shared", "scaling": "preserving"}], ids=str)  # fmt: skip
def test_one_expert_or_a_preserving_gate_starts_as_the_dense_model(
    options: dict[str, Any], config: EncoderConfig, batch: Batch
) -> None:
    expected = make(config=config, gate="dense").encoder(batch)[batch.layout.starts]
    for method in (make(config=config, **options), make(config=config, gate="dense")):
        torch.testing.assert_close(ask(method, batch, 1), expected, atol=1e-6, rtol=1e-5)


@torch.no_grad()
def test_the_gate_value_scales_the_expert(batch: Batch) -> None:
    p = torch.tensor([0.3, 0.5])
    assert torch.equal(make(scaling="literal").scale(p), p)
    assert torch.equal(make(scaling="scaled").scale(p), 4 * p)
    assert torch.equal(make(scaling="preserving").scale(p), torch.ones(2))
    dense = ask(make(gate="dense"), batch, 0)
    assert torch.allclose(ask(make(scaling="scaled"), batch, 0), dense, atol=0.02)  # about uniform at the start
    assert not torch.allclose(ask(make(scaling="literal"), batch, 0), dense, atol=0.02)  # 1 / E of every feed-forward


@torch.no_grad()
def test_the_layer_is_what_computing_all_experts_would_give(batch: Batch) -> None:
    method = make(strange=True)
    x, layer = torch.randn(batch.layout.total, 32), method.encoder.layers[0]
    of_token = batch.layout.rows % 3
    gates = torch.stack([task.gates[0] for task in method.tasks])
    routes: list[Tensor] = []
    found = method.with_experts(0, layer, gates, of_token, routes).mlp(x)
    every = torch.stack([expert(x) for expert in method.experts[0].of(layer)], 1)  # (T, E, H)
    for token in range(len(x)):
        p = (gates[of_token[token]] @ x[token]).softmax(-1)
        torch.testing.assert_close(found[token], p.max() * every[token, p.argmax()], atol=1e-5, rtol=1e-4)
        assert routes[0][token] == p.argmax()
    assert len(routes[0].unique()) == 4


def test_experts_start_as_copies_and_are_trained_like_the_encoder() -> None:
    method = make()
    for layer, experts in zip(method.encoder.layers, method.experts, strict=True):
        assert len(experts.of(layer)) == 4
        for up, down in zip(experts.up, experts.down, strict=True):
            assert torch.equal(up.weight, layer.up.weight) and torch.equal(down.bias, layer.down.bias)
            assert up.weight is not layer.up.weight
    like_encoder = {id(p) for p in method.encoder_parameters()}
    assert {id(p) for p in method.parameters()} - like_encoder == {id(task.gates) for task in method.tasks}


def test_no_expert_sees_a_token_that_is_not_its_own() -> None:
    seen: list[int] = []

    def expert(number: int) -> Callable[[Tensor], Tensor]:
        def run(x: Tensor) -> Tensor:
            assert (x == number).all()
            seen.append(len(x))
            return x * 10

        return run

    chosen = torch.tensor([2, 0, 2, 3, 2, 0])
    out = dispatch(chosen[:, None].float(), chosen, [expert(number) for number in range(4)])
    assert torch.equal(out[:, 0], chosen * 10.0)
    assert seen == [2, 3, 1]  # expert 1 has no tokens and is not run


def test_gates_are_computed_in_full_precision() -> None:
    torch.manual_seed(0)
    x, gates = torch.randn(200, 32), torch.randn(2, 4, 32) * 0.001
    of_token = torch.arange(200) % 2
    exact = gate_values(x, gates, of_token)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        found = gate_values(x, gates, of_token)
    assert found.dtype == torch.float32 and torch.equal(found, exact)
    assert exact.argmax(-1).bincount(minlength=4).min() > 20  # the choice is not the same for all tokens


@torch.no_grad()
@families
@pytest.mark.parametrize("gate", ["task", "shared", "dense"])
def test_a_mixed_batch_answers_as_each_task_alone(config: EncoderConfig, gate: str, batch: Batch) -> None:
    method = make(config=config, strange=True, gate=gate)
    asked = torch.tensor([[0, 1], [2, 0], [1, 1], [2, 1], [0, 2], [1, 0]])
    mixed = method(batch, asked).vectors
    assert mixed.shape == (6, 2, 32)
    for task in range(3):
        rows, places = (asked == task).nonzero(as_tuple=True)
        torch.testing.assert_close(mixed[rows, places], ask(method, batch, task)[rows], atol=1e-5, rtol=1e-4)
    assert torch.equal(mixed[0, 0], mixed[0, 1]) == (gate != "task")
    assert method.one_pass == MTTaG.reads_once({"gate": gate}) == (gate != "task")


@pytest.mark.parametrize("scaling", ["literal", "scaled", "preserving"])
def test_only_the_gates_of_a_batchs_tasks_have_gradients(scaling: str, batch: Batch) -> None:
    method = make(strange=True, scaling=scaling).train()
    ask(method, batch, 1).square().sum().backward()
    assert [task.gates.grad is not None for task in method.tasks] == [False, True, False]
    assert (method.tasks[1].gates.grad.flatten(1).abs().sum(1) > 0).all()  # in every layer


def test_losses_are_divided_by_log_c(make_model: Callable[..., Model], texts: list[str]) -> None:
    def losses(**options: Any) -> Tensor:
        model = make_model("mttag", **options)
        torch.manual_seed(0)
        for head in model.heads:
            head.reset_parameters()
        asked = torch.tensor([[i % 4] for i in range(len(texts))])
        targets = [np.float32(0.5) if task == 2 else 1 for task in asked[:, 0]]
        encoded = model.tokenizer.encode([(text,) for text in texts])
        batch = Batch.of([(e.ids, e.types) for e in encoded])
        with torch.no_grad():
            return model.losses(batch, asked, targets)

    divided, plain = losses(), losses(divide_losses=False)
    assert torch.allclose(divided[[0, 1, 3, 4, 5, 7]], torch.ones(6), atol=0.2)  # as unsure as can be at the start
    scales = torch.tensor([1 / math.log(3), 1 / math.log(2), 1.0, 1 / math.log(2)]).repeat(2)  # a number: left alone
    torch.testing.assert_close(divided, plain * scales)


def test_expert_use_counts_tokens_by_task(batch: Batch) -> None:
    method = make(strange=True).train()
    asked = torch.tensor([[0, 1], [1, 0], [0, 1], [0, 1], [1, 0], [1, 0]])
    use = expert_use(method, [(batch, asked), (batch, asked[:, :1])])
    assert use.shape == (3, 3, 4) and method.training
    total = batch.layout.total
    own = sum(length for length, task in zip(batch.layout.lengths, asked[:, 0], strict=True) if task == 0)
    assert use.sum(2).tolist() == [[total + own] * 3, [2 * total - own] * 3, [0] * 3]
    assert (use > 0).sum() > 12  # of 24: tokens are spread
    with pytest.raises(ConfigError, match="no experts"):
        expert_use(make(gate="dense"), [(batch, asked)])


def test_a_new_task_starts_from_anothers_gate(batch: Batch) -> None:
    method = make(strange=True)
    method.start_from(2, 0)
    assert torch.equal(ask(method, batch, 2), ask(method, batch, 0))
    assert not torch.equal(ask(method, batch, 1), ask(method, batch, 0))
    assert method.tasks[2].gates is not method.tasks[0].gates


def test_less_than_one_expert_is_refused() -> None:
    with pytest.raises(ConfigError, match="experts is 0; possible: a whole number from 1"):
        make(experts=0)


def test_it_has_as_many_weights_as_the_paper_counts() -> None:
    sizes = {"width": 384, "depth": 6, "heads": 12, "ffn_width": 1536}
    with torch.device("meta"):
        encoder = Encoder(EncoderConfig(**{**BERT.to_dict(), **sizes}))
        method = make_method("mttag", encoder)
        for _ in range(8):
            method.tasks.append(method.new_task())
    assert sum(p.numel() for p in method.tasks.parameters()) == 73_728
    assert round(sum(p.numel() for p in method.experts.parameters()) / 1e6, 1) == 21.3  # type: ignore[union-attr]


def test_every_token_has_a_slot_among_its_experts_own() -> None:
    chosen = torch.tensor([2, 0, 2, 3, 2, 0] * 4)
    place, ends, size, is_of = slots_by_expert(chosen, 5)
    assert torch.equal(is_of.int().argmax(1), chosen) and is_of.sum() == 24
    assert size == 24 + 5 * 8 and ends.tolist() == [8, 8, 24, 32, size]
    starts = torch.tensor([0, 8, 8, 24, 32])
    assert len(place.unique()) == 24
    assert (starts[chosen] <= place).all() and (place < ends[chosen]).all()


@families
def test_grouped_weights_are_those_of_each_layers_experts(config: EncoderConfig) -> None:
    method = make(config=config, strange=True)
    found = grouped_weights(method.encoder.layers, method.experts)
    assert len(found) == method.encoder.depth
    for layer, experts, own in zip(method.encoder.layers, method.experts, found, strict=True):
        for part, linears in (("up", [layer.up, *experts.up]), ("down", [layer.down, *experts.down])):
            weight, bias = own[part]
            assert [torch.equal(w, linear.weight.bfloat16()) for w, linear in zip(weight, linears, strict=True)] == [
                True
            ] * 4
            assert (bias is None) == (layer.up.bias is None)
            if bias is not None:
                assert torch.equal(bias[2], linears[2].bias.bfloat16())


def compare_grouped(config: EncoderConfig, device: str) -> None:
    method = make(config=config, strange=True).to(device)
    layer, experts = method.encoder.layers[1], method.experts[1]
    torch.manual_seed(0)
    x, chosen = torch.randn(53, 32).to(device), torch.randint(0, 3, (53,)).to(device)  # nobody chooses the last expert
    found, gradients = [], []
    for together in (False, True):
        tokens = x.clone().requires_grad_()
        grouped = grouped_weights(method.encoder.layers, method.experts)[1] if together else None
        out = experts(layer, tokens, chosen, grouped)
        method.zero_grad()
        (out.float() * torch.linspace(-1, 1, 32, device=device)).sum().backward()
        found.append(out.detach().float())
        parameters = [layer.up.weight, layer.down.weight, experts.up[0].weight, experts.down[1].weight]
        parameters += [] if layer.up.bias is None else [layer.down.bias, experts.up[0].bias]
        gradients.append([tokens.grad, *(parameter.grad for parameter in parameters)])
    assert (found[0] - found[1]).norm() < 0.02 * found[0].norm()  # one in fp32, the other in bf16
    for one, two in zip(*gradients, strict=True):
        assert one is not None and two is not None
        assert (one - two).norm() < 0.02 * one.norm()


@families
def test_grouped_products_are_those_of_each_expert_by_itself(config: EncoderConfig) -> None:
    compare_grouped(config, "cpu")


@pytest.mark.gpu
@families
def test_grouped_products_are_right_on_a_gpu_too(config: EncoderConfig) -> None:
    compare_grouped(config, "cuda")


def test_what_each_task_sends_to_each_expert_is_told(batch: Batch) -> None:
    method = make()
    asked = torch.tensor([[0], [1], [0], [1], [0], [1]])
    findings = method.findings([(batch, asked)])
    assert list(findings) == [0, 1]  # nobody asked task 2
    shares = torch.tensor(findings[1]["expert_use"])
    assert shares.shape == (3, 4)
    torch.testing.assert_close(shares.sum(-1), torch.ones(3), atol=1e-3, rtol=0)
    assert make(gate="dense").findings([(batch, asked)]) == {}
