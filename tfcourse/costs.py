"""What a `DecoderLM` costs, computed from its config alone: no model is built, no torch imported.

Parameters, work, cache and memory, each by part. The tests compare them with live models.
"""

from __future__ import annotations

from collections import defaultdict
from typing import Any

from tfcourse.config import ModelConfig

BYTES = {"fp32": 4, "bf16": 2, "fp16": 2}
"""Bytes per number of matrix products, by the names of `TrainConfig.precision`."""


def parameters(config: ModelConfig) -> dict[str, int]:
    """Count the parameters by part. A tied matrix counts once, as the embedding.

    Raises:
        ValueError: the model is no `DecoderLM`: it has no tokens, or it reads a source.
    """
    if config.vocab_size < 1:
        raise ValueError("vocab_size=0 leaves no token to embed; say how many there are")
    if config.cross_attention:
        raise ValueError("cross_attention=True: a source is not counted; use False")
    d = config.d_model
    queries, all_heads = _head_widths(config)
    attention = all_heads * (d + config.qkv_bias) + d * (queries + config.bias)
    up = config.d_ff * (2 if config.gated else 1)
    feed_forward = up * (d + config.bias) + d * (config.d_ff + config.bias)
    return {
        "embedding": (config.vocab_size + config.n_token_types) * d,
        "positions": config.max_len * d if config.position == "learned" else 0,
        "attention": config.n_layers * config.attention * attention,
        "feed-forward": config.n_layers * config.mlp * feed_forward,
        "norms": _n_norms(config) * d * (2 if config.norm == "layernorm" else 1),
        "head": config.vocab_size * (config.head_bias + (0 if config.tie_embeddings else d)),
    }


def flops_per_token(config: ModelConfig, context: int, causal_mean: bool = False) -> dict[str, int]:
    """Count the floating-point operations of one token's forward pass, by part.

    A product and its sum are two. Only matrix products count, as in `torch.utils.flop_counter`:
    softmax, norms, activations, rotations and look-ups are left out. The backward pass takes twice
    as many.

    Args:
        context: how many keys the token's query meets: all of them for the last token, and for
            every token where attention is computed in full.
        causal_mean: count what a causal mask needs, (context + 1) / 2 keys, the mean over a
            sequence.
    """
    d = config.d_model
    queries, all_heads = _head_widths(config)
    n_attention, n_mlp = config.n_layers * config.attention, config.n_layers * config.mlp
    return {
        "projections": n_attention * 2 * d * (all_heads + queries),
        "scores": n_attention * 2 * queries * (context + 1 if causal_mean else 2 * context),
        "feed-forward": n_mlp * 2 * d * config.d_ff * (3 if config.gated else 2),
        "head": 2 * d * config.vocab_size,
    }


def rule_of_thumb(config: ModelConfig) -> ModelConfig:
    """Return the model of the same width whose blocks take 24 d² + 4 n d operations per token.

    Its heads are together as wide as the stream, none shares keys, and d_ff = 4 d in two matrices.
    """
    d, n_layers = config.d_model, config.n_layers
    return ModelConfig(vocab_size=config.vocab_size, d_model=d, n_layers=n_layers, n_heads=1)


def shares(flops: dict[str, int]) -> dict[str, float]:
    """Return each part's share of the blocks' work; "attention" is two of the parts."""
    parts = {part: float(n) for part, n in flops.items() if part != "head"}
    total = max(1.0, sum(parts.values()))
    parts["attention"] = parts["projections"] + parts["scores"]
    return {part: n / total for part, n in parts.items()}


def crossovers(config: ModelConfig) -> dict[str, float]:
    """Return the contexts at which attention does as much work as the feed-forward layers.

    "scores" compares the products with keys and values alone, "attention" the projections with
    them; with d_ff = 4 d and two matrices these are 4 d and 2 d. Below 1, attention does more at
    every length. Counted as the causal mean, n becomes 2 n − 1. Empty where there is no attention.
    """
    flops = flops_per_token(config, 1)
    mlp, scores = flops["feed-forward"], flops["scores"]
    if not scores:
        return {}
    return {"scores": mlp / scores, "attention": (mlp - flops["projections"]) / scores}


def kv_cache_bytes(config: ModelConfig, n_tokens: int, precision: str = "fp32") -> int:
    """Count the bytes of a `KVCache` that holds so many tokens, those of all rows together."""
    per_token = 2 * config.n_layers * config.n_kv_heads * config.head_dim * BYTES[precision]
    return n_tokens * per_token


def training_memory(
    config: ModelConfig, batch_size: int, length: int, precision: str = "fp32", device: str = "cuda"
) -> dict[str, int]:
    """Count the bytes of a training step by part: AdamW, rows of `length` tokens, not compiled.

    "activations" are what autograd keeps for the backward pass: each storage once, no parameter,
    but the copies of weights that autocast makes. "loss" is what the chunked loss holds on top: a
    chunk of logits with its softmax, the gradients of the head and of what it reads.

    The parts are never held all together. "peak" is the most that is: weights and moments, and the
    larger of two, the end of the forward pass or that of the backward pass, when the gradients have
    taken the place of the activations. With `accumulate`, give one part's rows and add the
    gradients, which then stay.

    Attention is taken to be fused: it keeps no scores. A GPU that shares key heads in fp32 has no
    such kernel.

    Args:
        device: on a "cpu" RMSNorm is not fused and keeps one more vector per token.

    Raises:
        ValueError: dropout, whose masks differ between devices and are not counted.
    """
    if config.dropout:
        raise ValueError(f"dropout={config.dropout} keeps masks that are not counted; use 0")
    d, f, b = config.d_model, config.d_ff, BYTES[precision]
    copied = b if b < 4 else 0  # bytes of what is copied for products in another precision
    queries, all_heads = _head_widths(config)
    n_attention, n_mlp = config.n_layers * config.attention, config.n_layers * config.mlp
    rows, total = batch_size * length, sum(parameters(config).values())

    per_norm = 4 * (d + 2 if config.norm == "layernorm" else d + 1)  # its input and statistics
    if config.norm == "rmsnorm" and device == "cpu":
        per_norm += 4 * d
    per_attention = b * (d + all_heads + queries) + 4 * config.n_heads
    per_position = 8 if config.position == "learned" else 0
    if config.position == "rope":  # turned queries and keys; what was gathered, in another order
        reordered = queries if min(length, config.n_heads) > 1 else 0
        per_attention += b * ((all_heads + queries) // 2 + reordered)
        tables = 2 * n_attention if copied else min(1, n_attention)
        per_position = tables * config.head_dim * b
    per_mlp = b * (d + f * {"relu": 1, "swiglu": 4}.get(config.activation, 2))
    ids = 16 if config.n_token_types else 8
    per_token = _n_norms(config) * per_norm + n_attention * per_attention + n_mlp * per_mlp + ids
    matrices = n_attention * d * (all_heads + queries) + n_mlp * d * f * (3 if config.gated else 2)
    activations = rows * per_token + length * per_position + copied * matrices + 8

    head = config.vocab_size * d
    chunk_rows = min(rows, 4096, max(1, 2**24 // config.vocab_size))  # as in losses
    chunk = chunk_rows * config.vocab_size
    next_chunk = chunk * (4 + copied) if chunk_rows < rows else 0
    loss = chunk * (8 + copied) + max(next_chunk, head * b) + head * (4 + copied)
    loss += rows * d * (4 + 2 * b)
    end_of_backward = 4 * total + 4 * head * config.tie_embeddings  # a tied one is summed from two
    return {
        "weights": 4 * total,
        "AdamW moments": 8 * total,
        "gradients": 4 * total,
        "activations": activations,
        "loss": loss,
        "peak": 12 * total + max(activations + loss, end_of_backward),
    }


def cost_table(config: ModelConfig, context: int, batch_size: int) -> str:
    """Write all costs as plain text. A crossover at 1: attention does more at every length."""
    counts = parameters(config)
    counts["total"] = sum(counts.values())
    columns = [("in full", config, False), ("rule of thumb", rule_of_thumb(config), False)]
    if config.causal:
        columns.insert(1, ("causal mean", config, True))
    tables: dict[str, dict[str, Any]] = defaultdict(dict)
    share = {part: n / counts["total"] for part, n in counts.items()}
    tables["parameters"] = {"count": counts, "share": share}
    for name, shape, mean in columns:
        flops = flops_per_token(shape, context, mean)
        total = sum(flops.values())
        tables["FLOPs per token"][name] = flops | {"forward": total, "backward": 2 * total}
        tables["share of blocks' FLOPs"][name] = shares(flops)
        tables["crossover, tokens"][name] = {
            part: max(1, round(2 * n - 1 if mean else n)) for part, n in crossovers(shape).items()
        }
    for name in ("fp32", "bf16"):
        lengths = {"one token": 1, "all tokens": context * batch_size}
        cache = {row: kv_cache_bytes(config, n, name) for row, n in lengths.items()}
        tables["KV cache, bytes"][name] = cache
        tables["training step, bytes"][name] = training_memory(config, batch_size, context, name)
    first = f"context {context:,} tokens, batch {batch_size:,}\n"
    return "\n".join([first, *(_table(*table) for table in tables.items())])


def _table(title: str, columns: dict[str, dict[str, Any]]) -> str:
    lines = [(title, list(columns))]
    for row in next(iter(columns.values())):
        cells = [column[row] for column in columns.values()]
        lines.append((f"  {row}", [f"{n:{'.1%' if isinstance(n, float) else ','}}" for n in cells]))
    return "".join(f"{name:26}{''.join(f'{c:>18}' for c in cells)}\n" for name, cells in lines)


def _head_widths(config: ModelConfig) -> tuple[int, int]:
    """Return the features of all query heads, and those of all query, key and value heads."""
    queries = config.n_heads * config.head_dim
    return queries, queries + 2 * config.n_kv_heads * config.head_dim


def _n_norms(config: ModelConfig) -> int:
    n_branches = config.n_layers * (config.attention + config.mlp)
    return n_branches + (config.norm_position == "pre") + config.embedding_norm
