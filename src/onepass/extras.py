"""The packages that a light installation leaves out, and what to type when one of them is needed."""

from collections.abc import Iterator
from contextlib import contextmanager

EXTRAS = {
    "train": ("accelerate", "huggingface_hub", "pyarrow", "safetensors", "scipy", "sklearn", "torch"),
    "datasets": ("datasets",),
    "engine": ("openvino",),
    "serve": ("fastapi", "httptools", "prometheus_client", "starlette", "uvicorn"),
    "report": ("jinja2", "matplotlib"),
    "onnx": ("onnx", "onnxruntime"),
    "bench": ("onnx", "onnxruntime", "psutil", "transformers"),
}


def advice(error: ModuleNotFoundError, what: str) -> str | None:
    """What to install, if the module that was not found is one of an extra's.

    >>> advice(ModuleNotFoundError("No module named 'torch'", name="torch"), "onepass.train")
    "onepass.train needs extra packages: pip install 'onepass[train]'"
    """
    missing = (error.name or "").partition(".")[0]
    for extra, modules in EXTRAS.items():
        if missing in modules:
            return f"{what} needs extra packages: pip install 'onepass[{extra}]'"
    return None


@contextmanager
def explained_imports(what: str) -> Iterator[None]:
    """Within the block a missing package is an error that says what to install."""
    try:
        yield
    except ModuleNotFoundError as error:
        if text := advice(error, what):
            raise ImportError(text, name=error.name) from error
        raise
