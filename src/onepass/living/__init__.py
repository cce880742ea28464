"""Changing the tasks of a trained model's folder, with a proof that nothing else moved."""

from onepass.living.proof import Proof, Unproven
from onepass.living.tasks import (
    add_tasks,
    change_thresholds,
    check_removable,
    copy_task,
    remove_task,
    rename_task,
    update_task,
)

__all__ = [
    "Proof",
    "Unproven",
    "add_tasks",
    "change_thresholds",
    "check_removable",
    "copy_task",
    "remove_task",
    "rename_task",
    "update_task",
]
