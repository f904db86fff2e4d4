"""Generation: the cache changes nothing, and each draw keeps at least the likeliest token."""

import math
from itertools import pairwise

import numpy as np
import pytest
import torch
from helpers import few, ids, loud, normal, one_line, tiny, tiny_lm
from hypothesis import given
from hypothesis import strategies as st

from tfcourse.architectures import EncoderDecoder
from tfcourse.generation import KVCache, StaticKVCache, generate, next_token_probabilities, stream

TOLERANCE = dict(atol=1e-4, rtol=1e-4)
SHAPES = [
    dict(position="learned"),
    dict(position="rope", n_kv_heads=2, activation="swiglu", norm="rmsnorm"),
    dict(position="sinusoidal", norm_position="post", n_kv_heads=1),
    dict(position="none", tie_embeddings=False, head_bias=True),
]


def empty_cache(model, batch_size=1, max_len=32):
    return KVCache(model.config, batch_size, max_len)


def without_cache(model, prompt, n, choose):
    """Continue one prompt by running everything again for each token; return tokens and logits."""
    tokens, seen = list(prompt), []
    for _ in range(n):
        seen.append(model(torch.tensor([tokens]))[0, -1])
        tokens.append(choose(seen[-1]))
    return tokens[len(prompt) :], torch.stack(seen)


# --- the cache


@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("chunks", [(7, 9), (1, 15), (5, 5, 6), (15, 1), (1,) * 16])
def test_any_chunking_gives_the_logits_of_one_pass(shape, chunks):
    """Catches: a second chunk of several tokens with a top-left mask; positions that start again
    at zero; new keys written over old ones.
    """
    model, tokens = tiny_lm(**shape), ids(2, 16)
    cache = empty_cache(model, batch_size=2)
    parts = [model(part, cache=cache) for part in tokens.split(chunks, dim=1)]
    torch.testing.assert_close(torch.cat(parts, dim=1), model(tokens), **TOLERANCE)
    assert cache.length == 16


@few
@given(cuts=st.lists(st.integers(1, 11), max_size=5, unique=True), shape=st.sampled_from(SHAPES))
def test_any_chunking_gives_the_logits_of_one_pass_with_padding(cuts, shape):
    """A left-padded row beside a full one. Catches: a mask that covers only the new tokens."""
    model, tokens = tiny_lm(**shape), ids(2, 12)
    real = torch.ones(2, 12, dtype=torch.bool)
    real[0, :4] = False
    cache, parts = empty_cache(model, batch_size=2), []
    edges = [0, *sorted(cuts), 12]
    for start, end in pairwise(edges):
        parts.append(model(tokens[:, start:end], padding_mask=real[:, :end], cache=cache))
    got = torch.cat(parts, dim=1)
    torch.testing.assert_close(got[real], model(tokens, padding_mask=real)[real], **TOLERANCE)


@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_greedy_tokens_and_logits_are_those_without_a_cache(shape):
    """20 steps; logits at every step. Catches: a cache that drifts after the first tokens."""
    model, prompt = tiny_lm(**shape), ids(5).tolist()
    want, logits = without_cache(model, prompt, 20, lambda z: int(z.argmax()))
    assert generate(model, [prompt], 20, temperature=0.0) == [want]
    cache = empty_cache(model)
    steps = [model(torch.tensor([prompt]), cache=cache)[0, -1]]
    for token in want[:-1]:
        steps.append(model(torch.tensor([[token]]), cache=cache)[0, -1])
    torch.testing.assert_close(torch.stack(steps), logits, **TOLERANCE)


def test_sampling_with_a_seed_gives_the_tokens_of_sampling_without_a_cache():
    """Catches: a draw from other probabilities than the last column's."""
    model, prompt = tiny_lm(position="rope"), ids(5).tolist()
    generator = torch.Generator().manual_seed(7)

    def choose(logits):
        p = next_token_probabilities(logits[None], temperature=0.8, top_k=20, top_p=0.9)
        return int(torch.multinomial(p, 1, generator=generator))

    want, _ = without_cache(model, prompt, 20, choose)
    got = generate(model, [prompt], 20, temperature=0.8, top_k=20, top_p=0.9, seed=7)
    assert got == [want]


def test_the_cache_is_as_large_as_the_key_heads_ask():
    """8 query heads on 2 key heads: 2·L·B·2·T·Dh numbers, in the model's dtype.

    Catches: a cache for all query heads; a head width taken from d_model / n_heads.
    """
    config = tiny(n_heads=8, n_kv_heads=2, head_dim=16)
    for dtype in (torch.float32, torch.bfloat16):
        cache = KVCache(config, batch_size=3, max_len=20, dtype=dtype)
        tensors = [value for value in vars(cache).values() if isinstance(value, torch.Tensor)]
        n_bytes = sum(t.numel() * t.element_size() for t in tensors)
        assert n_bytes == 2 * 2 * 3 * 2 * 20 * 16 * dtype.itemsize
        keys, _ = cache.layer(0).append(*[torch.zeros(3, 2, 4, 16, dtype=dtype)] * 2)
        assert keys.shape == (3, 2, 4, 16)


def test_a_full_cache_is_refused_with_both_lengths():
    """Catches: a write beyond the end that is dropped in silence."""
    model = tiny_lm()
    cache = empty_cache(model, max_len=6)
    model(ids(1, 4), cache=cache)
    with pytest.raises(ValueError) as caught:
        model(ids(1, 3), cache=cache)
    one_line(caught.value, "6", "7", "max_len")


def test_a_bfloat16_model_generates():
    """Catches: a float32 cache beside bfloat16 keys."""
    model = tiny_lm(position="rope").to(torch.bfloat16)
    assert len(generate(model, [[1, 2, 3]], 5, temperature=0.0)[0]) == 5


# --- batches


@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_prompts_of_different_length_are_continued_as_if_alone(shape):
    """Lengths 3, 7 and 1, greedy, 10 tokens.

    Catches: learned positions shifted by the padding; the next token taken from a padded column;
    padding that is attended to.
    """
    model = tiny_lm(**shape)
    prompts = [ids(3).tolist(), ids(7, seed=1).tolist(), [5]]
    together = generate(model, prompts, 10, temperature=0.0)
    alone = [generate(model, [prompt], 10, temperature=0.0)[0] for prompt in prompts]
    assert together == alone
    assert generate(model, prompts[::-1], 10, temperature=0.0) == alone[::-1]


def test_nothing_of_an_earlier_call_survives():
    """A batch of 3 after a batch of 1 comes out as from a fresh model.

    Catches: a cache that is kept in the model; a seed that counts on.
    """
    used, fresh = tiny_lm(), tiny_lm()
    prompts = [ids(4, seed=s).tolist() for s in range(3)]
    generate(used, [ids(9).tolist()], 15, temperature=0.0)
    generate(used, [ids(9).tolist()], 15, seed=1)
    for choice in (dict(temperature=0.0), dict(seed=3)):
        assert generate(used, prompts, 10, **choice) == generate(fresh, prompts, 10, **choice)


def test_a_row_ends_after_its_stop_token_and_the_others_go_on():
    """The stop token is kept. Catches: one row's end that ends all; tokens after the stop."""
    model = tiny_lm()
    prompts = [ids(4, seed=s).tolist() for s in range(3)]
    free = generate(model, prompts, 12, temperature=0.0)
    stop = free[0][3]
    want = [row[: row.index(stop) + 1] if stop in row else row for row in free]
    assert generate(model, prompts, 12, temperature=0.0, stop_tokens=[stop]) == want
    assert len(want[0]) <= 4


@pytest.mark.nohook
def test_stop_tokens_may_come_in_an_array_but_not_alone():
    """Catches: a tensor whose elements equal no number, so that no row ever stops."""
    model, prompt = tiny_lm(), ids(4).tolist()
    free = generate(model, [prompt], 12, temperature=0.0)[0]
    want = free[: free.index(free[3]) + 1]
    for stop in ([free[3]], torch.tensor([free[3]]), np.array([free[3]])):
        assert generate(model, [prompt], 12, temperature=0.0, stop_tokens=stop) == [want]
    for stop in (2, [1.5], "ab"):
        with pytest.raises(TypeError) as caught:
            generate(model, [prompt], 12, stop_tokens=stop)
        one_line(caught.value, f"stop_tokens={stop!r}", "[2]")


def test_the_number_of_new_tokens_is_exact():
    """None, one, and as many as fit. Catches: one too many where the window is full."""
    model, prompt = tiny_lm(), ids(4).tolist()
    for n in (0, 1, 28):
        assert [len(row) for row in generate(model, [prompt], n, temperature=0.0)] == [n]


@pytest.mark.parametrize("position", ["learned", "sinusoidal", "rope", "none"])
def test_beyond_max_len_generation_is_refused_and_says_how_many_fit(position):
    """Catches: a window that slides over cached keys, which belong to other positions."""
    with pytest.raises(ValueError) as caught:
        generate(tiny_lm(position=position), [[1, 2], [1, 2, 3, 4]], 29)
    one_line(caught.value, "max_len=32", "max_new_tokens=29", "at most 28")


def test_the_same_seed_gives_the_same_text_and_the_global_generator_is_left_alone():
    """Catches: draws from torch's global generator, which training also uses."""
    model, prompts = tiny_lm(), [[1, 2, 3]] * 4
    torch.manual_seed(0)
    before = torch.get_rng_state()
    first = generate(model, prompts, 10, seed=5)
    assert torch.equal(torch.get_rng_state(), before)
    assert generate(model, prompts, 10, seed=5) == first
    assert generate(model, prompts, 10, seed=6) != first
    assert generate(model, prompts, 10) != generate(model, prompts, 10)
    assert len({tuple(row) for row in first}) > 1  # rows of one batch are drawn apart


@pytest.mark.parametrize("training", [True, False])
def test_generation_uses_no_dropout_and_gives_the_mode_back(training):
    """Catches: dropout while generating; a model left in evaluation in the middle of a run."""
    model = tiny_lm(dropout=0.5).train(training)
    plain = tiny_lm()
    got = generate(model, [[1, 2, 3]], 10, temperature=0.0)
    assert got == generate(plain, [[1, 2, 3]], 10, temperature=0.0)
    assert model.training is training
    with pytest.raises(ValueError):
        generate(model, [[1, 2, 3]], 10, temperature=-1.0)
    assert model.training is training


# --- the distribution that a token is drawn from


def kept(probabilities):
    return [i for i, p in enumerate(probabilities.flatten().tolist()) if p > 0]


def test_top_k_leaves_the_others_no_probability_at_all():
    """Negative logits, as a model gives them.

    Catches: a tiny positive number for −∞, which beats every negative logit.
    """
    logits = torch.tensor([[-5.0, -1.0, -3.0, -2.0]])
    got = next_token_probabilities(logits, top_k=2)
    want = torch.tensor([[0.0, 1 / (1 + math.exp(-1)), 0.0, 1 / (1 + math.exp(1))]])
    torch.testing.assert_close(got, want, atol=1e-6, rtol=0)
    assert got[0, 0] == 0 and got[0, 2] == 0


@pytest.mark.parametrize("top_k", [4, 5, 1000])
def test_top_k_of_the_whole_vocabulary_or_more_changes_nothing(top_k):
    """Catches: an index error from a k beyond the vocabulary."""
    logits = normal(2, 4)
    assert torch.equal(next_token_probabilities(logits, top_k=top_k), logits.softmax(dim=-1))


@pytest.mark.parametrize("top_k", [1, 2, 3])
def test_of_equal_logits_exactly_k_are_kept(top_k):
    """Catches: a threshold that lets all ties through."""
    assert len(kept(next_token_probabilities(torch.zeros(1, 5), top_k=top_k))) == top_k


@pytest.mark.parametrize(
    ("probabilities", "top_k", "top_p", "want"),
    [
        ([0.4, 0.3, 0.3], 1, 0.8, [0]),
        ([0.4, 0.3, 0.3], None, 1e-4, [0]),
        ([0.4, 0.3, 0.3], None, 1e-50, [0]),
        ([0.3, 0.4, 0.3], 3, 0.39, [1]),
        ([0.5, 0.3, 0.15, 0.05], None, 0.79, [0, 1]),
        ([0.5, 0.3, 0.15, 0.05], None, 0.81, [0, 1, 2]),
        ([0.5, 0.3, 0.15, 0.05], None, 1.0, [0, 1, 2, 3]),
        # Renormalized after top_k: 0.5 and 0.3 are 0.625 and 0.375 of what is left.
        ([0.5, 0.3, 0.15, 0.05], 2, 0.6, [0]),
        ([0.05, 0.15, 0.3, 0.5], 2, 0.63, [2, 3]),
    ],
)
def test_top_p_keeps_the_smallest_set_that_reaches_p_and_at_least_one(
    probabilities, top_k, top_p, want
):
    """Catches: a set that stops short of p; everything removed; p read before renormalizing."""
    logits = torch.tensor([probabilities]).log()
    got = next_token_probabilities(logits, top_k=top_k, top_p=top_p)
    assert kept(got) == want
    torch.testing.assert_close(got.sum(), torch.tensor(1.0))
    ratio = got[0, want] / torch.tensor(probabilities)[want]
    torch.testing.assert_close(ratio, ratio[:1].expand_as(ratio))


@few
@given(
    seed=st.integers(0, 999),
    scale=st.sampled_from([0.1, 3.0, 300.0]),
    temperature=st.sampled_from([1e-300, 1e-40, 1e-3, 0.5, 1.0, 50.0]),
    top_k=st.sampled_from([None, 1, 3, 50, 99]),
    top_p=st.sampled_from([None, 1e-4, 0.5, 0.999, 1.0]),
)
def test_every_distribution_is_one_and_keeps_the_likeliest(seed, scale, temperature, top_k, top_p):
    """Catches: NaN from 0/0 or ∞ − ∞ at tiny temperatures; a set that comes out empty."""
    logits = scale * normal(3, 50, seed=seed)
    got = next_token_probabilities(logits, temperature, top_k, top_p)
    torch.testing.assert_close(got.sum(dim=-1), torch.ones(3), atol=1e-5, rtol=0)
    assert bool((got >= 0).all())
    assert torch.equal(got.argmax(dim=-1), logits.argmax(dim=-1))
    if top_k is not None:
        assert int((got > 0).sum(dim=-1).max()) <= top_k


def test_temperature_divides_the_logits_and_zero_takes_the_likeliest():
    """Catches: a temperature that multiplies; one that comes after the softmax."""
    logits = normal(2, 9)
    got = next_token_probabilities(logits, temperature=0.5)
    torch.testing.assert_close(got, (2 * logits).softmax(dim=-1))
    greedy = next_token_probabilities(logits, temperature=0.0)
    assert torch.equal(greedy.argmax(-1), logits.argmax(-1)) and greedy.sum() == 2


def test_half_precision_logits_are_raised_to_float32():
    """Catches: a cumulative sum in bfloat16, which stands still at 256 small steps."""
    logits = torch.zeros(1, 1000, dtype=torch.bfloat16)
    got = next_token_probabilities(logits, top_p=0.5)
    assert got.dtype == torch.float32 and abs(len(kept(got)) - 500) <= 1


# --- what is refused


@pytest.mark.parametrize("temperature", [0.0, 1.0])
@pytest.mark.parametrize(
    ("fields", "named"),
    [
        (dict(top_k=0), "top_k=0"),
        (dict(top_k=-3), "top_k=-3"),
        (dict(top_p=0.0), "top_p=0.0"),
        (dict(top_p=1.5), "top_p=1.5"),
        (dict(top_p=float("nan")), "top_p=nan"),
    ],
    ids=str,
)
def test_a_cut_that_keeps_nothing_is_refused(temperature, fields, named):
    """Also where greedy choice would ignore it. Catches: a check that only sampling reaches."""
    with pytest.raises(ValueError) as caught:
        generate(tiny_lm(), [[1]], 2, temperature=temperature, **fields)
    one_line(caught.value, named, "use")


@pytest.mark.parametrize("temperature", [-1.0, float("nan"), float("inf")])
def test_an_impossible_temperature_is_refused(temperature):
    """Catches: a NaN that passes a comparison."""
    with pytest.raises(ValueError) as caught:
        generate(tiny_lm(), [[1]], 2, temperature=temperature)
    one_line(caught.value, f"temperature={temperature}", "greedy")


@pytest.mark.parametrize(
    ("prompts", "n", "named"),
    [
        ([], 2, "prompts is empty"),
        ([[1], []], 2, "prompt 1 is empty"),
        ([[1], [2, 50]], 2, "token id 50"),
        ([[-1]], 2, "token id -1"),
        ([[1]], -1, "max_new_tokens=-1"),
    ],
    ids=str,
)
def test_a_prompt_that_cannot_be_continued_is_refused(prompts, n, named):
    """Catches: an empty prompt filled with padding; an error from inside torch."""
    with pytest.raises(ValueError) as caught:
        generate(tiny_lm(), prompts, n)
    one_line(caught.value, named)


@pytest.mark.nohook
def test_a_padded_tensor_of_prompts_is_refused():
    """Catches: padding on the right read as tokens, so that the text goes on after the padding."""
    with pytest.raises(TypeError, match="lists of token ids"):
        generate(tiny_lm(), torch.tensor([[1, 5, 0], [1, 5, 6]]), 2)


# --- rows, streams, sources


@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_each_row_draws_from_its_own_seed(shape):
    """Sampled at 0.8: a row alone, and as one of four of other lengths, writes the same.

    Catches: one generator for all rows, whose draws depend on who else is there.
    """
    model, prompts = tiny_lm(**shape), [ids(n, seed=n).tolist() for n in (3, 7, 5, 1)]
    together = generate(model, prompts, 9, temperature=0.8, seed=[4, 5, 6, 7])
    assert together == generate(model, prompts, 9, temperature=0.8, seed=4)
    for i, prompt in enumerate(prompts):
        assert generate(model, [prompt], 9, temperature=0.8, seed=4 + i) == [together[i]]
    assert len({tuple(row) for row in generate(model, [[1]] * 4, 9, seed=0)}) == 4
    with pytest.raises(ValueError, match="seed: 2 given; give one per prompt, 4"):
        generate(model, prompts, 9, seed=[1, 2])


def test_a_stream_gives_each_token_when_it_is_chosen():
    """Catches: tokens that are held back; a mode that stays changed when the reader leaves."""
    model, prompts = tiny_lm(), [ids(3).tolist(), ids(5, seed=1).tolist()]
    whole = generate(model, prompts, 6, temperature=0.0)
    stop = whole[0][2]
    length = whole[0].index(stop) + 1
    steps = list(stream(model, prompts, 6, temperature=0.0, stop_tokens=[stop]))
    assert [step[0] for step in steps[:length]] == whole[0][:length]
    assert all(step[0] is None for step in steps[length:])
    calls = []
    model.stack.register_forward_hook(lambda *call: calls.append(1))
    model.train()
    first = stream(model, prompts, 6, temperature=0.0)
    assert next(first) == [whole[0][0], whole[1][0]] and len(calls) == 1
    first.close()
    assert model.training


@few
@given(prefill=st.integers(1, 9), shape=st.sampled_from(SHAPES))
def test_prompts_read_in_pieces_are_continued_the_same(prefill, shape):
    """Unequal prompts, so that padding falls into the first pieces.

    Catches: a piece that cannot see the earlier ones; a row whose first piece is all padding.
    """
    model, prompts = tiny_lm(**shape), [ids(n, seed=n).tolist() for n in (2, 8, 5)]
    want = generate(model, prompts, 6, temperature=0.0)
    assert generate(model, prompts, 6, temperature=0.0, prefill=prefill) == want


PAIRS = [{}, dict(norm_position="post", position="sinusoidal"), dict(position="rope", n_kv_heads=2)]


@pytest.mark.parametrize("shape", PAIRS, ids=str)
def test_an_encoder_decoder_writes_what_it_would_without_a_cache(shape):
    """Unequal sources and prompts, row by row against whole passes.

    Catches: a source whose padding is read; keys of the source taken from another row or block.
    """
    model = loud(EncoderDecoder(tiny(**shape, n_decoder_layers=3))).eval()
    sources = [ids(n, seed=n).tolist() for n in (4, 9, 1)]
    prompts = [ids(n, seed=10 + n).tolist() for n in (1, 3, 2)]
    got = generate(model, prompts, 8, sources=sources, temperature=0.0)
    for source, prompt, row in zip(sources, prompts, got, strict=True):
        tokens = list(prompt)
        for _ in range(8):
            with torch.no_grad():
                logits = model(torch.tensor([tokens]), torch.tensor([source]))
            tokens.append(int(logits[0, -1].argmax()))
        assert row == tokens[len(prompt) :]


def test_a_source_is_computed_once():
    """Catches: keys and values of the source computed again at every step."""
    model = loud(EncoderDecoder(tiny())).eval()
    calls = {"encoder": 0, "source": 0}
    reader = model.decoder.blocks[0].cross.sublayer
    right = reader.keys_and_values

    def count(source):
        calls["source"] += 1
        return right(source)

    reader.keys_and_values = count
    model.encoder.register_forward_hook(lambda *call: calls.update(encoder=calls["encoder"] + 1))
    generate(model, [[1], [1]], 8, sources=[[3, 4, 5], [6, 7]], temperature=0.0)
    assert calls == {"encoder": 1, "source": 1}


def test_sources_that_do_not_fit_are_refused():
    """Catches: a source that is ignored; one that is missing."""
    pair, alone = loud(EncoderDecoder(tiny())), tiny_lm()
    for model, sources, named in (
        (alone, [[1]], "sources are for an EncoderDecoder"),
        (pair, None, "sources: none given; give one per prompt, 1"),
        (pair, [[1], [2]], "sources: 2 given; give one per prompt, 1"),
        (pair, [[]], "source 0 is empty"),
        (pair, [[50]], "source 0 has token id 50"),
    ):
        with pytest.raises(ValueError) as caught:
            generate(model, [[1]], 3, sources=sources)
        one_line(caught.value, named)


def test_a_frozen_part_stays_frozen():
    """Catches: one mode for all modules, given back to all."""
    model = tiny_lm(dropout=0.5).train()
    model.stack.blocks[0].eval()
    modes = [module.training for module in model.modules()]
    generate(model, [[1]], 3)
    assert [module.training for module in model.modules()] == modes


def test_a_cache_for_other_rows_is_refused():
    """Catches: one row of tokens, spread over three."""
    model = tiny_lm()
    with pytest.raises(ValueError) as caught:
        model(ids(1, 4), cache=KVCache(model.config, 3, 8))
    one_line(caught.value, "3 rows")


def test_a_mask_that_is_forgotten_is_missed():
    """Catches: padding that later tokens read as if it had been written."""
    model, tokens = tiny_lm(), ids(2, 6)
    real = torch.ones(2, 8, dtype=torch.bool)
    real[0, :2] = False
    cache = empty_cache(model, batch_size=2)
    model(tokens, real[:, :6], cache)
    with pytest.raises(ValueError) as caught:
        model(tokens[:, :1], cache=cache)
    one_line(caught.value, "padding_mask=None", "cache")
    assert model(tokens[:, :1], real[:, :7], cache).isfinite().all()
    assert cache.length == 7


@pytest.mark.nohook
@pytest.mark.parametrize("prompts", [[[1.5]], ["12"], "12", [{1, 2}]], ids=str)
def test_what_is_no_list_of_whole_numbers_is_refused(prompts):
    """Catches: 1.5 read as 1; characters read as numbers."""
    with pytest.raises(TypeError) as caught:
        generate(tiny_lm(), prompts, 3)
    one_line(caught.value, "prompt")


# --- one program for all steps


@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_a_static_cache_gives_the_logits_of_one_pass(shape):
    """A left-padded row beside a full one, read in part, then token by token without a new shape.

    Catches: empty places that are attended to; keys stored in another place than their position's;
    a position that counts empty places.
    """
    model, tokens = tiny_lm(**shape), ids(2, 12)
    real = torch.ones(2, 20, dtype=torch.bool)
    real[0, :4] = False
    cache = empty_cache(model, batch_size=2, max_len=20)
    parts = [model(tokens[:, :7], real[:, :7], cache)]
    cache = StaticKVCache(cache)
    for i in range(7, 12):
        written = real & (torch.arange(20) <= i)
        parts.append(model(tokens[:, i : i + 1], written, cache))
    expected = model(tokens, real[:, :12])
    seen = real[:, :12]
    torch.testing.assert_close(torch.cat(parts, dim=1)[seen], expected[seen], **TOLERANCE)


@pytest.mark.nohook
@pytest.mark.slow
@pytest.mark.parametrize("shape", [*SHAPES, "encoder–decoder"], ids=str)
def test_a_compiled_step_is_one_program_and_writes_the_same_text(shape, monkeypatch):
    """Catches: a program for each length, since a shape or a number in it grows; another text."""
    torch.compiler.reset()
    programs, compile = [], torch.compile

    def count(graph, inputs):
        programs.append(graph)
        return graph.forward

    monkeypatch.setattr(torch, "compile", lambda f: compile(f, backend=count, fullgraph=True))
    prompts, sources = [ids(3).tolist(), ids(5, seed=1).tolist()], None
    if shape == "encoder–decoder":
        model, sources = (
            loud(EncoderDecoder(tiny())).eval(),
            [ids(4).tolist(), ids(6, seed=2).tolist()],
        )
    else:
        model = tiny_lm(**shape)
    for n, choice in ((12, dict(temperature=0.0)), (12, dict(temperature=0.8, seed=3))):
        expected = generate(model, prompts, n, **choice, sources=sources)
        assert generate(model, prompts, n, **choice, sources=sources, compile=True) == expected
    assert len(programs) == 1


@pytest.mark.nohook
@pytest.mark.slow
def test_the_real_compiler_takes_the_step():
    """Catches: an operation of the static cache that only the stand-in compiler accepts."""
    torch.compiler.reset()
    model, prompts = tiny_lm(**SHAPES[1]), [ids(3).tolist(), ids(5, seed=1).tolist()]
    expected = generate(model, prompts, 6, temperature=0.0)
    assert generate(model, prompts, 6, temperature=0.0, compile=True) == expected


@pytest.mark.nohook
@pytest.mark.slow
def test_many_models_can_be_compiled_in_one_process(monkeypatch):
    """Catches: an error where the compiler reaches its limit of programs."""
    torch.compiler.reset()
    compile = torch.compile
    monkeypatch.setattr(torch, "compile", lambda f, **how: compile(f, backend="eager", **how))
    for d_model in range(8, 8 * 13, 8):
        model = tiny_lm(d_model=d_model, n_heads=2, n_layers=1)
        expected = generate(model, [[1, 2]], 4, temperature=0.0)
        assert generate(model, [[1, 2]], 4, temperature=0.0, compile=True) == expected
