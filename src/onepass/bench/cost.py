"""What N tasks cost, as a multiple of one plain pass of the same runtime over the same texts in the same run."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from onepass.bench.engines import EncoderParts, Form, form_for
from onepass.bench.timing import interleaved
from onepass.bench.work import operations, reading_operations
from onepass.encoder.config import EncoderConfig
from onepass.engine.ranges import chosen
from onepass.engine.runtime import usable_cores
from onepass.errors import ConfigError, listed, unknown
from onepass.inquiry import Pieces

METHODS = ("readers", "mtdnn", "mtop", "single")
PRECISIONS = {"int8": "all", "int8 by row": "all, by row", "bf16": "nothing, but all in 16"}
"""Of engines that do not compute in 32 bits: the choice of the gate's ladder"""
MOST = {"mtop": 100, "single": 8}
"""Tasks up to which a method is run; a model per task is then N times the cost of one, which is marked, and mtop has no
row, which `left_out` tells"""


def cost(
    counts: Sequence[int],
    methods: Sequence[str] = METHODS,
    *,
    texts: int = 8,
    length: int = 128,
    rounds: int = 15,
    threads: int | None = None,
    precision: str = "fp32",
    cpu: bool = False,
    encoder: str = "embedded",
) -> dict[str, Any]:
    """`readers` and `mtdnn` run in the engine, `mtop` and `single` in torch, each against the plain pass there.

    precision: one of `PRECISIONS`, of the engine; the plain pass stays in 32 bits.
    """
    if faults := [unknown("method", name, METHODS) for name in methods if name not in METHODS]:
        raise ConfigError(listed(faults))
    left_out = [{"method": name, "tasks": n} for name in methods for n in counts if name == "mtop" and n > MOST[name]]
    if len(left_out) == len(methods) * len(counts):
        raise ConfigError(f"Nothing is left to measure. Give a method; mtop has at most {MOST['mtop']} tasks here.")
    threads = threads or usable_cores()  # torch by itself may take fewer than the engine, such as OMP_NUM_THREADS
    parts = EncoderParts(encoder)
    batch = parts.texts([length] * texts)
    engine, torch = _Engine(parts, batch, threads, precision), _Torch(parts, batch, threads)
    rows: list[dict[str, Any]] = []
    plains: dict[str, list[float]] = {"engine": [], "torch": []}
    for count in counts:
        makers = {name: engine if name in ("readers", "mtdnn") else torch for name in methods}
        known = {name: maker for name, maker in makers.items() if count <= MOST.get(name, count)}
        contenders = {name: maker.contender(name, count) for name, maker in known.items()}
        plain = {maker.runtime: maker.plain for maker in known.values()}
        times = interleaved({**plain, **contenders}, rounds, cpu)
        for runtime in plain:
            plains[runtime].append(times[runtime])
        for name, maker in known.items():
            row = {"method": name, "tasks": count, "runtime": maker.runtime, "precision": maker.precision}
            if name == "readers":
                form = form_for(count)
                row |= asdict(form) | {"multiplications": _by_count(parts.config, length, count, form)}
            rows.append(row | {"ratio": times[name] / times[maker.runtime], "ms": times[name]})
        rows += [_multiplied(rows, name, count) for name in methods if name == "single" and name not in known]
    middle = {runtime: sorted(found)[len(found) // 2] for runtime, found in plains.items() if found}
    return {
        "plain_ms": middle.get("engine", middle.get("torch")),
        "plain": middle,
        "texts": texts,
        "length": length,
        "rounds": rounds,
        "threads": threads,
        "clock": "cpu" if cpu else "wall",
        "left_out": left_out,
        "rows": rows,
    }


def _by_count(config: EncoderConfig, length: int, count: int, form: Form) -> float:
    """The ratio that readers would have if every multiplication took as long as one of the plain pass."""
    rank = form.rank if form.pooler == "low_rank" else 0
    read = reading_operations(config, [length], count, form.depth, form.tokens, form.readout, rank)
    return read / operations(config, [length])


def _multiplied(rows: Sequence[dict[str, Any]], name: str, count: int) -> dict[str, Any]:
    """A row that was not measured: so many models, from the largest number that was."""
    known = max((row for row in rows if row["method"] == name), key=lambda row: row["tasks"], default=None)
    if known is None:
        return {"method": name, "tasks": count, "ratio": float(count), "ms": None, "extrapolated": True}
    times = count / known["tasks"]
    return known | {"tasks": count, "ratio": known["ratio"] * times, "ms": known["ms"] * times, "extrapolated": True}


class _Engine:
    """Contenders of the engine's runtime."""

    runtime = "engine"

    def __init__(self, parts: EncoderParts, batch: Sequence[Pieces], threads: int, precision: str):
        self.parts, self.batch, self.threads, self.precision = parts, batch, threads, precision
        core = parts.plain(threads)  # always in 32 bits: what is compared with
        self.plain: Callable[[], object] = lambda: core.logits(batch, [0])

    def contender(self, method: str, count: int) -> Callable[[], object]:
        def make(bounds: Any = None) -> Any:
            if method == "mtdnn":
                return self.parts.shared(count, self.threads, bounds)
            return self.parts.readers(count, form_for(count), self.threads, bounds)

        core = make()
        if self.precision in PRECISIONS:
            core = make(chosen(PRECISIONS[self.precision], self.parts.bounds(core)))
        asked = list(range(count))
        return lambda: core.logits(self.batch, asked)


class _Torch:
    """Contenders of torch."""

    runtime, precision = "torch", "fp32"

    def __init__(self, parts: EncoderParts, batch: Sequence[Pieces], threads: int):
        self.parts, self.threads = parts, threads
        self._texts = batch

    @property
    def plain(self) -> Callable[[], object]:
        import torch

        encoder, batch = self.parts.torch, self._batch()

        @torch.inference_mode()
        def run() -> object:
            return encoder(batch)

        return run

    def contender(self, method: str, count: int) -> Callable[[], object]:
        import torch

        from onepass.methods import make_method

        if method == "single":
            plain = self.plain
            return lambda: [plain() for _ in range(count)]
        made = make_method(method, self.parts.torch)
        for _ in range(count):
            made.add_task(self.parts.tokenizer)
        made.eval()
        batch = self._batch()
        asked = torch.arange(count).expand(len(batch), -1)

        @torch.inference_mode()
        def run() -> object:
            return made(batch, asked)

        return run

    def _batch(self) -> Any:
        import torch

        from onepass.encoder.batch import Batch

        torch.set_num_threads(self.threads)
        return Batch.of([(one.ids, one.types) for one in self._texts])


def plot(found: dict[str, Any], path: Path) -> None:
    """The ratios over the number of tasks, as a picture."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(7, 4.5))
    axes = figure.subplots()
    for method in dict.fromkeys(row["method"] for row in found["rows"]):
        points = [(row["tasks"], row["ratio"]) for row in found["rows"] if row["method"] == method]
        axes.plot(*zip(*points, strict=True), marker="o", label=method)
    axes.axhline(1.0, color="grey", linewidth=0.8)
    axes.set(xscale="log", yscale="log", xlabel="tasks", ylabel="time, plain pass = 1")
    axes.set_title(f"{found['texts']} texts of {found['length']} tokens")
    axes.legend()
    figure.savefig(path, dpi=120, bbox_inches="tight")
