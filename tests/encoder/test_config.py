import json

import pytest

from onepass.encoder.config import EncoderConfig
from onepass.encoder.families import read_config
from onepass.errors import EncoderError

SMALL = {"vocab_size": 64, "width": 32, "depth": 2, "heads": 4, "ffn_width": 48, "max_positions": 100}
PUBLISHED = {
    "vocab_size": 64,
    "hidden_size": 32,
    "num_hidden_layers": 4,
    "num_attention_heads": 4,
    "intermediate_size": 48,
    "max_position_embeddings": 100,
}


def test_a_config_survives_json():
    config = EncoderConfig(family="modernbert", **SMALL, local_layers=(1,), local_theta=1e4)
    assert EncoderConfig.from_dict(json.loads(json.dumps(config.to_dict()))) == config


def test_word_embeddings_are_as_wide_as_states_unless_said():
    assert EncoderConfig(family="bert", **SMALL).embedding_width == 32
    assert EncoderConfig(family="electra", **SMALL, embedding_width=16).embedding_width == 16


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"heads": 5}, "cannot be divided among 5 heads"),
        ({"depth": 0}, "depth is 0"),
        ({"width": "32"}, "width is '32'"),
        ({"depth": True}, "depth is True"),
        ({"activation": "tanh"}, "known: gelu"),
        ({"position_offset": 100}, "leave none"),
        ({"dropout": 1.5}, "dropout is 1.5"),
        ({"depth": 10**9, "max_positions": 10**12}, "depth is 1000000000; max_positions is 1000000000000"),
    ],
)
def test_sizes_that_cannot_be_right_are_refused(change: dict, message: str):
    with pytest.raises(EncoderError, match=message):
        EncoderConfig(family="bert", **SMALL | change)


def test_an_unknown_or_missing_size_is_refused():
    with pytest.raises(EncoderError, match="colour"):
        EncoderConfig.from_dict({"family": "bert", **SMALL, "colour": 1})
    with pytest.raises(EncoderError, match="width"):
        EncoderConfig.from_dict({"family": "bert"})


def test_an_unknown_family_lists_the_known_ones():
    with pytest.raises(EncoderError, match=r"Did you mean 'distilbert'.*bert, distilbert, electra, modernbert"):
        read_config({"model_type": "distillbert"})
    with pytest.raises(EncoderError, match="Known: bert"):
        read_config({})


def test_missing_sizes_are_named_together():
    with pytest.raises(EncoderError, match="hidden_size, num_hidden_layers"):
        read_config({"model_type": "bert", "vocab_size": 5})


def test_what_we_do_not_compute_is_refused():
    with pytest.raises(EncoderError, match=r"relative_key.*is_decoder"):
        read_config(PUBLISHED | {"model_type": "bert", "position_embedding_type": "relative_key", "is_decoder": True})
    scaled = {"full_attention": {"rope_theta": 1e5, "rope_type": "yarn"}}
    with pytest.raises(EncoderError, match="yarn"):
        read_config(PUBLISHED | {"model_type": "modernbert", "rope_parameters": scaled})


def test_the_rotation_is_read_from_old_and_new_files():
    old = {"global_rope_theta": 5e4, "local_rope_theta": 2e4, "global_attn_every_n_layers": 2}
    new = {
        "rope_parameters": {"full_attention": {"rope_theta": 5e4}, "sliding_attention": {"rope_theta": 2e4}},
        "layer_types": ["full_attention", "sliding_attention"] * 2,
    }
    config = read_config(PUBLISHED | {"model_type": "modernbert"} | old)
    assert config == read_config(PUBLISHED | {"model_type": "modernbert"} | new)
    assert (config.global_theta, config.local_theta, config.local_layers) == (5e4, 2e4, (1, 3))


def test_a_local_rotation_of_null_is_the_global_one():
    config = read_config(PUBLISHED | {"model_type": "modernbert", "global_rope_theta": 5e4, "local_rope_theta": None})
    assert config.local_theta == 5e4


def test_positions_start_after_the_padding_token_in_roberta():
    assert read_config(PUBLISHED | {"model_type": "roberta"}).position_offset == 2
    assert read_config(PUBLISHED | {"model_type": "roberta", "pad_token_id": 4}).position_offset == 5
    assert read_config(PUBLISHED | {"model_type": "bert", "pad_token_id": 4}).position_offset == 0


@pytest.mark.parametrize("family", ["bert", "roberta", "modernbert"])
@pytest.mark.parametrize("value", ["many", [1], {"a": 1}, -1, 10**9, 1.5])
def test_strange_values_are_an_encoder_error(family: str, value: object):
    keys = ["num_hidden_layers", "pad_token_id", "rope_parameters", "layer_types", "global_attn_every_n_layers"]
    with pytest.raises(EncoderError):
        read_config(PUBLISHED | {"model_type": family} | dict.fromkeys(keys, value))
