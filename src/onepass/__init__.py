"""onepass: one text encoder, many tasks, one forward pass.

    import onepass

    model = onepass.train("tasks.yaml", output="runs/news")
    model.predict("Senate passes the budget")  # {"politics": Prediction(label='yes', score=0.97), ...}

What is here; help(onepass.train) and so on say more:

    train(file, output)      train the tasks of a task file; returns a Model
    load(folder)             a Model from its folder or the hub; with engine=True its engine, without torch
    evaluate(model)          the scores of every task on its test rows
    Model                    predict, label, add_task, remove_task, set_threshold, save, push_to_hub
    Prediction               an answer: label, score, scores, threshold, reason, spans
    read_task_file(path)     a TaskFile, checked; its tasks are of class Task
    OnepassError             whatever is the user's to mend: ConfigError, DataError, EncoderError, FolderError,
                             TrainingError

A name is imported when it is first used, so `import onepass` is quick and needs no torch.
"""

from importlib import import_module
from operator import attrgetter
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from onepass.errors import ConfigError as ConfigError
    from onepass.errors import DataError as DataError
    from onepass.errors import EncoderError as EncoderError
    from onepass.errors import FolderError as FolderError
    from onepass.errors import OnepassError as OnepassError
    from onepass.errors import TrainingError as TrainingError
    from onepass.loading import load as load
    from onepass.model import Model as Model
    from onepass.prediction import Prediction as Prediction
    from onepass.tasks import Task as Task
    from onepass.tasks import TaskFile as TaskFile
    from onepass.tasks import read_task_file as read_task_file
    from onepass.training import evaluate as evaluate
    from onepass.training import train as train

__version__ = "0.1.0"

_WHERE = {
    "ConfigError": "onepass.errors:ConfigError",
    "DataError": "onepass.errors:DataError",
    "EncoderError": "onepass.errors:EncoderError",
    "FolderError": "onepass.errors:FolderError",
    "Model": "onepass.model:Model",
    "OnepassError": "onepass.errors:OnepassError",
    "Prediction": "onepass.prediction:Prediction",
    "Task": "onepass.tasks:Task",
    "TaskFile": "onepass.tasks:TaskFile",
    "TrainingError": "onepass.errors:TrainingError",
    "evaluate": "onepass.training:evaluate",
    "load": "onepass.loading:load",
    "read_task_file": "onepass.tasks:read_task_file",
    "train": "onepass.training:train",
}

# Spelled out: type checkers and editors do not run `sorted(_WHERE)`. A test holds the two together.
__all__ = [
    "ConfigError",
    "DataError",
    "EncoderError",
    "FolderError",
    "Model",
    "OnepassError",
    "Prediction",
    "Task",
    "TaskFile",
    "TrainingError",
    "__version__",
    "evaluate",
    "load",
    "read_task_file",
    "train",
]


def __getattr__(name: str) -> Any:
    if name not in _WHERE:
        raise AttributeError(f"module 'onepass' has no attribute {name!r}")
    module, _, path = _WHERE[name].partition(":")
    try:
        value = attrgetter(path)(import_module(module))
    except ModuleNotFoundError as error:
        from onepass.extras import advice

        if text := advice(error, f"onepass.{name}"):
            raise ImportError(text, name=error.name) from error
        raise
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
