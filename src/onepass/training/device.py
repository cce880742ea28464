"""The device that a training runs on, and the accelerator that puts it there."""

import os

import torch
from accelerate import Accelerator, DistributedDataParallelKwargs
from accelerate.state import AcceleratorState

from onepass.errors import ConfigError
from onepass.training.options import TrainOptions


def device_of(options: TrainOptions) -> str:
    """`cuda` where there is a GPU and the options do not say otherwise, else `cpu`."""
    return "cpu" if options.device == "cpu" or not torch.cuda.is_available() else "cuda"


def make_accelerator(options: TrainOptions) -> Accelerator:
    """What runs a training's steps, on the device and in the precision that the options ask for."""
    use_cpu = device_of(options) == "cpu"
    if options.device not in ("auto", "cpu") and use_cpu:
        raise ConfigError(f"train.device is {options.device!r}, but no GPU is visible here. Use auto or cpu.")
    half = options.precision == "bf16" or (options.precision == "auto" and not use_cpu)
    if int(os.environ.get("WORLD_SIZE", 1)) == 1:
        # accelerate holds on to the process's first device and precision; a second training may want others.
        AcceleratorState._reset_state(reset_partial_state=True)
    return Accelerator(
        cpu=use_cpu,
        mixed_precision="bf16" if half else "no",
        kwargs_handlers=[DistributedDataParallelKwargs(find_unused_parameters=True)],
    )
