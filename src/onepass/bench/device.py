"""Tokens per second of a model on a GPU in bf16, against the same encoder in transformers, in one run.

Both are given word pieces. The rival is given the best case: its batches are padded and pinned beforehand, nothing
waits for the device before the last batch, and all its heads are one linear layer. Ours packs its batches in the time
that is measured. Runs on a CPU too, to try it out.
"""

from __future__ import annotations

import copy
import importlib.util
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import torch

from onepass.analysis.cost import untrained_model
from onepass.bench.rivals import bert_config
from onepass.bench.timing import interleaved
from onepass.bench.work import log_uniform, operations, reading_operations
from onepass.encoder.config import EncoderConfig
from onepass.encoder.encoder import Encoder
from onepass.encoder.loading import load_encoder, random_encoder
from onepass.inquiry import Pieces
from onepass.model import Model

BERT_BASE = EncoderConfig(
    family="bert", vocab_size=30_522, width=768, depth=12, heads=12, ffn_width=3072, max_positions=512, type_vocab=2
)
OPTIONS: dict[int, dict[str, Any]] = {8: {}, 100: {"depth": 1, "tokens": 1}}
"""The method's options by the number of tasks: what `depth: auto` would take, with one token for many"""
RIVAL_BATCHES = (8, 32, 64)
RIVAL_SHARE = 4
"""The rival reads so many times fewer texts, since it takes so much longer"""


def device(
    source: str = "embedded",
    *,
    kind: str = "cuda",
    texts: int = 8192,
    longest: int = 512,
    rounds: int = 3,
    side: int = 8192,
    base: EncoderConfig = BERT_BASE,
) -> dict[str, Any]:
    """For each encoder and number of tasks ours and the rivals, and how near each comes to the device's peak."""
    torch.manual_seed(0)
    place = torch.device(kind)
    encoder, tokenizer = load_encoder(source)  # what is wrong with it is told before anything is measured
    peak = matrix_peak(place, side, rounds)
    found: dict[str, Any] = {
        "device": torch.cuda.get_device_name(place) if place.type == "cuda" else "cpu",
        "torch": torch.__version__,
        "peak_tflops": peak,
        "texts": texts,
        "encoders": {},
    }
    for name, one in {source: encoder, "BERT-base size, random": random_encoder(base)}.items():
        lengths = log_uniform(np.random.default_rng(0), 8, min(longest, one.config.capacity), texts)
        pieces = random_pieces(one.config, lengths)
        models = {
            count: untrained_model("readers", copy.deepcopy(one), tokenizer, count, options).to(place)
            for count, options in OPTIONS.items()
        }
        check = {count: precision_loss(model, pieces[:64]) for count, model in models.items()}
        ours = {f"onepass, {count} tasks": _asking(model, pieces) for count, model in models.items()}
        plain = {"onepass, plain pass": _plain(models[8].method.encoder, pieces, place)}
        rivals = transformers_rivals(one.config, source if one is encoder else None, pieces, place)
        times = interleaved(ours | plain | {key: run for key, (run, _) in rivals.items()}, rounds)
        rows = [
            _row(key, ms, lengths[rivals[key][1]] if key in rivals else lengths, one.config, peak)
            for key, ms in times.items()
        ]
        for row, (count, model) in zip(rows, models.items(), strict=False):
            depth, tokens = (model.choice.options.get(option, 2) for option in ("depth", "tokens"))
            work = reading_operations(one.config, lengths, count, depth, tokens)
            row["share_of_peak_with_readers"] = work / row["ms"] / 1e9 / peak
        speeds = {row["contender"]: row["tokens_per_s"] for row in rows}
        ratios = {key: {rival: speeds[key] / speeds[rival] for rival in rivals} for key in ours}
        found["encoders"][name] = {"rows": rows, "times_the_rival": ratios, "bf16_against_fp32": check}
    return found


def _row(contender: str, ms: float, lengths: np.ndarray, config: EncoderConfig, peak: float) -> dict[str, Any]:
    """The share of the peak counts a plain pass over the real tokens, whoever computes and whatever is computed."""
    return {
        "contender": contender,
        "ms": ms,
        "texts": len(lengths),
        "tokens_per_s": 1000 * int(lengths.sum()) / ms,
        "share_of_peak": operations(config, lengths) / ms / 1e9 / peak,
    }


def random_pieces(config: EncoderConfig, lengths: np.ndarray) -> list[Pieces]:
    """Random word pieces of these lengths, as arrays."""
    generator = np.random.default_rng(1)
    return [
        Pieces(generator.integers(0, config.vocab_size, length), np.zeros(length, np.int64))  # type: ignore[arg-type]
        for length in lengths.tolist()
    ]


def matrix_peak(place: torch.device, side: int, rounds: int) -> float:
    """Million million operations a second of a large product of matrices in bf16."""
    left, right = (torch.randn(side, side, device=place).to(torch.bfloat16) for _ in range(2))

    def run() -> None:
        left @ right
        _finish(place)

    return 2 * side**3 / interleaved({"product": run}, 3 * rounds)["product"] / 1e9


def precision_loss(model: Model, pieces: Sequence[Pieces]) -> dict[str, float]:
    """How far logits in bf16 are from those in fp32, and how many labels change; the model is in bf16 afterwards."""
    asked = list(range(len(model.tasks)))
    whole = np.stack(model.logits_of(pieces, asked))  # (N, S, C)
    model.use_precision("bf16")
    rounded = np.stack(model.logits_of(pieces, asked))
    changed = whole.argmax(-1) != rounded.argmax(-1)
    return {"largest_change": float(np.abs(whole - rounded).max()), "changed_labels": float(changed.mean())}


def _asking(model: Model, pieces: Sequence[Pieces]) -> Callable[[], object]:
    asked = list(range(len(model.tasks)))
    return lambda: model.logits_of(pieces, asked)


def _plain(encoder: Encoder, pieces: Sequence[Pieces], place: torch.device) -> Callable[[], object]:
    """The encoder alone over the same batches, packed beforehand."""
    from onepass.data.stream import sorted_batches
    from onepass.encoder.batch import Batch
    from onepass.model import SERVING_TOKENS

    cuts = sorted_batches([len(one) for one in pieces], len(pieces), SERVING_TOKENS[place.type])
    batches = [Batch.of([(pieces[row].ids, pieces[row].types) for row in cut]).to(place) for cut in cuts]

    @torch.inference_mode()
    def run() -> None:
        for batch in batches:
            encoder(batch)
        _finish(place)

    return run


def transformers_rivals(
    config: EncoderConfig, folder: str | None, pieces: Sequence[Pieces], place: torch.device
) -> Mapping[str, tuple[Callable[[], object], np.ndarray]]:
    """The same encoder in transformers with a linear layer for 8 tasks; by name how to run it, and the texts it reads.

    Nothing if transformers is not installed.
    """
    if importlib.util.find_spec("transformers") is None:
        return {}
    import transformers

    flash = place.type == "cuda" and importlib.util.find_spec("flash_attn") is not None
    found: dict[str, tuple[Callable[[], object], np.ndarray]] = {}
    for kernel in ["sdpa", "flash_attention_2"] if flash else ["sdpa"]:
        wanted: dict[str, Any] = {"attn_implementation": kernel, "dtype": torch.bfloat16}
        model = (
            transformers.AutoModel.from_pretrained(folder, **wanted)
            if folder and folder != "embedded"
            else transformers.AutoModel.from_config(bert_config(config), **wanted)
        )
        model = model.eval().to(place)
        heads = torch.nn.Linear(config.width, 2 * 8, device=place, dtype=torch.bfloat16)
        for size in RIVAL_BATCHES:
            count = max(size, len(pieces) // (RIVAL_SHARE * (4 if size < 32 else 1)))
            given = np.arange(min(count, len(pieces)))
            by_length = given[np.argsort([-len(pieces[row]) for row in given.tolist()], kind="stable")]
            for order, rows in {"as they come": given, "sorted": by_length}.items():
                name = f"transformers, {kernel}, batches of {size}, {order}"
                found[name] = _padded(model, heads, [pieces[row] for row in rows.tolist()], size, place), rows
    return found


def _padded(model: Any, heads: Any, pieces: Sequence[Pieces], size: int, place: torch.device) -> Callable[[], object]:
    batches = []
    for start in range(0, len(pieces), size):
        own = pieces[start : start + size]
        ids = torch.zeros(len(own), max(map(len, own)), dtype=torch.int64)
        mask = torch.zeros_like(ids)
        for row, one in enumerate(own):
            ids[row, : len(one)] = torch.from_numpy(np.asarray(one.ids))
            mask[row, : len(one)] = 1
        batches.append((ids.pin_memory(), mask.pin_memory()) if place.type == "cuda" else (ids, mask))

    @torch.inference_mode()
    def run() -> object:
        found = []
        for ids, mask in batches:
            states = model(
                input_ids=ids.to(place, non_blocking=True), attention_mask=mask.to(place, non_blocking=True)
            ).last_hidden_state
            found.append(heads(states[:, 0]).float())
        return torch.cat(found).cpu()

    return run


def _finish(place: torch.device) -> None:
    if place.type == "cuda":
        torch.cuda.synchronize(place)
