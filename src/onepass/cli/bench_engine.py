"""onepass bench cost, throughput, startup: how fast the engine is; bench device: the model on a GPU."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Annotated

import typer

from onepass.cli.console import listen, say, show, split_names, table, whole_numbers, write_json
from onepass.cli.options import Json
from onepass.errors import ConfigError, unknown

Threads = Annotated[int | None, typer.Option(help="By default as many as there are cores.", min=1)]


def cost(
    tasks: Annotated[str, typer.Option(help="Numbers of tasks, with commas between them.")] = "1,8,41,100,300,1000",
    methods: Annotated[str, typer.Option(help="With spaces between them.")] = "readers mtdnn mtop single",
    texts: Annotated[int, typer.Option(help="Texts of a batch.", min=1)] = 8,
    length: Annotated[int, typer.Option(help="Tokens of each text.", min=3, max=512)] = 128,
    rounds: Annotated[int, typer.Option(help="Times that each is run.", min=1)] = 15,
    threads: Threads = None,
    int8: Annotated[bool, typer.Option("--int8", help="The engine in 8 bits; the plain pass stays in 32.")] = False,
    by_row: Annotated[
        bool, typer.Option("--by-row", help="The same with a scale of its own for each row, the gate's last choice.")
    ] = False,
    bf16: Annotated[bool, typer.Option("--bf16", help="All in 16 bits, the gate's second choice.")] = False,
    cpu: Annotated[
        bool, typer.Option("--cpu", help="CPU time instead of the clock's, for a machine that is busy otherwise.")
    ] = False,
    plot: Annotated[Path | None, typer.Option(help="Draw the curve into this file.", metavar="FILE.png")] = None,
    json: Json = False,
) -> None:
    """Time of N tasks as a multiple of one plain pass. Both by the same runtime, in turns in one run.

    onepass bench cost --tasks 8,100,1000 --plot cost.png
    """
    from onepass.bench.cost import cost as measure
    from onepass.bench.cost import plot as draw
    from onepass.bench.plot import check_plot

    counts = whole_numbers("tasks", tasks)
    if plot is not None:
        check_plot(plot)
    listen(quiet=json)
    precisions = [name for name, asked in (("int8", int8), ("int8 by row", by_row), ("bf16", bf16)) if asked]
    if len(precisions) > 1:
        raise ConfigError("Give one of --int8, --by-row and --bf16: each is a run of its own.")
    found = measure(
        counts,
        split_names(methods),
        texts=texts,
        length=length,
        rounds=rounds,
        threads=threads,
        precision=precisions[0] if precisions else "fp32",
        cpu=cpu,
    )
    if plot is not None:
        draw(found, plot)
        say(f"The curve is in {plot}.")
    if json:
        write_json(found)
        return
    numbers = ("tasks", "ratio", "by count", "ms")
    made = table("method", *numbers, "form", numbers=numbers)
    for row in found["rows"]:
        form = [f"{key} {row[key]}" for key in ("depth", "tokens", "readout", "pooler") if key in row]
        form += ["not measured: multiplied"] if row.get("extrapolated") else []
        ms = "" if row["ms"] is None else f"{row['ms']:.1f}"
        counted = f"{row['multiplications']:.2f}" if "multiplications" in row else ""
        made.add_row(row["method"], str(row["tasks"]), f"{row['ratio']:.2f}", counted, ms, ", ".join(form))
    plain = ", ".join(f"{runtime} {ms:.1f} ms" for runtime, ms in found["plain"].items())
    show(f"{texts} texts of {length} tokens; plain pass in 32 bits: {plain}", made)
    for one in found["left_out"]:
        say(f"Not run: {one['method']} with {one['tasks']} tasks, which takes too long.")


def throughput(
    workloads: Annotated[
        str, typer.Option(help="Some of: equal, mixed 8 to 256, mixed 8 to 512, one, one in a row.")
    ] = "",
    tasks: Annotated[int, typer.Option(help="Tasks that are answered.", min=1)] = 8,
    rounds: Annotated[int, typer.Option(help="Times that each is run.", min=1)] = 7,
    threads: Threads = None,
    rivals: Annotated[bool, typer.Option(help="Also run what people do with transformers and ONNX Runtime.")] = True,
    json: Json = False,
) -> None:
    """Texts per second from strings to labels. Of the engine, and of what people use instead."""
    from onepass.bench.throughput import WORKLOADS
    from onepass.bench.throughput import throughput as measure

    chosen = [part.strip() for part in workloads.split(",") if part.strip()] or list(WORKLOADS)
    if strange := [name for name in chosen if name not in WORKLOADS]:
        raise ConfigError(f"Unknown workload {strange[0]!r}. Known: {', '.join(WORKLOADS)}.")
    listen(quiet=json)
    found = measure(chosen, tasks=tasks, rounds=rounds, threads=threads, rivals=rivals)
    if json:
        write_json(found)
        return
    numbers = ("texts/s", "tokens/s", "ms", "to fp32", "to int8")
    made = table("workload", "contender", *numbers, numbers=numbers)
    for row in found["rows"]:
        made.add_row(
            row["workload"], row["contender"], f"{row['texts_per_s']:,.0f}", f"{row['tokens_per_s']:,.0f}",
            f"{row['ms']:.2f}", f"{row['against_engine_fp32']:.2f}", f"{row['against_engine_int8']:.2f}",
        )  # fmt: skip
    show(f"{tasks} tasks, every contender with {found['threads']} threads", made)
    for name, lacking in found["missing"].items():
        say(f"Not run: {name}. It needs {lacking}")
    for name, speeds in found["mixed_against_equal"].items():
        shown = ", ".join(f"{contender} {ratio:.2f}" for contender, ratio in speeds.items())
        show(f"tokens per second, {name} against equal: {shown}")
    show("padding: " + ", ".join(f"{name} {100 * share:.1f} %" for name, share in found["padding"].items()))
    for precision, peak in found["peak"].items():
        show(
            f"{precision}: {peak['reached_gops']:.0f} of {peak['peak_gops']:.0f} thousand million operations a second, "
            f"{100 * peak['share']:.0f} % of a large product of matrices"
        )


def startup(
    folder: Annotated[
        Path | None, typer.Argument(help="An exported model folder; without it one is made.", metavar="MODEL")
    ] = None,
    runs: Annotated[int, typer.Option(help="Processes of each.", min=1)] = 5,
    json: Json = False,
) -> None:
    """Seconds from the start of a process to its first label."""
    from onepass.bench.startup import startup as measure

    found = measure(folder, runs=runs)
    if json:
        write_json(found)
        return
    made = table("what", "s", "best", numbers=("s", "best"))
    for row in found["rows"]:
        made.add_row(row["what"], f"{row['s']:.2f}", f"{row['best_s']:.2f}")
    show(made)


def device(
    encoder: Annotated[str, typer.Option(help="`embedded`, or an encoder's folder.")] = "embedded",
    kind: Annotated[str, typer.Option("--device", help="cuda, or cpu to try it out.")] = "cuda",
    texts: Annotated[int, typer.Option(help="Texts that are read, of 8 to 512 tokens.", min=64)] = 8192,
    rounds: Annotated[int, typer.Option(help="Times that each is run.", min=1)] = 3,
    json: Json = False,
) -> None:
    """Tokens per second on a GPU in bf16. Of a model, and of the same encoder in transformers."""
    import torch

    from onepass.bench.device import device as measure

    if not re.fullmatch(r"(cuda|cpu)(:\d+)?", kind):  # cuda:1 is the second GPU
        raise ConfigError(unknown("device", kind, ("cuda", "cpu")))
    if kind.startswith("cuda") and not torch.cuda.is_available():
        raise ConfigError("There is no GPU that torch can use here. Try the bench out with: --device cpu --texts 64")
    found = measure(encoder, kind=kind, texts=texts, rounds=rounds)
    if json:
        write_json(found)
        return
    numbers = ("tokens/s", "of the peak")
    made = table("encoder", "contender", *numbers, numbers=numbers)
    for name, one in found["encoders"].items():
        for row in one["rows"]:
            share = f"{100 * row['share_of_peak']:.1f} %"
            made.add_row(name, row["contender"], f"{row['tokens_per_s']:,.0f}", share)
    show(f"{found['device']}; a large product of matrices in bf16: {found['peak_tflops']:.0f} TFLOP/s", made)
