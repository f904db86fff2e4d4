"""Write text with a model: a KV cache, and the choice of each next token."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from operator import index
from typing import Any

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float, Int
from torch import Tensor

from tfcourse.architectures import DecoderLM, EncoderDecoder
from tfcourse.config import ModelConfig
from tfcourse.stacks import Stack


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
        self.masked = False  # whether some of them are padding

    def layer(self, index: int) -> LayerView:
        """Return the part that belongs to one block."""
        return LayerView(self, index)

    def end_after(self, n_new: int) -> int:
        """Say how many positions attention reads when some more are stored."""
        return self.length + n_new


class StaticKVCache(KVCache):
    """A `KVCache` whose shapes stay the same while it fills: one compiled program serves all steps.

    Attention reads all `max_len` places. A padding mask over all of them hides those still empty.
    """

    def __init__(self, filled: KVCache) -> None:
        self.keys, self.values, self.max_len = filled.keys, filled.values, filled.max_len
        # A tensor, since a number would be a constant of the compiled program.
        self.length: Any = torch.tensor([filled.length], device=filled.keys.device)
        self.masked = True  # always: the mask hides what is empty

    def end_after(self, n_new: int) -> int:
        return self.max_len


class LayerView:
    """One block's view of a `KVCache`."""

    def __init__(self, cache: KVCache, index: int) -> None:
        self.cache, self.index = cache, index

    def append(
        self, keys: Float[Tensor, "B K L k"], values: Float[Tensor, "B K L k"]
    ) -> tuple[Float[Tensor, "B K S k"], Float[Tensor, "B K S k"]]:
        """Store the new positions; return all S positions so far."""
        n_rows = self.cache.keys.shape[1]
        if len(keys) != n_rows:
            raise ValueError(f"the cache is for {n_rows} rows, not {len(keys)}; make one per batch")
        start, end = self.cache.length, self.cache.end_after(keys.shape[2])
        if end > self.cache.max_len:
            raise ValueError(
                f"the cache holds {self.cache.max_len} positions and {end} are needed; "
                "make it with a larger max_len"
            )
        all_keys, all_values = self.cache.keys[self.index], self.cache.values[self.index]
        if isinstance(start, Tensor):
            return all_keys.index_copy_(2, start, keys), all_values.index_copy_(2, start, values)
        all_keys[:, :, start:end] = keys
        all_values[:, :, start:end] = values
        return all_keys[:, :, :end], all_values[:, :, :end]


def generate(
    model: DecoderLM | EncoderDecoder,
    prompts: Sequence[Sequence[int]],
    max_new_tokens: int,
    **options: Any,
) -> list[list[int]]:
    """Continue each prompt; return the new tokens alone. The options are those of `stream`."""
    new_tokens: list[list[int]] = [[] for _ in prompts]
    for step in stream(model, prompts, max_new_tokens, **options):
        for row, token in enumerate(step):
            if token is not None:
                new_tokens[row].append(token)
    return new_tokens


def stream(
    model: DecoderLM | EncoderDecoder,
    prompts: Sequence[Sequence[int]],
    max_new_tokens: int,
    *,
    sources: Sequence[Sequence[int]] | None = None,
    temperature: float = 1.0,
    top_k: int | None = None,
    top_p: float | None = None,
    stop_tokens: Collection[int] = (),
    seed: int | Sequence[int] | None = None,
    prefill: int | None = None,
    compile: bool = False,
) -> Iterator[list[int | None]]:
    """Continue each prompt; yield each step's new token of every row, None where a row has ended.

    Prompts are lists without padding and may differ in length; each row comes out as it would
    alone with its seed. A row ends after a stop token, which is kept, or after `max_new_tokens`.

    What is written is not read again by earlier positions, also where `causal` is False.

    Args:
        sources: what an encoder–decoder reads, one list of tokens per prompt.
        temperature: 0 takes the likeliest token; `top_k` and `top_p` cut the distribution before
            the draw (see `next_token_probabilities`).
        seed: one per row; from a single one, row i gets seed + i.
        prefill: read the prompts this many tokens at a time, to bound the memory that takes.
        compile: compile the step that writes one token, for long or many texts of one batch shape.

    Raises:
        TypeError: prompts in a tensor, or one prompt or `stop_tokens` that is no list.
        ValueError: no prompt, an empty one, or prompt and new tokens together above `max_len` (the
            window does not slide: that would need all keys again at other positions).
    """
    _check_request(model, prompts, max_new_tokens)
    _check_sampling(temperature, top_k, top_p)
    try:
        stop = frozenset(map(index, stop_tokens))  # tensors, too: as keys they equal no number
    except TypeError:
        raise TypeError(f"stop_tokens={stop_tokens!r} is no list of ids, such as [2]") from None
    if prefill is not None and prefill < 1:
        raise ValueError(f"prefill={prefill} reads nothing; use 1 or more, or None for all at once")
    device, dtype = model.head.weight.device, model.head.weight.dtype
    tokens, real = pad_left(prompts, device)
    longest = tokens.shape[1]
    # What is written after the prompts is real, too: [B, longest + max_new_tokens]
    mask = F.pad(real, (0, max_new_tokens), value=True)
    padded = not real.all()
    generators = _generators(seed, len(prompts), device)
    with torch.inference_mode(), model.evaluating():
        stack, context = _reader(model, sources, len(prompts), device)
    cache = KVCache(stack.config, len(prompts), longest + max_new_tokens, device, dtype)
    chunks = list(tokens.split(prefill or longest, dim=1))
    running = set(range(len(prompts)))

    def read(chunk: Tensor, seen: Tensor | None, cache: KVCache) -> Tensor:
        return model.head(stack(chunk, seen, cache, **context)[:, -1])

    def steps() -> Iterator[list[int | None]]:
        nonlocal chunks, cache
        end, next_step = 0, read
        for _ in range(max_new_tokens):
            with torch.inference_mode(), model.evaluating():
                for chunk in chunks:
                    end += chunk.shape[1]
                    seen = mask[:, :end] if padded else None
                    if isinstance(cache, StaticKVCache):
                        seen = F.pad(mask[:, :end], (0, mask.shape[1] - end), value=False)
                    logits = next_step(chunk, seen, cache)
                chosen = _choose(logits, temperature, top_k, top_p, generators)
            if compile and next_step is read:  # the prompts have been read
                cache, next_step = StaticKVCache(cache), torch.compile(read)
            chunks = [chosen]
            step = [t if i in running else None for i, t in enumerate(chosen.flatten().tolist())]
            running.difference_update([i for i in running if step[i] in stop])
            yield step
            if not running:
                return

    return steps()


def pad_left(
    rows: Sequence[Sequence[int]], device: torch.device
) -> tuple[Int[Tensor, "B L"], Bool[Tensor, "B L"]]:
    """Arrange rows so that all end in the last column; also say which tokens are real."""
    longest = max(map(len, rows))
    padded = [[0] * (longest - len(row)) + [int(token) for token in row] for row in rows]
    lengths = torch.tensor([len(row) for row in rows], device=device)
    columns = torch.arange(longest, device=device)
    return torch.tensor(padded, device=device), columns >= longest - lengths.unsqueeze(1)


def _reader(
    model: DecoderLM | EncoderDecoder,
    sources: Sequence[Sequence[int]] | None,
    n_rows: int,
    device: torch.device,
) -> tuple[Stack, dict[str, Any]]:
    """Return the stack that writes, and what it reads beside its own tokens."""
    if not isinstance(model, DecoderLM | EncoderDecoder):
        raise TypeError(f"{type(model).__name__} does not write; give DecoderLM or EncoderDecoder")
    if isinstance(model, DecoderLM):
        if sources is not None:
            raise ValueError("sources are for an EncoderDecoder; a DecoderLM has its prompts alone")
        return model.stack, {}
    if sources is None or len(sources) != n_rows:
        given = "none" if sources is None else len(sources)
        raise ValueError(f"sources: {given} given; give one per prompt, {n_rows}")
    _check_tokens("source", sources, model.config.vocab_size)
    tokens, real = pad_left(sources, device)
    encoded = model.decoder.read(model.encode(tokens, real))
    return model.decoder, {"source": encoded, "source_mask": real}


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


def _generators(
    seed: int | Sequence[int] | None, n_rows: int, device: torch.device
) -> list[torch.Generator]:
    if seed is not None and not isinstance(seed, int | Sequence):
        raise TypeError(f"seed={seed!r} must be a whole number, or a list with one per prompt")
    if isinstance(seed, Sequence) and len(seed) != n_rows:
        raise ValueError(f"seed: {len(seed)} given; give one per prompt, {n_rows}")
    generators = [torch.Generator(device=device) for _ in range(n_rows)]
    for i, generator in enumerate(generators):
        if seed is None:
            generator.seed()
        else:
            generator.manual_seed(seed + i if isinstance(seed, int) else seed[i])
    return generators


def _choose(
    logits: Tensor,
    temperature: float,
    top_k: int | None,
    top_p: float | None,
    generators: list[torch.Generator],
) -> Int[Tensor, "B 1"]:
    if temperature == 0:
        return logits.argmax(dim=-1, keepdim=True)
    probabilities = next_token_probabilities(logits, temperature, top_k, top_p)
    rows = zip(probabilities, generators, strict=True)
    return torch.stack([torch.multinomial(p, 1, generator=generator) for p, generator in rows])


def _check_sampling(temperature: float, top_k: int | None, top_p: float | None) -> None:
    if not 0 <= temperature < float("inf"):
        raise ValueError(f"temperature={temperature} must be 0 (greedy) or a positive number")
    if top_k is not None and top_k < 1:
        raise ValueError(f"top_k={top_k} keeps no token; use at least 1, or None for all")
    if top_p is not None and not 0 < top_p <= 1:
        raise ValueError(f"top_p={top_p} is outside (0, 1]; use 1 or None for all tokens")


def _check_request(
    model: DecoderLM | EncoderDecoder, prompts: Sequence[Sequence[int]], max_new_tokens: int
) -> None:
    if isinstance(prompts, Tensor):
        raise TypeError("prompts is a tensor: padding looks like tokens; give lists of token ids")
    if len(prompts) == 0:
        raise ValueError("prompts is empty; give at least one list of token ids")
    if max_new_tokens < 0:
        raise ValueError(f"max_new_tokens={max_new_tokens} is negative; use 0 or more")
    _check_tokens("prompt", prompts, model.config.vocab_size)
    max_len = model.config.max_len
    for i, prompt in enumerate(prompts):
        if (room := max_len - len(prompt)) < max_new_tokens:
            raise ValueError(
                f"prompt {i} of {len(prompt)} tokens and max_new_tokens={max_new_tokens} exceed "
                f"max_len={max_len}; shorten the prompt, or ask for at most {max(0, room)}"
            )


def _check_tokens(what: str, rows: Sequence[Sequence[int]], vocab_size: int) -> None:
    for i, row in enumerate(rows):
        if isinstance(row, int | str | set | dict):
            raise TypeError(f"{what} {i} is {row!r}; give a list of token ids, such as [1, 2, 3]")
        if len(row) == 0:
            raise ValueError(f"{what} {i} is empty; begin it with the BOS token")
        for token in row:
            if int(token) != token:
                raise TypeError(f"{what} {i} has {token!r}; token ids are whole numbers")
            if not 0 <= int(token) < vocab_size:
                raise ValueError(f"{what} {i} has token id {int(token)}; use 0 to {vocab_size - 1}")
