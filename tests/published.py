"""The model that opens chapter 04, and words to ask it about."""

from __future__ import annotations

from typing import Any

import torch
from helpers import ids
from torch import Tensor, nn

from tfcourse.architectures import DecoderLM
from tfcourse.config import ModelConfig

SHAPE = dict(vocab_size=1000, d_model=512, n_heads=8, d_ff=2048, n_layers=6, max_len=512)


def published(seed: int = 0, std: float = 1.0, **changes: Any) -> DecoderLM:
    """Make the printed model from the package's parts, drawn as PyTorch draws by default."""
    torch.manual_seed(seed)
    model = DecoderLM(ModelConfig(**(SHAPE | {"embedding_scale": True} | changes)))
    model.requires_grad_(False)
    for layer in model.stack.blocks.modules():
        if isinstance(layer, nn.Linear):
            layer.reset_parameters()
    if not model.config.tie_embeddings:
        model.head.reset_parameters()
    nn.init.normal_(model.stack.embedding.weight, std=std)
    nn.init.normal_(model.stack.positions.embedding.weight, std=std)
    return model


def question(n_words: int = 33, seed: int = 3) -> tuple[Tensor, Tensor]:
    words = ids(1, n_words, vocab_size=1000, seed=seed)
    return words[:, :-1], words[:, 1:]
