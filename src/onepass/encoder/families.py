"""Published encoders: what their config.json and their weights are called, and what that is here.

A family is a row of a table, not code. To add one, name its sizes and its parameters; encoder.py must already know
how to compute it.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from onepass.encoder.config import MAX_DEPTH, EncoderConfig
from onepass.errors import EncoderError, unknown


@dataclass(frozen=True)
class Family:
    """How one family of published encoders writes things down."""

    sizes: Mapping[str, str]
    """Our name of a size: its key in config.json. A key that is missing there leaves our default, if there is one"""
    names: Mapping[str, str | tuple[str, ...]]
    """Our name of a module: its published name; {} is the layer. Several names are stacked into one weight"""
    fixed: Mapping[str, Any] = field(default_factory=dict)
    """What is the same in the whole family, or a default of its own"""
    refused: Mapping[str, Any] = field(default_factory=dict)
    """Keys of config.json that we can read with this value only (or when they are missing)"""
    positions_after_padding: bool = False
    """The first position is the row after that of the padding token"""


_BERT_SIZES = {
    "vocab_size": "vocab_size",
    "width": "hidden_size",
    "depth": "num_hidden_layers",
    "heads": "num_attention_heads",
    "ffn_width": "intermediate_size",
    "max_positions": "max_position_embeddings",
    "embedding_width": "embedding_size",
    "type_vocab": "type_vocab_size",
    "activation": "hidden_act",
    "norm_eps": "layer_norm_eps",
    "dropout": "hidden_dropout_prob",
    "attention_dropout": "attention_probs_dropout_prob",
    "pad_id": "pad_token_id",
}
_BERT_NAMES: dict[str, str | tuple[str, ...]] = {
    "word_table": "embeddings.word_embeddings",
    "position_table": "embeddings.position_embeddings",
    "type_table": "embeddings.token_type_embeddings",
    "embedding_norm": "embeddings.LayerNorm",
    "projection": "embeddings_project",
    "layers.{}.qkv": (
        "encoder.layer.{}.attention.self.query",
        "encoder.layer.{}.attention.self.key",
        "encoder.layer.{}.attention.self.value",
    ),
    "layers.{}.attention_output": "encoder.layer.{}.attention.output.dense",
    "layers.{}.attention_norm": "encoder.layer.{}.attention.output.LayerNorm",
    "layers.{}.up": "encoder.layer.{}.intermediate.dense",
    "layers.{}.down": "encoder.layer.{}.output.dense",
    "layers.{}.mlp_norm": "encoder.layer.{}.output.LayerNorm",
}
_ENCODER_ONLY = {"position_embedding_type": "absolute", "is_decoder": False, "add_cross_attention": False}

_BERT = Family(sizes=_BERT_SIZES, names=_BERT_NAMES, fixed={"type_vocab": 2}, refused=_ENCODER_ONLY)
_ROBERTA = Family(
    sizes=_BERT_SIZES,
    names=_BERT_NAMES,
    fixed={"type_vocab": 1, "pad_id": 1},
    refused=_ENCODER_ONLY,
    positions_after_padding=True,
)

FAMILIES: dict[str, Family] = {
    "bert": _BERT,
    "electra": _BERT,
    "roberta": _ROBERTA,
    "xlm-roberta": _ROBERTA,
    "distilbert": Family(
        sizes={
            "vocab_size": "vocab_size",
            "width": "dim",
            "depth": "n_layers",
            "heads": "n_heads",
            "ffn_width": "hidden_dim",
            "max_positions": "max_position_embeddings",
            "activation": "activation",
            "dropout": "dropout",
            "attention_dropout": "attention_dropout",
            "pad_id": "pad_token_id",
        },
        names={
            "word_table": "embeddings.word_embeddings",
            "position_table": "embeddings.position_embeddings",
            "embedding_norm": "embeddings.LayerNorm",
            "layers.{}.qkv": (
                "transformer.layer.{}.attention.q_lin",
                "transformer.layer.{}.attention.k_lin",
                "transformer.layer.{}.attention.v_lin",
            ),
            "layers.{}.attention_output": "transformer.layer.{}.attention.out_lin",
            "layers.{}.attention_norm": "transformer.layer.{}.sa_layer_norm",
            "layers.{}.up": "transformer.layer.{}.ffn.lin1",
            "layers.{}.down": "transformer.layer.{}.ffn.lin2",
            "layers.{}.mlp_norm": "transformer.layer.{}.output_layer_norm",
        },
    ),
    "mpnet": Family(
        sizes={
            ours: key for ours, key in _BERT_SIZES.items() if ours not in ("embedding_width", "type_vocab", "pad_id")
        }
        | {"relative_buckets": "relative_attention_num_buckets"},
        names=_BERT_NAMES
        | {
            "relative.table": "encoder.relative_attention_bias",
            "layers.{}.qkv": (
                "encoder.layer.{}.attention.attn.q",
                "encoder.layer.{}.attention.attn.k",
                "encoder.layer.{}.attention.attn.v",
            ),
            "layers.{}.attention_output": "encoder.layer.{}.attention.attn.o",
            "layers.{}.attention_norm": "encoder.layer.{}.attention.LayerNorm",
        },
        fixed={"pad_id": 1, "relative_buckets": 32},
        positions_after_padding=True,
    ),
    "modernbert": Family(
        sizes={
            "vocab_size": "vocab_size",
            "width": "hidden_size",
            "depth": "num_hidden_layers",
            "heads": "num_attention_heads",
            "ffn_width": "intermediate_size",
            "max_positions": "max_position_embeddings",
            "activation": "hidden_activation",
            "norm_eps": "norm_eps",
            "dropout": "mlp_dropout",
            "attention_dropout": "attention_dropout",
            "attention_bias": "attention_bias",
            "mlp_bias": "mlp_bias",
            "norm_bias": "norm_bias",
            "local_window": "local_attention",
            "pad_id": "pad_token_id",
        },
        names={
            "word_table": "embeddings.tok_embeddings",
            "embedding_norm": "embeddings.norm",
            "layers.{}.qkv": "layers.{}.attn.Wqkv",
            "layers.{}.attention_output": "layers.{}.attn.Wo",
            "layers.{}.attention_norm": "layers.{}.attn_norm",
            "layers.{}.up": "layers.{}.mlp.Wi",
            "layers.{}.down": "layers.{}.mlp.Wo",
            "layers.{}.mlp_norm": "layers.{}.mlp_norm",
            "final_norm": "final_norm",
        },
        fixed={
            "position_table": False,
            "pre_norm": True,
            "gated": True,
            "norm_eps": 1e-5,
            "dropout": 0.0,
            "attention_dropout": 0.0,
            "attention_bias": False,
            "mlp_bias": False,
            "norm_bias": False,
            "local_window": 128,
        },
    ),
}


def read_config(published: Mapping[str, Any]) -> EncoderConfig:
    """A published config.json in our words."""
    name = published.get("model_type")
    if not isinstance(name, str) or name not in FAMILIES:
        raise EncoderError(unknown("encoder family", str(name), FAMILIES))
    family = FAMILIES[name]
    strange = [
        f"{key} is {published[key]!r}, and only {value!r} is supported"
        for key, value in family.refused.items()
        if published.get(key, value) != value
    ]
    values = dict(family.fixed) | {
        ours: published[key] for ours, key in family.sizes.items() if published.get(key) is not None
    }
    try:
        if family.positions_after_padding:
            values["position_offset"] = values["pad_id"] + 1
        if name == "modernbert":
            strange += _rotation(published, values)
    except (TypeError, AttributeError) as error:
        strange.append(f"it is not written as such files are ({error})")
    missing = [family.sizes[ours] for ours in _REQUIRED if ours not in values]
    if missing:
        strange.append(f"it does not say {', '.join(missing)}")
    if strange:
        raise EncoderError(f"This {name} encoder's config.json cannot be used: {'; '.join(strange)}.")
    return EncoderConfig(family=name, **values)


def published_names(config: EncoderConfig, ours: str) -> tuple[str, ...]:
    """The published names of our parameter: several when they are stacked into one."""
    module, _, kind = ours.rpartition(".")
    parts = module.split(".")
    layer = parts[1] if parts[0] == "layers" else ""
    pattern = ".".join(["layers", "{}", *parts[2:]]) if layer else module
    names = FAMILIES[config.family].names[pattern]
    return tuple(f"{name.format(layer)}.{kind}" for name in ([names] if isinstance(names, str) else names))


def depth_key(config: EncoderConfig) -> str:
    """What config.json calls the number of layers."""
    return FAMILIES[config.family].sizes["depth"]


def layer_of(config: EncoderConfig, published: str) -> int:
    """The layer that a published parameter is of; -1: of none, as poolers and heads are.

    >>> bert = EncoderConfig("bert", vocab_size=8, width=8, depth=2, heads=2, ffn_width=8, max_positions=8)
    >>> layer_of(bert, "encoder.layer.11.output.dense.bias"), layer_of(bert, "pooler.dense.bias")
    (11, -1)
    """
    before = str(FAMILIES[config.family].names["layers.{}.down"]).partition("{}")[0]
    found = re.match(re.escape(before) + r"(\d{1,9})\.", published)
    return int(found[1]) if found else -1


_REQUIRED = ("vocab_size", "width", "depth", "heads", "ffn_width", "max_positions")


def _rotation(published: Mapping[str, Any], values: dict[str, Any]) -> list[str]:
    """Adds ModernBERT's rotation and local layers, which are written in an old and a new way; returns the faults."""
    new = published.get("rope_parameters") or {}
    full, sliding = (new.get(kind) or {} for kind in ("full_attention", "sliding_attention"))
    values["global_theta"] = full.get("rope_theta") or published.get("global_rope_theta") or 160_000.0
    # An old config may have null here: then local layers rotate as global ones do.
    old_local = published.get("local_rope_theta", 10_000.0) or values["global_theta"]
    values["local_theta"] = sliding.get("rope_theta") or old_local
    every = published.get("global_attn_every_n_layers") or 3
    types = published.get("layer_types")
    if types is None:
        depth = min(values.get("depth", 0), MAX_DEPTH)
        types = ["sliding_attention" if index % every else "full_attention" for index in range(depth)]
    values["local_layers"] = tuple(index for index, kind in enumerate(types) if kind == "sliding_attention")
    scaled = [part.get("rope_type", "default") for part in (full, sliding)]
    return [f"the rotation is scaled by {kind!r}, which is not supported" for kind in scaled if kind != "default"]
