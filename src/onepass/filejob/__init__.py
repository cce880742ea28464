"""Labelling the rows of a file of any size: in bounded memory, past bad rows, and on again after a kill.

Nothing here imports torch: a job asks any object with the `tasks`, `label`, `applicable` and `numbers` of a model.
"""

from onepass.filejob.job import FileJob, Progress, Summary, check_paths
from onepass.filejob.questions import Questions
from onepass.filejob.sources import open_source

__all__ = ["FileJob", "Progress", "Questions", "Summary", "check_paths", "open_source"]
