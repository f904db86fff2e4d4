"""Write text with a model: a KV cache, and the choice of each next token."""

from __future__ import annotations

from collections.abc import Collection, Sequence

import torch
from jaxtyping import Float
from torch import Tensor

from tfcourse.architectures import DecoderLM
from tfcourse.config import ModelConfig


class KVCache:
    """The keys and values of all positions so far, so that each is computed once.

    Memory: 2 · n_layers · batch · n_kv_heads · max_len · head_dim numbers, taken at once.
    """

    def __init__(
        self,
        config: ModelConfig,
        batch_size: int,
        max_len: int,
        device: torch.device | None = None,
        dtype: torch.dtype = torch.float32,
    ) -> None:
        shape = (config.n_layers, batch_size, config.n_kv_heads, max_len, config.head_dim)
        self.keys = torch.zeros(shape, device=device, dtype=dtype)
        self.values = torch.zeros(shape, device=device, dtype=dtype)
        self.max_len = max_len
        self.length = 0  # positions stored; the stack moves it on after its last block

    def layer(self, index: int) -> LayerView:
        """Return the part that belongs to one block."""
        return LayerView(self, index)


class LayerView:
    """One block's view of a `KVCache`."""

    def __init__(self, cache: KVCache, index: int) -> None:
        self.cache, self.index = cache, index

    def append(
        self, keys: Float[Tensor, "B K L k"], values: Float[Tensor, "B K L k"]
    ) -> tuple[Float[Tensor, "B K S k"], Float[Tensor, "B K S k"]]:
        """Store the new positions; return all S positions so far."""
        start, end = self.cache.length, self.cache.length + keys.shape[2]
        if end > self.cache.max_len:
            raise ValueError(
                f"the cache holds {self.cache.max_len} positions and {end} are needed; "
                "make it with a larger max_len"
            )
        all_keys, all_values = self.cache.keys[self.index], self.cache.values[self.index]
        all_keys[:, :, start:end] = keys
        all_values[:, :, start:end] = values
        return all_keys[:, :, :end], all_values[:, :, :end]


@torch.inference_mode()
def generate(
    model: DecoderLM,
    prompts: Sequence[Sequence[int]],
    max_new_tokens: int,
    *,
    temperature: float = 1.0,
    top_k: int | None = None,
    top_p: float | None = None,
    stop_tokens: Collection[int] = (),
    seed: int | None = None,
) -> list[list[int]]:
    """Continue each prompt; return the new tokens alone.

    Prompts are lists without padding and may differ in length; at temperature 0 each row comes out
    as it would alone. (At others, one generator draws for all rows.) A row ends after a stop token,
    which is kept, or after `max_new_tokens`. Temperature 0 takes the likeliest token;
    `top_k` and `top_p` cut the distribution before the draw (see `next_token_probabilities`).

    What is written is not read again by earlier positions, also where `causal` is False.

    Raises:
        TypeError: prompts in a tensor, or one prompt that is no list.
        ValueError: no prompt, an empty one, or prompt and new tokens together above `max_len` (the
            window does not slide: that would need all keys again at other positions).
    """
    _check_request(model, prompts, max_new_tokens)
    _check_sampling(temperature, top_k, top_p)
    device, dtype = model.head.weight.device, model.head.weight.dtype
    lengths = [len(prompt) for prompt in prompts]
    longest = max(lengths)
    # Padding on the left lets every row's next token come from the last column.
    rows = [[0] * (longest - len(prompt)) + [int(t) for t in prompt] for prompt in prompts]
    tokens = torch.tensor(rows, device=device)
    mask = None
    if min(lengths) < longest:
        pads = longest - torch.tensor(lengths, device=device)
        columns = torch.arange(longest + max_new_tokens, device=device)
        mask = columns >= pads.unsqueeze(1)  # [B, longest + max_new_tokens]

    generator = torch.Generator(device=device)
    generator.seed() if seed is None else generator.manual_seed(seed)
    cache = KVCache(model.config, len(rows), longest + max_new_tokens, device, dtype)
    stop = frozenset(stop_tokens)
    new_tokens: list[list[int]] = [[] for _ in rows]
    running = set(range(len(rows)))
    was_training = model.training
    model.eval()
    try:
        for _ in range(max_new_tokens):
            seen = mask[:, : cache.length + tokens.shape[1]] if mask is not None else None
            last = model.stack(tokens, seen, cache)[:, -1]
            tokens = _choose(model.head(last), temperature, top_k, top_p, generator)
            for row, token in enumerate(tokens.flatten().tolist()):
                if row in running:
                    new_tokens[row].append(token)
                    if token in stop:
                        running.discard(row)
            if not running:
                break
    finally:
        model.train(was_training)
    return new_tokens


def next_token_probabilities(
    logits: Float[Tensor, "B V"],
    temperature: float = 1.0,
    top_k: int | None = None,
    top_p: float | None = None,
) -> Float[Tensor, "B V"]:
    """Turn logits into the distribution that the next token is drawn from.

    `top_k` keeps the k likeliest tokens (of equal ones, any); `top_p` then keeps the smallest set
    of the likeliest whose probabilities, renormalized after `top_k`, reach p (Holtzman et al. 2020)
    and always at least one. All others get probability 0. Temperature 0 keeps the likeliest alone.

    Raises:
        ValueError: a temperature below 0, a `top_k` below 1, or a `top_p` outside (0, 1].
    """
    _check_sampling(temperature, top_k, top_p)
    if temperature == 0:
        best = logits.argmax(dim=-1, keepdim=True)
        return torch.zeros_like(logits, dtype=torch.float32).scatter_(-1, best, 1.0)
    logits = logits.float()
    # Measured from the largest, so that a tiny temperature gives −inf and not inf − inf.
    logits = (logits - logits.amax(dim=-1, keepdim=True)) / max(temperature, 1e-30)
    if top_k is not None and top_k < logits.shape[-1]:
        values, indices = logits.topk(top_k, dim=-1)
        logits = torch.full_like(logits, -torch.inf).scatter_(-1, indices, values)
    probabilities = logits.softmax(dim=-1)
    if top_p is not None and top_p < 1:
        ordered, indices = probabilities.sort(dim=-1, descending=True, stable=True)
        before = ordered.cumsum(dim=-1) - ordered  # what is reached without this token
        before[:, 0] = -1.0  # the likeliest always stays
        ordered = ordered.masked_fill(before >= top_p, 0.0)
        probabilities = torch.zeros_like(probabilities).scatter_(-1, indices, ordered)
        probabilities /= probabilities.sum(dim=-1, keepdim=True)
    return probabilities


def _choose(
    logits: Tensor,
    temperature: float,
    top_k: int | None,
    top_p: float | None,
    generator: torch.Generator,
) -> Tensor:
    if temperature == 0:
        return logits.argmax(dim=-1, keepdim=True)
    probabilities = next_token_probabilities(logits, temperature, top_k, top_p)
    return torch.multinomial(probabilities, 1, generator=generator)


def _check_sampling(temperature: float, top_k: int | None, top_p: float | None) -> None:
    if not 0 <= temperature < float("inf"):
        raise ValueError(f"temperature={temperature} must be 0 (greedy) or a positive number")
    if top_k is not None and top_k < 1:
        raise ValueError(f"top_k={top_k} keeps no token; use at least 1, or None for all")
    if top_p is not None and not 0 < top_p <= 1:
        raise ValueError(f"top_p={top_p} is outside (0, 1]; use 1 or None for all tokens")


def _check_request(model: DecoderLM, prompts: Sequence[Sequence[int]], max_new_tokens: int) -> None:
    if isinstance(prompts, Tensor):
        raise TypeError(
            "prompts is a tensor, in which padding looks like tokens; give lists of token ids, "
            "each as long as its prompt"
        )
    if len(prompts) == 0:
        raise ValueError("prompts is empty; give at least one list of token ids")
    if max_new_tokens < 0:
        raise ValueError(f"max_new_tokens={max_new_tokens} is negative; use 0 or more")
    vocab_size, max_len = model.config.vocab_size, model.config.max_len
    for i, prompt in enumerate(prompts):
        if isinstance(prompt, int):
            raise TypeError(f"prompt {i} is a number; give lists of token ids: [[1, 2, 3]]")
        if len(prompt) == 0:
            raise ValueError(f"prompt {i} is empty; begin it with the BOS token")
        for token in prompt:
            if not 0 <= int(token) < vocab_size:
                raise ValueError(
                    f"prompt {i} has token id {int(token)}; ids run from 0 to {vocab_size - 1}"
                )
        if len(prompt) + max_new_tokens > max_len:
            raise ValueError(
                f"prompt {i} of {len(prompt)} tokens and max_new_tokens={max_new_tokens} exceed "
                f"max_len={max_len}; "
                + (
                    f"ask for at most {max_len - len(prompt)}"
                    if len(prompt) <= max_len
                    else "shorten the prompt"
                )
            )
