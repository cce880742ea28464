"""The device that a training runs on, and the accelerator that puts it there."""

import os
from typing import Any

import torch
from accelerate import Accelerator, DistributedDataParallelKwargs
from accelerate.state import AcceleratorState

from onepass.errors import ConfigError
from onepass.training.options import TrainOptions

WIDE = 256
"""Encoders from this width on gain from 16 bits on a CPU that multiplies them directly: a step on two cores took 0.5 of
the time with 384, 0.6 with 256, as long with 128 and 1.5 times as long with 64"""


def device_of(options: TrainOptions) -> str:
    """`cuda` where there is a GPU and the options do not say otherwise, else `cpu`."""
    return "cpu" if options.device == "cpu" or not torch.cuda.is_available() else "cuda"


def halves_pay(device: str, width: int) -> bool:
    """Whether bf16 is the faster way through an encoder of a width: on GPUs, and on some CPUs."""
    if device != "cpu":
        return True
    if {"ONEDNN_MAX_CPU_ISA", "DNNL_MAX_CPU_ISA"} & os.environ.keys():  # what the CPU has may not be used then
        return False
    known: dict[str, Any] = getattr(torch.cpu, "get_capabilities", dict)()
    return width >= WIDE and bool(known.get("avx512_bf16") or known.get("amx_bf16"))


def in_halves(precision: str, device: str, width: int) -> bool:
    """Whether `auto`, `fp32` or `bf16` means bf16 on a device, for an encoder of a width."""
    return precision == "bf16" or (precision == "auto" and halves_pay(device, width))


def make_accelerator(options: TrainOptions, width: int) -> Accelerator:
    """What runs a training's steps, on the device and in the precision that the options ask for.

    `width` is that of the encoder.
    """
    use_cpu = device_of(options) == "cpu"
    if options.device not in ("auto", "cpu") and use_cpu:
        raise ConfigError(f"train.device is {options.device!r}, but no GPU is visible here. Use auto or cpu.")
    if int(os.environ.get("WORLD_SIZE", 1)) == 1:
        # accelerate holds on to the process's first device and precision; a second training may want others.
        AcceleratorState._reset_state(reset_partial_state=True)
    return Accelerator(
        cpu=use_cpu,
        mixed_precision="bf16" if in_halves(options.precision, device_of(options), width) else "no",
        kwargs_handlers=[DistributedDataParallelKwargs(find_unused_parameters=True)],
    )
