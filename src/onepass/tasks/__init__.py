"""Task, and the task file that names the tasks, the encoder, the method and the training options."""

from onepass.tasks.file import MethodChoice, TaskFile
from onepass.tasks.reading import make_task, read_task_file
from onepass.tasks.task import NAME, SEPARATORS, TASK_KEYS, Task, label_text, spelling

__all__ = [
    "NAME",
    "SEPARATORS",
    "TASK_KEYS",
    "MethodChoice",
    "Task",
    "TaskFile",
    "label_text",
    "make_task",
    "read_task_file",
    "spelling",
]
