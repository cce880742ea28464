"""What a training computes in."""

from pathlib import Path

import pytest
import torch

from onepass.training.device import halves_pay, make_accelerator
from onepass.training.options import TrainOptions


@pytest.mark.parametrize(
    ("known", "width", "pays"),
    [
        ({"avx512_bf16": True}, 384, True),
        ({"amx_bf16": True}, 256, True),
        ({"avx512_bf16": True}, 128, False),
        ({"avx512_f": True}, 384, False),
    ],
)
def test_a_cpu_takes_16_bits_where_it_multiplies_them_and_the_encoder_is_wide(
    known: dict[str, bool], width: int, pays: bool, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(torch.cpu, "get_capabilities", lambda: known, raising=False)
    assert halves_pay("cpu", width) == pays
    assert halves_pay("cuda", width)
    for precision, half in (("auto", pays), ("fp32", False), ("bf16", True)):
        accelerator = make_accelerator(TrainOptions(device="cpu", precision=precision), width)
        assert accelerator.mixed_precision == ("bf16" if half else "no")


@pytest.mark.parametrize("variable", ["ONEDNN_MAX_CPU_ISA", "DNNL_MAX_CPU_ISA"])
def test_a_cpu_that_is_told_to_leave_instructions_out_takes_no_16_bits(variable: str, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(torch.cpu, "get_capabilities", lambda: {"avx512_bf16": True}, raising=False)
    monkeypatch.delenv("ONEDNN_MAX_CPU_ISA", raising=False)
    assert halves_pay("cpu", 384)
    monkeypatch.setenv(variable, "AVX2")
    assert not halves_pay("cpu", 384) and halves_pay("cuda", 384)


def test_the_record_of_a_training_says_what_it_computed_in(news: Path):
    from onepass.training import train

    chosen = ["train.epochs=1", "train.device=cpu"]
    assert train(news, overrides=chosen, progress=False).training_record["options"]["precision"] == "fp32"  # narrow
    model = train(news, overrides=[*chosen, "train.precision=bf16"], progress=False)
    assert model.training_record["options"]["precision"] == "bf16"
