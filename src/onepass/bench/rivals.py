"""What people use instead of the engine: transformers, and stock ONNX Runtime in 8 bits."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from onepass.bench import onnx
from onepass.bench.engines import EncoderParts
from onepass.encoder.config import EncoderConfig

BATCH = 8
"""Texts of a batch of a rival, as transformers' Trainer predicts"""


def bert_config(config: EncoderConfig) -> Any:
    """The sizes of an encoder as transformers takes them."""
    import transformers

    return transformers.BertConfig(
        vocab_size=config.vocab_size, hidden_size=config.width, num_hidden_layers=config.depth,
        num_attention_heads=config.heads, intermediate_size=config.ffn_width,
        max_position_embeddings=config.max_positions,
    )  # fmt: skip


def transformers_rivals(parts: EncoderParts, tasks: int, threads: int) -> Mapping[str, Any]:
    """What people do with transformers."""
    import torch
    import transformers

    torch.set_num_threads(threads)
    classifier = transformers.BertForSequenceClassification(bert_config(parts.config)).eval()
    tokenizer = transformers.PreTrainedTokenizerFast(
        tokenizer_object=parts.raw_tokenizer(), pad_token="[PAD]", model_max_length=512
    )
    heads = torch.nn.ModuleList(torch.nn.Linear(parts.config.width, 2) for _ in range(tasks))
    one = transformers.pipeline("text-classification", model=classifier, tokenizer=tokenizer, device="cpu")

    def in_batches(texts: list[str], run: Callable[..., Any]) -> None:
        with torch.inference_mode():
            for start in range(0, len(texts), BATCH):
                run(**tokenizer(texts[start : start + BATCH], padding=True, truncation=True, return_tensors="pt"))

    def one_model(texts: list[str]) -> None:
        in_batches(texts, classifier)

    def multi_head(texts: list[str]) -> None:
        def run(**batch: Any) -> None:
            pooled = classifier.bert(**batch).pooler_output
            for head in heads:
                head(pooled).softmax(-1)

        in_batches(texts, run)

    def one_pipeline(texts: list[str]) -> None:
        one(texts, truncation=True)

    return {f"{tasks} models": one_model, f"{tasks} pipelines": one_pipeline, "multi-head BertModel": multi_head}


def onnx_rival(parts: EncoderParts, tasks: int, threads: int) -> Callable[[list[str]], object]:
    """One encoder with the heads of all tasks, in batches as they come."""
    heads = np.random.default_rng(0).standard_normal((2 * tasks, parts.config.width), dtype=np.float32)
    run = onnx.session(parts.config, parts.weights, heads, threads)
    tokenizer = parts.raw_tokenizer()
    tokenizer.enable_truncation(min(512, parts.config.capacity))
    tokenizer.enable_padding(pad_id=parts.config.pad_id)

    def label(texts: list[str]) -> object:
        found = []
        for start in range(0, len(texts), BATCH):
            batch = tokenizer.encode_batch(texts[start : start + BATCH])
            ids, mask = (np.array([getattr(one, name) for one in batch]) for name in ("ids", "attention_mask"))
            logits = run(ids, mask).reshape(len(batch), tasks, 2)
            found.append(logits.argmax(-1))
        return np.concatenate(found)

    return label
