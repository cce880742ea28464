"""Which methods can serve which tasks."""

from onepass.heads import KINDS, Kind
from onepass.methods import METHODS, Method
from onepass.tasks import Task, TaskFile


def cannot_serve(method: type[Method], name: str, kind: Kind | type[Kind], task: Task) -> str:
    """Why a method cannot serve a task, if so."""
    if method.gives_tokens or not kind.reads_tokens:
        return ""
    return (
        f"Task {task.name!r}: method {name!r} gives one vector a text and cannot serve {task.kind!r}, which reads "
        "tokens. Use method 'readers', or leave the task out."
    )


def check_served(file: TaskFile) -> list[str]:
    """Faults of a task file whose method cannot serve all of its tasks."""
    if file.method.name not in METHODS:
        return []
    method = METHODS[file.method.name]
    tasks = [task for task in file.tasks.values() if task.kind in KINDS]
    faults = [cannot_serve(method, file.method.name, KINDS[task.kind], task) for task in tasks]
    return [fault for fault in faults if fault]
