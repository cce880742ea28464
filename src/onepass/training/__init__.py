"""Training and evaluation."""

from onepass.training.evaluation import evaluate
from onepass.training.options import TrainOptions
from onepass.training.run import CHECKS, train

__all__ = ["CHECKS", "TrainOptions", "evaluate", "train"]
