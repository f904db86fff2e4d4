"""Costs: each formula beside what is counted on a live model, and the figures that people quote.

Faults that were put in, one at a time, and turned a test red, are named in its docstring.
"""

import os
import re
import subprocess
import sys
from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from helpers import few, ids, one_line, tiny
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils.flop_counter import FlopCounterMode

from tfcourse.architectures import DecoderLM
from tfcourse.config import ModelConfig, TrainConfig
from tfcourse.costs import (
    crossovers,
    flops_per_token,
    kv_cache_bytes,
    parameters,
    rule_of_thumb,
    shares,
    training_memory,
)
from tfcourse.generation import KVCache
from tfcourse.optimizers import make_optimizers
from tfcourse.presets import PRESETS

GPT2 = ModelConfig(**PRESETS["gpt2"]["model"])
LLAMA = ModelConfig(**PRESETS["llama3-8b"]["model"])
BASE_2017 = ModelConfig(vocab_size=37_000, d_model=512, n_heads=8, d_ff=2048, n_layers=6)
MANY = settings(few, max_examples=60)


@st.composite
def configs(draw):
    """Draw a small config of any shape that a decoder or a plain encoder stack can have."""
    n_heads = draw(st.sampled_from([1, 4]))
    flags = ("bias", "qkv_bias", "head_bias", "tie_embeddings", "embedding_scale", "causal")
    flags += ("embedding_norm", "residual", "attention", "mlp")
    return ModelConfig(
        vocab_size=draw(st.sampled_from([7, 50])),
        d_model=draw(st.sampled_from([8, 24])),
        n_heads=n_heads,
        n_kv_heads=draw(st.sampled_from([k for k in (1, 2, 4) if n_heads % k == 0])),
        head_dim=draw(st.sampled_from([4, 6])),  # of 2, RoPE's halves fall to a slower attention
        d_ff=draw(st.sampled_from([5, 32])),
        n_layers=draw(st.integers(0, 2)),
        n_token_types=draw(st.sampled_from([0, 2])),
        max_len=12,
        norm=draw(st.sampled_from(["layernorm", "rmsnorm"])),
        norm_position=draw(st.sampled_from(["pre", "post"])),
        activation=draw(st.sampled_from(["relu", "gelu", "gelu_tanh", "silu", "swiglu"])),
        position=draw(st.sampled_from(["learned", "sinusoidal", "rope", "none"])),
        **{flag: draw(st.booleans()) for flag in flags},
    )


def part_of(name):
    """Name the part of the table that a parameter belongs to."""
    called = {"norm": "norms", "feed_forward": "feed-forward", "token_types": "embedding"}
    for word in ("norm", "positions", "attention", "feed_forward", "embedding", "token_types"):
        if word in name:
            return called.get(word, word)
    return "head"


# --- parameters


@MANY
@given(config=configs())
def test_every_part_has_as_many_parameters_as_the_live_model(config):
    """Catches: a bias, the final norm or SwiGLU's third matrix left out; a tied head counted."""
    model = DecoderLM(config)
    live = Counter({part: 0 for part in parameters(config)})
    for name, parameter in model.named_parameters():
        live[part_of(name)] += parameter.numel()
    assert parameters(config) == live
    assert sum(parameters(config).values()) == model.n_params()


def test_published_models_have_their_published_sizes():
    """Catches: a preset with a wrong shape; key heads counted like query heads."""
    assert sum(parameters(GPT2).values()) == 124_439_808
    llama = parameters(LLAMA)
    total = sum(llama.values())
    assert total == 8_030_261_248
    assert llama["embedding"] == llama["head"] == 525_336_576
    assert round(llama["embedding"] / total, 3) == 0.065
    assert round(2 * llama["embedding"] / total, 2) == 0.13


@pytest.mark.parametrize(
    ("fields", "parts"),
    [
        (dict(cross_attention=True), ("cross_attention", "False")),
        (dict(vocab_size=0, patch_size=2, image_height=4, image_width=4), ("vocab_size=0", "say")),
    ],
)
def test_a_model_that_is_not_counted_is_refused_by_name(fields, parts):
    """Catches: a source's parameters silently left out."""
    with pytest.raises(ValueError) as error:
        parameters(tiny(**fields))
    one_line(error.value, *parts)


# --- operations


def live_flops(call):
    """Count the matrix products of a call by module; fused attention would count as 0."""
    counter = FlopCounterMode(display=False)
    with sdpa_kernel(SDPBackend.MATH), counter:
        call()
    return counter


@MANY
@given(config=configs(), length=st.integers(1, 12))
def test_every_part_takes_as_many_operations_as_are_counted(config, length):
    """Catches: 2d² for a projection of shared key heads; half of the scores; two matrices for
    SwiGLU's three; d for the width of all heads.
    """
    model = DecoderLM(config)
    counter = live_flops(lambda: model(ids(2, length, vocab_size=config.vocab_size)))
    live = Counter({part: 0 for part in flops_per_token(config, length)})
    for name, operations in counter.get_flop_counts().items():
        n = sum(operations.values())
        if name.endswith((".qkv", ".out")):
            live["projections"] += n
            live["scores"] -= n
        elif name.endswith("attention.sublayer"):
            live["scores"] += n
        elif name.endswith("feed_forward.sublayer"):
            live["feed-forward"] += n
        elif name.endswith(".head"):
            live["head"] += n
    computed = {part: 2 * length * n for part, n in flops_per_token(config, length).items()}
    assert computed == live
    assert sum(computed.values()) == counter.get_total_flops()


@few
@given(config=configs())
def test_forward_and_backward_take_three_times_the_forward_pass(config):
    """Catches: a backward pass of once or three times the forward pass; a loss that multiplies
    its logits again.

    Without a head's bias: the chunked loss sums its gradient by a matrix product.
    """
    config = replace(config, head_bias=False)
    model, tokens = DecoderLM(config), ids(2, 12, vocab_size=config.vocab_size)
    counter = live_flops(lambda: model.loss(tokens, tokens).backward())
    assert counter.get_total_flops() == 3 * 24 * sum(flops_per_token(config, 12).values())


@pytest.mark.slow
@few
@given(config=configs())
def test_the_causal_mean_is_what_decoding_with_a_cache_takes(config):
    """A cached step multiplies with no later key. Catches: n/2 keys in place of (n + 1)/2."""
    config = replace(config, causal=True)
    model, tokens = DecoderLM(config), ids(1, 12, vocab_size=config.vocab_size)
    cache = KVCache(config, 1, 12)
    total = 0
    for i in range(12):
        counter = live_flops(lambda i=i: model(tokens[:, i : i + 1], cache=cache))
        assert counter.get_total_flops() == sum(flops_per_token(config, i + 1).values())
        total += counter.get_total_flops()
    assert total == 12 * sum(flops_per_token(config, 12, causal_mean=True).values())


# --- shares and crossovers


@pytest.mark.parametrize("config", [LLAMA, GPT2, BASE_2017, replace(LLAMA, n_kv_heads=32)])
@pytest.mark.parametrize("causal_mean", [False, True])
def test_at_the_crossovers_both_sides_do_equal_work(config, causal_mean):
    """Catches: projections on the wrong side; a crossover by the rule for a model that is not its.

    A causal mask halves the scores, so that both come at twice the length, less one.
    """

    def flops(part):
        n = crossovers(config)[part]
        assert n == int(n)
        return flops_per_token(config, 2 * int(n) - 1 if causal_mean else int(n), causal_mean)

    at = flops("scores")
    assert at["scores"] == at["feed-forward"]
    at = flops("attention")
    assert at["projections"] + at["scores"] == at["feed-forward"]


def test_the_crossovers_are_4d_and_2d_by_the_rule_and_others_for_llama():
    """Catches: a rule that takes over the config's d_ff; n = 4d given for the whole sublayer."""
    assert crossovers(rule_of_thumb(LLAMA)) == {"scores": 4 * 4096, "attention": 2 * 4096}
    assert crossovers(LLAMA) == {"scores": 21_504, "attention": 16_384}
    assert crossovers(replace(LLAMA, attention=False)) == {}
    narrow = replace(GPT2, d_ff=768)
    assert crossovers(narrow)["attention"] < 0, "the projections alone do more"


@pytest.mark.parametrize("n", [512, 8192])
@pytest.mark.parametrize("config", [LLAMA, BASE_2017])
def test_the_rule_of_thumb_is_24_d_squared_and_4_n_d_for_each_block(config, n):
    """Catches: a rule with the config's own heads, matrices or widths."""
    flops = flops_per_token(rule_of_thumb(config), n)
    d = config.d_model
    blocks = sum(flops.values()) - flops["head"]
    assert blocks == config.n_layers * (24 * d * d + 4 * n * d)


def test_what_people_quote_about_shares_holds_where_it_says_and_nowhere_else():
    """Catches: shares of everything with the head; of the sublayer where the scores are meant.

    The 2017 base at 512 and 32k tokens: 14 % and 91 % is the scores' share. Llama 3 8B at 8k: a
    quarter by the rule, a little less in truth. That the feed-forward layer still does "over 80 %"
    at 32k is wrong: 36 %, or half where the mask is made use of. It is a figure of short texts.
    """

    def percent(config, n, causal_mean=False):
        return {
            part: round(100 * share)
            for part, share in shares(flops_per_token(config, n, causal_mean)).items()
        }

    base = [percent(BASE_2017, n) for n in (512, 32_768)]
    assert [share["scores"] for share in base] == [14, 91]
    assert [share["attention"] for share in base] == [43, 94]
    assert shares(flops_per_token(rule_of_thumb(LLAMA), 8192))["scores"] == 0.25
    assert round(shares(flops_per_token(LLAMA, 8192))["scores"], 3) == 0.235
    assert percent(LLAMA, 32_768)["feed-forward"] == 36
    assert percent(LLAMA, 32_768, causal_mean=True)["feed-forward"] == 50
    assert percent(LLAMA, 1)["feed-forward"] == 81
    by_rule = [percent(rule_of_thumb(tiny(d_model=d)), 32_768) for d in (512, 4096, 16_384)]
    assert [share["feed-forward"] for share in by_rule] == [6, 29, 50]
    ceiling = shares(flops_per_token(rule_of_thumb(LLAMA), 0))["feed-forward"]
    assert ceiling == pytest.approx(2 / 3)


# --- memory


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("fields", [{}, dict(n_kv_heads=2), dict(head_dim=6), dict(n_layers=3)])
def test_a_cache_takes_the_bytes_of_its_tensors(fields, dtype):
    """Catches: keys without values; query heads in place of key heads; 4 bytes for a bfloat16."""
    config = tiny(**fields)
    cache = KVCache(config, 3, 10, dtype=dtype)
    precision = "fp32" if dtype == torch.float32 else "bf16"
    assert kv_cache_bytes(config, 30, precision) == cache.keys.nbytes + cache.values.nbytes


def test_twelve_layers_of_the_2017_base_cache_48_kib_a_token():
    """Catches: bytes that grow with the context beside the tokens."""
    config = replace(BASE_2017, n_layers=12)
    assert kv_cache_bytes(config, 1) == 48 * 2**10
    assert kv_cache_bytes(config, 4096) == 192 * 2**20


def kept_for_backward(config, batch_size, length, precision):
    """Sum the bytes of what autograd keeps of a forward pass: each storage once, no parameter."""
    model, kept = DecoderLM(config), {}
    parameters = {p.untyped_storage().data_ptr() for p in model.parameters()}
    held = []  # a storage that is freed could come back under the same address

    def note(tensor):
        storage = tensor.untyped_storage()
        if storage.data_ptr() not in parameters:
            held.append(tensor)
            kept[storage.data_ptr()] = storage.nbytes()
        return tensor

    tokens = ids(batch_size, length, vocab_size=config.vocab_size)
    bf16 = torch.autocast("cpu", torch.bfloat16, enabled=precision == "bf16")
    with torch.autograd.graph.saved_tensors_hooks(note, lambda tensor: tensor), bf16:
        model.loss(tokens, tokens)
    return sum(kept.values())


@MANY
@given(
    config=configs(),
    batch_size=st.sampled_from([1, 3]),
    length=st.sampled_from([1, 2, 12]),
    precision=st.sampled_from(["fp32", "bf16"]),
)
def test_activations_are_what_autograd_keeps_to_the_byte(config, batch_size, length, precision):
    """Catches: ReLU's input counted beside its output; a norm's statistics, the turned queries,
    the weights' copies in bfloat16 or the final norm left out.
    """
    computed = training_memory(config, batch_size, length, precision, "cpu")["activations"]
    assert computed == kept_for_backward(config, batch_size, length, precision)


def test_on_a_gpu_rmsnorm_keeps_one_vector_less():
    """Catches: the device ignored; a LayerNorm that differs, too."""
    for norm, saved in (("rmsnorm", 5 * 4 * 32), ("layernorm", 0)):
        config = tiny(norm=norm)
        cpu, gpu = (training_memory(config, 2, 8, device=device) for device in ("cpu", "cuda"))
        assert cpu["activations"] - gpu["activations"] == 16 * saved


@pytest.mark.parametrize("fields", [{}, dict(tie_embeddings=False, norm="rmsnorm")])
def test_weights_gradients_and_moments_are_those_of_a_live_step(fields):
    """Catches: one moment; a tied matrix with two gradients."""
    config = tiny(**fields)
    model = DecoderLM(config)
    (optimizer,) = make_optimizers(model, TrainConfig())
    tokens = ids(2, 8)
    model.loss(tokens, tokens).backward()
    optimizer.step()
    memory = training_memory(config, 2, 8)
    assert memory["weights"] == sum(p.nbytes for p in model.parameters())
    assert memory["gradients"] == sum(p.grad.nbytes for p in model.parameters())
    states = [s[m] for s in optimizer.state.values() for m in ("exp_avg", "exp_avg_sq")]
    assert memory["AdamW moments"] == sum(state.nbytes for state in states)


def test_dropout_is_refused_for_memory_alone():
    """Catches: a memory without the masks, given as if it were whole."""
    config = tiny(dropout=0.1)
    assert parameters(config) == parameters(tiny())
    with pytest.raises(ValueError) as error:
        training_memory(config, 1, 8)
    one_line(error.value, "dropout=0.1", "use 0")


SHAPES = {
    "most for activations": (dict(vocab_size=500, d_model=256, n_layers=4), 8, 256),
    "most for the loss": (dict(vocab_size=20_000, d_model=128, n_layers=2), 8, 256),
    "most for the weights": (dict(vocab_size=4000, d_model=512, n_layers=3), 1, 16),
    "as much for gradients as for the rest": (
        dict(vocab_size=4000, d_model=512, n_layers=3),
        4,
        96,
    ),
}


@pytest.mark.nohook
@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="reads the peak from /proc")
@pytest.mark.parametrize("shape", SHAPES)
def test_a_training_step_grows_the_process_by_the_computed_peak(shape):
    """Within 15 %; in five runs of each shape it was within 3 %, and the growth varied by 0.5 %.

    The C library is told to give all large blocks back at once: else what it keeps for later adds
    some 10 %. Catches: a loss that holds twice as many logits at a time; the activations or one of
    AdamW's moments left out; all parts summed, as if they were held together.
    """
    environment = {**os.environ, "MALLOC_MMAP_THRESHOLD_": "65536", "OMP_NUM_THREADS": "1"}
    command = [sys.executable, __file__, shape]
    result = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stderr
    grown = int(result.stdout)
    fields, batch_size, length = SHAPES[shape]
    config = ModelConfig(**fields)
    assert training_memory(config, batch_size, length, "fp32", "cpu")["peak"] == pytest.approx(
        grown, rel=0.15
    )


def growth(fields, batch_size, length):
    """Return by how many bytes two training steps raise this process's peak."""

    def train(config, batch_size, length):
        model = DecoderLM(config)
        (optimizer,) = make_optimizers(model, TrainConfig())
        tokens = ids(batch_size, length, vocab_size=config.vocab_size)
        for _ in range(2):
            model.loss(tokens, tokens).backward()
            optimizer.step()
            optimizer.zero_grad()

    def resident(field):
        status = Path("/proc/self/status").read_text()
        return int(re.search(rf"{field}:\s+(\d+) kB", status)[1]) * 1024

    train(tiny(), 2, 8)  # what is loaded at first use is not the step's
    Path("/proc/self/clear_refs").write_text("5")  # the peak starts anew
    before = resident("VmRSS")
    train(ModelConfig(**fields), batch_size, length)
    return resident("VmHWM") - before


if __name__ == "__main__":
    print(growth(*SHAPES[sys.argv[1]]))
