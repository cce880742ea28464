"""The model folder: config.json, the shared weights, a folder for each task, the manifest.

A task folder and the encoder's fingerprint are all a task is. Only safetensors and JSON are read and written.
"""

from __future__ import annotations

import math
import os
import platform
import re
import shutil
import tempfile
from collections.abc import Sequence
from importlib import metadata
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import Tensor, nn

from onepass import hub
from onepass.atomic import CARD, MANIFEST, check_system, draft_of, new_folder, reason, write_json
from onepass.card import card
from onepass.contents import FORMAT, RECORDED, find_folder, model_files, read_config, read_whole, task_of, task_order
from onepass.encoder.config import EncoderConfig
from onepass.encoder.loading import build_encoder, fingerprint, misfits
from onepass.encoder.tokenizer import Tokenizer
from onepass.errors import ConfigError, EncoderError, FolderError, NoSpace
from onepass.methods import make_method
from onepass.model import Model
from onepass.tasks import MethodChoice


def check_output(path: Path, *, overwrite: bool = False, needed: int = 0, passing: Sequence[Path] = ()) -> None:
    """Raise before any work is done if a model folder cannot be written here; `needed` bytes have to fit twice.

    Folders that are `passing` will be gone by then.
    """
    check_system()
    try:
        _check_output(path, overwrite, needed, passing)
    except OSError as error:
        raise FolderError(f"{path} cannot be written: {reason(error)}. Choose another output.") from error


def _is_model(path: Path) -> bool:
    """Whether a folder is a model's, whole or damaged; many other programs have a config.json too."""
    return (path / "config.json").is_file() and ((path / MANIFEST).is_file() or (path / "tasks").is_dir())


def _check_output(path: Path, overwrite: bool, needed: int, passing: Sequence[Path]) -> None:
    if path.exists() and not _is_model(path) and (not path.is_dir() or any(path.iterdir())):
        raise FolderError(f"{path} exists already and is no model folder: it is never replaced. Choose another output.")
    if path.exists() and not overwrite:
        raise FolderError(f"{path} exists already. Choose another output, or replace it with --force (overwrite=True).")
    parent = path.resolve().parent
    while not parent.exists():
        parent = parent.parent
    if not parent.is_dir():
        raise FolderError(f"{parent} is a file; no folder can be made in it. Choose another output.")
    free = shutil.disk_usage(parent).free
    free += sum(file.stat().st_size for folder in passing for file in folder.rglob("*"))
    if free < 2 * needed:
        raise NoSpace(
            f"There is no space for the model: {parent} has {free / 1e6:,.0f} MB free, {2 * needed / 1e6:,.0f} MB are "
            "needed. Free some, or choose another output."
        )
    draft = parent / draft_of(path.resolve()).name
    draft.mkdir()  # names that are too long, folders and disks that may not be written to
    draft.rmdir()


def size_of(model: nn.Module) -> int:
    """Bytes of a model's weights."""
    return sum(p.numel() * p.element_size() for p in model.parameters())


def save_model(model: Model, path: Path, *, overwrite: bool = False) -> None:
    """Write a model's folder, whole or not at all."""
    check_output(path, overwrite=overwrite, needed=size_of(model))
    if broken := [name for name, p in model.named_parameters() if not torch.isfinite(p).all()]:
        raise FolderError(f"The model was not written: {broken[0]} holds numbers that are not finite.")
    with new_folder(path, overwrite=overwrite) as folder:
        config = _config(model)
        write_json(folder / "config.json", config)
        model.tokenizer.save(folder / "tokenizer.json")
        save_tensors(_tensors(model.method.encoder), folder / "encoder.safetensors")
        if shared := shared_weights(model):
            save_tensors(shared, folder / "method.safetensors")
        for number in range(len(model.tasks)):
            save_task(model, number, folder / "tasks" / model.tasks[number].name)
        (folder / CARD).write_text(card(model.tasks, model.records, config), encoding="utf-8")


def save_task(model: Model, number: int, folder: Path, order: int | None = None) -> None:
    """Write one task's folder: what it is, and its own weights. `order` is its place among the folder's tasks."""
    folder.mkdir(parents=True)
    weights = _tensors(model.method.tasks[number], "method.") | _tensors(model.heads[number], "head.")
    save_tensors(weights, folder / "weights.safetensors")
    task = model.tasks[number].model_dump(mode="json")
    place = number if order is None else order
    known = {"order": place, "version": 1, "parameters": sum(t.numel() for t in weights.values())}
    write_json(folder / "task.json", task | known | model.records[number])


def shared_weights(model: Model) -> dict[str, Tensor]:
    """What a method shares between tasks beside the encoder."""
    named = _tensors(model.method)
    return {name: t for name, t in named.items() if not name.startswith(("encoder.", "tasks."))}


def load_model(source: str | Path) -> Model:
    """A model from its folder, or from a hub name, after checking every file against the manifest."""
    folder = find_folder(source)
    return read_whole(folder, lambda: _load_model(folder))


def _load_model(folder: Path) -> Model:
    files = model_files(folder)
    config = read_config(folder)
    try:
        # Copies: the file is mapped, and whoever writes another model over it would change the one that is in use.
        weights = {name: tensor.clone() for name, tensor in _load(folder / "encoder.safetensors").items()}
        encoder = build_encoder(EncoderConfig.from_dict(config["encoder"]["config"]), weights)
        tokenizer = Tokenizer.load(folder / "tokenizer.json", config["encoder"]["max_length"])
        choice = MethodChoice(**config["method"])
        method = make_method(choice.name, encoder, choice.options)
        model = Model(method, tokenizer, choice, config["encoder"]["source"])
        model.training_record = config.get("training", {})
        shared = _load(folder / "method.safetensors") if "method.safetensors" in files else {}
        wanted = shared_weights(model)
        faults = [*misfits(wanted, shared), *(f"{name} is unknown" for name in shared if name not in wanted)]
        if faults:
            path = folder / "method.safetensors"
            raise FolderError(f"{path} does not hold the weights of method {choice.name!r}: {'; '.join(faults)}.")
        method.load_state_dict(shared, strict=False)
        load_tasks(model, [folder / "tasks" / name for name in task_order(folder, files)])
    except KeyError as error:
        raise FolderError(f"{folder} is no model this version can read: it does not say {error}.") from error
    except (AttributeError, ConfigError, EncoderError, RuntimeError, TypeError, ValueError) as error:
        raise FolderError(f"{folder} is no model this version can read: {error}") from error
    return model.eval()


def load_tasks(model: Model, folders: Sequence[Path]) -> None:
    """Add the tasks of task folders to a model."""
    first, known = len(model.tasks), [task_of(folder) for folder in folders]
    model.add_empty([task for task, _ in known])
    for number, folder, (_, values) in zip(range(first, len(model.tasks)), folders, known, strict=True):
        model.records[number] = {key: values[key] for key in RECORDED if key in values}
        weights = _load(path := folder / "weights.safetensors")
        own = ((model.method.tasks[number], "method."), (model.heads[number], "head."))
        wanted = {prefix + name: t for module, prefix in own for name, t in module.state_dict().items()}
        faults = [*misfits(wanted, weights), *(f"{name} is unknown" for name in weights if name not in wanted)]
        if faults:
            raise FolderError(f"{path} does not hold the weights of this task: {'; '.join(faults)}.")
        for module, prefix in own:
            module.load_state_dict({k.removeprefix(prefix): t for k, t in weights.items() if k.startswith(prefix)})
    model.join_groups()


def upload_model(model: Model, repository: str, *, private: bool = False) -> str:
    """Put a model's folder on the Hugging Face hub."""
    from huggingface_hub import HfApi

    api = HfApi()
    with tempfile.TemporaryDirectory() as place:
        save_model(model, Path(place) / "model")
        try:
            address = api.create_repo(repository, private=private, exist_ok=True)
            api.upload_folder(repo_id=repository, folder_path=Path(place) / "model")
        except Exception as error:
            raise FolderError(
                f"The model could not be uploaded to {repository!r} on the Hugging Face hub: {hub.reason_of(error)}. "
                "Check the name (OWNER/NAME), the network and that you are logged in: hf auth login"
            ) from error
    return str(address)


def _config(model: Model) -> dict[str, Any]:
    encoder = model.method.encoder
    packages = ("torch", "tokenizers", "safetensors")
    return {
        "format": FORMAT,
        "encoder": {
            "source": model.source,
            "config": encoder.config.to_dict(),
            "sha256": fingerprint(encoder),
            "max_length": model.tokenizer.max_length,
        },
        "method": model.choice.model_dump(exclude=None if model.choice.chosen else {"chosen"}),
        "one_pass": model.method.one_pass,
        "versions": {"python": platform.python_version(), **{name: metadata.version(name) for name in packages}},
        "training": model.training_record,
    }


def _tensors(module: nn.Module, prefix: str = "") -> dict[str, Tensor]:
    return {prefix + name: t.detach().cpu().contiguous() for name, t in module.state_dict().items()}


def save_tensors(tensors: dict[str, Tensor], path: Path) -> None:
    path.touch()
    mode = path.stat().st_mode
    try:
        save_file(tensors, path)
    except SafetensorError as error:  # it hides the system's error in its text
        found = re.search(r"os error (\d+)", str(error))
        number = int(found.group(1)) if found else 0
        raise OSError(number, os.strerror(number) if number else str(error)) from error
    path.chmod(mode)  # safetensors lets nobody but the owner read its files


def _load(path: Path) -> dict[str, Tensor]:
    try:
        weights = load_file(path)
    except (SafetensorError, OSError, ValueError) as error:
        raise FolderError(f"{path} is damaged: {error}") from error
    for name, tensor in weights.items():
        # A sum is finite only if all its numbers are, and is had much faster.
        if not math.isfinite(tensor.sum()) and not torch.isfinite(tensor).all():
            raise FolderError(f"{path} is damaged: {name} holds numbers that are not finite.")
    return weights
