"""The sizes and habits of an encoder, in our own words. No torch: the engine reads them too."""

from dataclasses import asdict, dataclass, fields
from typing import Any

from onepass.errors import EncoderError

ACTIVATIONS = ("gelu", "gelu_new", "gelu_pytorch_tanh", "relu", "silu", "swish")
"""By the names that published configurations use"""

# No encoder is near these. A file that says more is wrong or hostile: building it would take all memory.
MAX_DEPTH = 1_000
MAX_POSITIONS = 1_000_000


@dataclass(frozen=True)
class EncoderConfig:
    """All that is needed to build an encoder, whatever its family."""

    family: str
    """The published `model_type`: a key of FAMILIES"""
    vocab_size: int
    width: int
    """H: size of a token's state"""
    depth: int
    """Number of layers"""
    heads: int
    ffn_width: int
    """Inner size of the feed-forward part (of each half, when it is gated)"""
    max_positions: int
    """Rows of the position table, or what the rotation was trained for"""
    embedding_width: int = 0
    """E: size of the word embeddings; 0: the same as width"""
    position_offset: int = 0
    """Row of the first position; RoBERTa's tables leave rows for padding"""
    position_table: bool = True
    """Whether positions are learned embeddings added to the words"""
    type_vocab: int = 0
    """Rows of the table of first and second text; 0: there is none"""
    activation: str = "gelu"
    norm_eps: float = 1e-12
    dropout: float = 0.1
    attention_dropout: float = 0.1
    pre_norm: bool = False
    """Norms before attention and feed-forward and one at the end, instead of one after each residual"""
    gated: bool = False
    """The feed-forward multiplies by a second, linear half (GeGLU)"""
    attention_bias: bool = True
    mlp_bias: bool = True
    norm_bias: bool = True
    global_theta: float = 0.0
    """Base of the rotation of queries and keys; 0: none"""
    local_theta: float = 0.0
    """The same in local layers"""
    local_window: int = 0
    """Local layers read window // 2 tokens to each side"""
    local_layers: tuple[int, ...] = ()
    relative_buckets: int = 0
    """Rows of the table of relative positions that biases all layers' scores (MPNet); 0: none"""
    pad_id: int = 0

    def __post_init__(self) -> None:
        object.__setattr__(self, "embedding_width", self.embedding_width or self.width)
        object.__setattr__(self, "local_layers", tuple(self.local_layers))
        faults = [
            f"{field.name} is {value!r}; it must be of type {field.type.__name__}"
            for field in fields(self)
            if isinstance(field.type, type) and not _fits(value := getattr(self, field.name), field.type)
        ]
        if not faults:
            faults = self._faults()
        if faults:
            raise EncoderError(f"The sizes of this {self.family} encoder cannot be right: {'; '.join(faults)}.")

    def _faults(self) -> list[str]:
        counts = ("vocab_size", "width", "depth", "heads", "ffn_width", "max_positions", "embedding_width")
        limits = {"depth": MAX_DEPTH, "max_positions": MAX_POSITIONS}
        shares = ("dropout", "attention_dropout")
        faults = [f"{name} is {getattr(self, name)}" for name in counts if getattr(self, name) < 1]
        faults += [f"{name} is {getattr(self, name)}" for name, most in limits.items() if getattr(self, name) > most]
        faults += [f"{name} is {getattr(self, name)}" for name in shares if not 0 <= getattr(self, name) < 1]
        if self.heads > 0 and self.width % self.heads:
            faults.append(f"a width of {self.width} cannot be divided among {self.heads} heads")
        if self.capacity < 1:
            faults.append(f"{self.max_positions} positions leave none after an offset of {self.position_offset}")
        if self.activation not in ACTIVATIONS:
            faults.append(f"activation is {self.activation!r}; known: {', '.join(ACTIVATIONS)}")
        return faults

    @property
    def head_dim(self) -> int:
        return self.width // self.heads

    @property
    def capacity(self) -> int:
        """The most tokens a sequence may have."""
        return self.max_positions - self.position_offset

    def to_dict(self) -> dict[str, Any]:
        """As JSON writes it."""
        return asdict(self) | {"local_layers": list(self.local_layers)}

    @classmethod
    def from_dict(cls, values: dict[str, Any]) -> "EncoderConfig":
        """The reverse of to_dict."""
        known = {field.name for field in fields(cls)}
        if strange := sorted(set(values) - known):
            raise EncoderError(f"Unknown sizes in the encoder's configuration: {', '.join(strange)}.")
        try:
            return cls(**values)
        except TypeError as error:
            raise EncoderError(f"The encoder's configuration is not complete: {error}.") from error


def _fits(value: object, wanted: type) -> bool:
    """Whether a value from JSON is of the type: a whole number also does for a float, but True is no number."""
    if isinstance(value, bool):
        return wanted is bool
    return isinstance(value, (int, float) if wanted is float else wanted)
