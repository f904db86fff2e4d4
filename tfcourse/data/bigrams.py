"""Predict the next token from a table of counts: what a model can do without attention.

A layer that works on each position alone can know the current token and its position, nothing
else. The table of how often each token followed them is the best of such predictors.
"""

from __future__ import annotations

import torch
from jaxtyping import Float, Int
from torch import Tensor

from tfcourse.data.batching import Batch, TokenData
from tfcourse.losses import IGNORE

BATCH = 1000


def bigram_table(
    data: TokenData, n_texts: int = 20_000, use_position: bool = False
) -> Float[Tensor, "positions V V"]:
    """Count which token follows which on `n_texts` rows of training data.

    Returns probabilities: by position (one position for all where `use_position` is false), token,
    and next token. A count is backed off to the next simpler table, weighted as one observation:
    token and position, token alone, nothing.
    """
    V, L = data.vocab_size, data.max_len
    counts = torch.zeros(L if use_position else 1, V, V)
    for step in range(-(-n_texts // BATCH)):
        position, token, target = _examples(data.train_batch(step, BATCH))
        index = (position * use_position, token, target)
        counts.index_put_(index, torch.ones(len(token)), accumulate=True)

    def backed_off(table: Tensor, simpler: Tensor) -> Tensor:
        return (table + simpler) / (table.sum(-1, keepdim=True) + 1)

    p = torch.full((V,), 1 / V)
    p = backed_off(counts.sum((0, 1)), p)
    p = backed_off(counts.sum(0), p)
    return backed_off(counts, p) if use_position else p[None]


def bigram_nats(
    data: TokenData, n_texts: int = 20_000, use_position: bool = False
) -> Float[Tensor, "n_rows"]:
    """Score the held-out rows by `bigram_table`.

    Returns −log p of each row in nats, in the order of `data.floor`.
    """
    p = bigram_table(data, n_texts, use_position)
    nats = []
    for batch in data.held_out_batches(BATCH):
        position, token, target = _examples(batch)
        per_row = torch.zeros(batch.targets.shape)
        per_row[batch.targets != IGNORE] = -p[position * use_position, token, target].log()
        nats.append(per_row.sum(1))
    return torch.cat(nats)


def _examples(batch: Batch) -> tuple[Int[Tensor, "N"], Int[Tensor, "N"], Int[Tensor, "N"]]:
    counted = batch.targets != IGNORE
    positions = torch.arange(batch.inputs.shape[1]).expand_as(batch.inputs)
    return positions[counted], batch.inputs[counted], batch.targets[counted]
