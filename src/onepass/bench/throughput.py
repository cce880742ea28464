"""Texts per second from strings to labels, of the engine and of what people use instead, in the same run.

Rivals are given the best case: of the N models of a rival one is run, whose weights stay in the cache, and its time is
multiplied by N. All contenders tokenise; all read the same texts in the same order with the same number of threads.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from onepass.bench import onnx
from onepass.bench.engines import EncoderParts, Form
from onepass.bench.rivals import onnx_rival, transformers_rivals
from onepass.bench.timing import interleaved
from onepass.bench.work import log_uniform, operations
from onepass.engine.nodes import constant
from onepass.engine.plan import batches, rounded
from onepass.engine.products import Range, eight_bit_product
from onepass.engine.runtime import Program, opset13, parameter, usable_cores
from onepass.heads import make_kind
from onepass.tasks import Task

WORKLOADS: dict[str, Callable[[np.random.Generator], np.ndarray]] = {
    "equal": lambda generator: np.full(64, 128),
    "mixed 8 to 256": lambda generator: log_uniform(generator, 8, 256),
    "mixed 8 to 512": lambda generator: log_uniform(generator, 8, 512),
    "one": lambda generator: np.full(1, 32),
    "one in a row": lambda generator: np.full(1, 32),
}
"""Lengths of the texts in word pieces, [CLS] and [SEP] counted"""
CALLS = {"one in a row": 10}
"""Calls of a contender before the next has its turn, as in a process that has one model: in `one` each call finds the
caches full of another's weights"""
SIDE = 1536
"""Of the matrices whose product is the machine's peak"""
ONNX_RUNTIME = "multi-head, stock ONNX Runtime int8"
TRANSFORMERS = "models, pipelines and a multi-head BertModel of transformers"


def throughput(
    workloads: Sequence[str] = tuple(WORKLOADS),
    *,
    tasks: int = 8,
    rounds: int = 7,
    threads: int | None = None,
    rivals: bool = True,
    encoder: str = "embedded",
) -> dict[str, Any]:
    """Every workload's contenders, and how near the engine comes to the machine's products of matrices."""
    threads = threads or usable_cores()  # torch by itself may take fewer than the engine, such as OMP_NUM_THREADS
    parts = EncoderParts(encoder)
    engines = {"engine fp32": parts.readers(tasks, Form(), threads)}
    bounds = parts.bounds(engines["engine fp32"])
    engines["engine int8"] = parts.readers(tasks, Form(), threads, bounds)
    contenders: dict[str, Callable[[list[str]], object]] = {
        name: _labeller(parts, core, tasks) for name, core in engines.items()
    }
    missing: dict[str, str] = {}
    if rivals:
        if importlib.util.find_spec("transformers") is None:
            missing[TRANSFORMERS] = "transformers: pip install 'onepass[bench]'"
        else:
            contenders |= transformers_rivals(parts, tasks, threads)
        if lacking := onnx.missing():
            missing[ONNX_RUNTIME] = f"{' and '.join(lacking)}: pip install 'onepass[bench]'"
        else:
            contenders[ONNX_RUNTIME] = onnx_rival(parts, tasks, threads)
    lengths = {name: WORKLOADS[name](np.random.default_rng(0)) for name in workloads}
    texts = {name: strings(parts, found) for name, found in lengths.items()}
    times: dict[tuple[str, str], float] = {}
    for calls in dict.fromkeys(CALLS.get(name, 1) for name in workloads):
        # Workloads in turns, too: mixed lengths are compared with equal ones.
        alike = [name for name in workloads if CALLS.get(name, 1) == calls]
        bound = {(name, key): _bound(run, texts[name]) for name in alike for key, run in contenders.items()}
        times |= interleaved(bound, rounds, calls=calls)
    rows = []
    for name in workloads:
        own = {key: times[name, key] * _times(key, tasks) for key in contenders}
        for contender, ms in own.items():
            rows.append(
                {
                    "workload": name,
                    "contender": contender,
                    "ms": ms,
                    "texts_per_s": 1000 * len(texts[name]) / ms,
                    "tokens_per_s": 1000 * int(lengths[name].sum()) / ms,
                    "against_engine_fp32": ms / own["engine fp32"],
                    "against_engine_int8": ms / own["engine int8"],
                }
            )
    return {
        "tasks": tasks,
        "rounds": rounds,
        "threads": threads,
        "rows": rows,
        "missing": missing,
        "mixed_against_equal": mixed_against_equal(rows),
        "padding": {name: padding(WORKLOADS[name]) for name in workloads},
        "peak": peak_shares(parts, rounds, threads),
    }


def _times(contender: str, tasks: int) -> int:
    """How often a contender has to run for all tasks."""
    return tasks if contender in (f"{tasks} models", f"{tasks} pipelines") else 1


def mixed_against_equal(rows: Sequence[Mapping[str, Any]]) -> dict[str, dict[str, float]]:
    """By workload of mixed lengths, the tokens per second of each contender relative to equal lengths."""
    speeds = {(row["workload"], row["contender"]): row["tokens_per_s"] for row in rows}
    found: dict[str, dict[str, float]] = {}
    for (workload, contender), speed in speeds.items():
        if workload.startswith("mixed") and ("equal", contender) in speeds:
            found.setdefault(workload, {})[contender] = speed / speeds["equal", contender]
    return found


def strings(parts: EncoderParts, lengths: np.ndarray) -> list[str]:
    """Texts of so many word pieces each, made of words that are one piece."""
    vocabulary = parts.raw_tokenizer().get_vocab()
    words = sorted(word for word in vocabulary if word.isascii() and word.isalpha() and len(word) > 3)
    generator = np.random.default_rng(1)
    extra = len(parts.tokenizer.encode([("",)])[0])
    return [" ".join(generator.choice(words, max(1, int(length) - extra))) for length in lengths]


def padding(lengths_of: Callable[[np.random.Generator], np.ndarray]) -> float:
    """The share of the tokens that linear layers see that are no text's."""
    lengths = lengths_of(np.random.default_rng(0))
    computed = sum(rounded(int(lengths[rows].sum())) for rows in batches(lengths.tolist()))
    return 1.0 - float(lengths.sum()) / computed


# --- the contenders -------------------------------------------------------------------------------------------------


def _labeller(parts: EncoderParts, core: Any, count: int) -> Callable[[list[str]], object]:
    tasks = [Task(name=f"t{n}", text=("text",), label="label", labels=("no", "yes")) for n in range(count)]
    kinds = [make_kind(task) for task in tasks]

    def label(texts: list[str]) -> object:
        logits = core.logits(parts.tokenizer.encode([(text,) for text in texts]), list(range(count)))
        return [kind.decode(task, values) for kind, task, values in zip(kinds, tasks, logits, strict=True)]

    return label


def _bound(run: Callable[[list[str]], object], texts: list[str]) -> Callable[[], object]:
    return lambda: run(texts)


# --- the machine ----------------------------------------------------------------------------------------------------


def peak_shares(parts: EncoderParts, rounds: int, threads: int) -> dict[str, Any]:
    """How much of the fastest product of matrices a plain pass over equal lengths reaches, in 32 and in 8 bits."""
    length = min(128, parts.config.capacity)
    batch = parts.texts([length] * 8)
    work = operations(parts.config, [length] * 8)
    plain = parts.plain(threads)
    small = parts.plain(threads, parts.bounds(plain))
    times = interleaved(
        {
            "fp32": lambda: plain.logits(batch, [0]),
            "int8": lambda: small.logits(batch, [0]),
            "fp32 product": _product(threads, False),
            "int8 product": _product(threads, True),
        },
        rounds,
    )
    found: dict[str, Any] = {}
    for precision in ("fp32", "int8"):
        peak = 2 * SIDE**3 / times[f"{precision} product"] / 1e6
        reached = work / times[precision] / 1e6
        found[precision] = {"peak_gops": peak, "reached_gops": reached, "share": reached / peak}
    return found


def _product(threads: int, int8: bool) -> Callable[[], object]:
    generator = np.random.default_rng(0)
    weight, given = (generator.standard_normal((SIDE, SIDE), dtype=np.float32) for _ in range(2))
    x = parameter("x", (-1, -1, SIDE))
    seen = Range(np.full(SIDE, -3.0, np.float32), np.full(SIDE, 3.0, np.float32))
    output = (
        eight_bit_product(x, weight, seen, np.arange(SIDE))
        if int8
        else opset13.matmul(x, constant(weight), False, True)
    )
    program = Program([x], [output], threads)
    arrays = {"x": given[None]}
    return lambda: program(arrays)
