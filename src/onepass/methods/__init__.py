"""The methods, one paper a file; this list is the only one."""

import inspect
import logging
import re
import sys
from collections.abc import Mapping
from types import UnionType
from typing import Any, Literal, Union, get_args, get_origin

import torch

from onepass.encoder.config import EncoderConfig
from onepass.encoder.encoder import Encoder
from onepass.encoder.loading import known_config
from onepass.errors import ConfigError, each, listed, unknown
from onepass.methods.adapter import Adapter
from onepass.methods.base import Method, Stage, States
from onepass.methods.camtl import CAMTL
from onepass.methods.frozen import Frozen
from onepass.methods.mtdnn import MTDNN
from onepass.methods.mtop import MTOP
from onepass.methods.mttag import MTTaG
from onepass.methods.pals import PALs
from onepass.methods.prefix import TaskPrefixes
from onepass.methods.ptuning import PTuning
from onepass.methods.ptuning2 import PTuning2
from onepass.methods.readers import Readers
from onepass.methods.single import Single
from onepass.tasks import MethodChoice, TaskFile

METHODS: dict[str, type[Method]] = {
    "readers": Readers,
    "mtop": MTOP,
    "mtdnn": MTDNN,
    "frozen": Frozen,
    "single": Single,
    "ptuning": PTuning,
    "ptuning2": PTuning2,
    "adapter": Adapter,
    "pals": PALs,
    "camtl": CAMTL,
    "mttag": MTTaG,
    "prefix": TaskPrefixes,
}

LARGEST = EncoderConfig("bert", vocab_size=8, width=768, depth=48, heads=12, ffn_width=8, max_positions=512)
"""In place of an encoder that is not on this disk yet: no smaller one could do with what this cannot"""

MOST = 10_000
"""The most of a whole number: each is a size of weights, and one that fits no memory was tried before it was told"""

log = logging.getLogger(__name__)
__all__ = ["METHODS", "Method", "Stage", "States", "check_method", "make_method", "method_faults", "settle_method"]


def options_of(name: str) -> dict[str, inspect.Parameter]:
    """A method's options: the keyword-only arguments of its constructor."""
    signature = inspect.signature(METHODS[name], eval_str=True)
    return {key: p for key, p in signature.parameters.items() if p.kind is p.KEYWORD_ONLY}


def option_faults(name: str, options: Mapping[str, Any]) -> list[str]:
    """What is wrong with a method's name or options; the constructor's signature is the schema."""
    if name not in METHODS:
        return [unknown("method", name, METHODS)]
    known = options_of(name)
    return [fault for key, value in options.items() if (fault := option_fault(name, key, value, known))]


def option_fault(name: str, key: str, value: Any, known: Mapping[str, inspect.Parameter]) -> str:
    """What is wrong with one option of a method, if anything is."""
    if key not in known:
        described = ", ".join(str(p) for p in known.values()) or "none"
        others = [repr(other) for other in METHODS if key in options_of(other)]
        hint = f" It is an option of {', '.join(others)}." if others else ""
        return f"method {name!r}: {unknown('option', key, known)}{hint} Options: {described}."
    annotation = known[key].annotation
    wanted = mismatch(value, annotation)
    if not wanted and type(value) is int and value > MOST and int in (annotation, *get_args(annotation)):
        wanted = f"a whole number from 0 to {MOST}"
    return f"method {name!r}: {key} is {value!r}; possible: {wanted}." if wanted else ""


def mismatch(value: Any, annotation: Any) -> str | None:
    """What was wanted, if the value is not of the annotated sort."""
    if get_origin(annotation) in (Union, UnionType):
        wanted = [mismatch(value, choice) for choice in get_args(annotation)]
        return None if None in wanted else ", or ".join(str(one) for one in wanted)
    if get_origin(annotation) is Literal:
        return None if value in get_args(annotation) else ", ".join(map(str, get_args(annotation)))
    if annotation is int:
        return None if type(value) is int and value >= 0 else "a whole number from 0"
    if annotation is float:
        # Not isfinite, for which a whole number may be too large.
        return None if type(value) in (int, float) and abs(value) <= sys.float_info.max else "a number"
    if annotation is bool:
        return None if type(value) is bool else "true or false"
    return None


def make_method(name: str, encoder: Encoder, options: Mapping[str, Any] | None = None) -> Method:
    """A method around an encoder, by name."""
    if faults := option_faults(name, options or {}):
        raise ConfigError(listed(faults))
    return METHODS[name](encoder, **(options or {}))


def settle_method(choice: MethodChoice, num_tasks: int) -> MethodChoice:
    """The choice with the options that were left open (`depth: auto`) decided for so many tasks."""
    if option_faults(choice.name, choice.options):
        return choice
    defaults = {key: parameter.default for key, parameter in options_of(choice.name).items()}
    chosen = METHODS[choice.name].settle(defaults | choice.options, num_tasks)
    for key, value in chosen.items():
        log.info("method %s: %s is %s, chosen for %d tasks", choice.name, key, value, num_tasks)
    why = dict.fromkeys(chosen, f"auto, for {num_tasks:,} tasks")
    return MethodChoice(name=choice.name, options={**choice.options, **chosen}, chosen={**choice.chosen, **why})


def value_faults(
    choice: MethodChoice, num_tasks: int, config: EncoderConfig = LARGEST, max_length: int = 0
) -> list[str]:
    """What the method itself says of its options around such an encoder, of which nothing is loaded, and of texts so
    long.

    Options that are faulty by themselves are left out, and so is what is said of the others together with them.
    """
    known = options_of(choice.name)
    wrong = {key for key, value in choice.options.items() if option_fault(choice.name, key, value, known)}
    given = {key: value for key, value in choice.options.items() if key not in wrong}
    defaults = {key: parameter.default for key, parameter in known.items()}
    kind = METHODS[choice.name]
    options = {**given, **kind.settle(defaults | given, num_tasks)}
    with torch.device("meta"):
        try:
            return kind(Encoder(config), **options).limits(num_tasks, max_length)
        except ConfigError as error:
            return [fault for fault in each(str(error)) if not wrong & set(re.findall(r"\w+", fault))]


def method_faults(
    choice: MethodChoice, num_tasks: int, config: EncoderConfig = LARGEST, max_length: int = 0
) -> list[str]:
    """All that is wrong with a method's name, options and their values around such an encoder."""
    faults = option_faults(choice.name, choice.options)
    return faults + value_faults(choice, num_tasks, config, max_length) if choice.name in METHODS else faults


def check_method(file: TaskFile) -> list[str]:
    """Faults in a task file's method."""
    name = file.method.name
    known, longest = known_config(file.encoder), file.train.get("max_length", 128)
    longest = longest if type(longest) is int else 0
    faults = method_faults(file.method, len(file.tasks), known or LARGEST, longest if known else 0)
    teachers = file.train.get("teacher_encoder")  # which the same method is trained around
    if isinstance(teachers, str) and file.train.get("teachers") != 0 and (known := known_config(teachers)):
        found = method_faults(file.method, len(file.tasks), known, longest)
        faults += [f"train.teacher_encoder: {fault}" for fault in found if fault not in faults]
    made_by = METHODS[name].made_by if name in METHODS else {}
    faults += [
        f"method {name!r}: {key} is no choice in a task file: {maker} makes such models."
        for key, maker in made_by.items()
        if file.method.options.get(key) is not None
    ]
    grouped = [task.name for task in file.tasks.values() if task.group]
    if grouped and name in METHODS and not METHODS[name].has_groups:
        able = ", ".join(other for other in METHODS if METHODS[other].has_groups)
        faults.append(f"Task {grouped[0]!r}: method {name!r} has no task groups. Leave out `group`, or use: {able}.")
    return faults
