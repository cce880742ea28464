"""A frozen encoder and a trained head per task: the cheapest rival, and the floor every method must beat."""

from typing import Literal

from onepass.encoder.encoder import Encoder
from onepass.methods.base import Stage
from onepass.methods.mtdnn import MTDNN


class Frozen(MTDNN):
    """MT-DNN whose encoder does not learn; the mean of the text's states feeds a linear head."""

    def __init__(
        self, encoder: Encoder, *, pooler: Literal["task", "none"] = "none", readout: Literal["cls", "mean"] = "mean"
    ):
        super().__init__(encoder, pooler=pooler, readout=readout)

    def stages(self) -> list[Stage]:
        return [Stage(freeze_encoder=True)]
