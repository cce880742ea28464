"""Training and evaluation."""

from onepass.training.evaluation import evaluate
from onepass.training.loop import CHECKS, train
from onepass.training.options import TrainOptions

__all__ = ["CHECKS", "TrainOptions", "evaluate", "train"]
