"""`ModelConfig` derives what is left out and refuses what no model can be."""

import dataclasses

import pytest
from helpers import one_line, tiny

from tfcourse.config import ModelConfig, TrainConfig

# The hook would answer for the config: it checks the dataclass's own annotations.
pytestmark = pytest.mark.nohook


def test_fields_left_out_are_derived_from_the_others():
    """Catches: d_ff of SwiGLU left at 4 d_model; qkv_bias that ignores bias."""
    config = ModelConfig(vocab_size=50, d_model=48, n_heads=6)
    assert (config.n_kv_heads, config.head_dim, config.d_ff) == (6, 8, 192)
    assert config.qkv_bias is False
    assert tiny(bias=True).qkv_bias is True
    assert tiny(bias=True, qkv_bias=False).qkv_bias is False
    assert tiny(d_model=48, activation="swiglu").d_ff == 128


def test_given_fields_are_kept_as_they_are():
    """Catches: a default that overwrites a given value."""
    config = tiny(n_kv_heads=2, head_dim=16, d_ff=7)
    assert (config.n_kv_heads, config.head_dim, config.d_ff) == (2, 16, 7)


def test_every_attribute_that_code_reads_is_set():
    """Catches: a derived field forgotten in `_derive`."""
    assert None not in dataclasses.asdict(tiny()).values()


def test_a_config_survives_its_dictionary_and_cannot_be_changed():
    """Catches: a field that is derived anew from a dictionary; a dataclass that is not frozen."""
    config = tiny(n_kv_heads=2, activation="swiglu", position="rope")
    assert ModelConfig(**dataclasses.asdict(config)) == config
    with pytest.raises(dataclasses.FrozenInstanceError):
        config.d_model = 64


def test_whole_numbers_are_taken_where_a_fraction_is_meant():
    """Catches: dropout=0 or rope_theta=500000 (as JSON writes them) refused for their type."""
    config = tiny(dropout=0, rope_theta=500_000, residual_decay=1)
    assert isinstance(config.dropout, float) and config.rope_theta == 500_000.0


WRONG_VALUES = [
    # fields, what the message must name: the field with its value, and the way out
    (dict(vocab_size=0), "vocab_size=0", "at least 1"),
    (dict(d_model=0), "d_model=0", "at least 1"),
    (dict(n_heads=0), "n_heads=0", "at least 1"),
    (dict(n_heads=-4), "n_heads=-4", "at least 1"),
    (dict(n_heads=5), "n_heads=5 does not divide d_model=32", "head_dim"),
    (dict(n_heads=8, n_kv_heads=3), "n_kv_heads=3 does not divide n_heads=8", "1, 2, 4 or 8"),
    (dict(n_kv_heads=8), "n_kv_heads=8 does not divide n_heads=4", "1, 2 or 4"),
    (dict(n_kv_heads=0), "n_kv_heads=0", "at least 1"),
    (dict(head_dim=0), "head_dim=0", "at least 1"),
    (dict(d_ff=0), "d_ff=0", "at least 1"),
    (dict(max_len=0), "max_len=0", "at least 1"),
    (dict(n_layers=-1), "n_layers=-1", "0 or more"),
    (dict(norm="batchnorm"), "norm='batchnorm'", "'layernorm' or 'rmsnorm'"),
    (dict(norm_position="middle"), "norm_position='middle'", "'pre' or 'post'"),
    (dict(activation="GELU"), "activation='GELU'", "'gelu_tanh'"),
    (dict(position="alibi"), "position='alibi'", "'rope'"),
    (dict(position=None), "position=None", "'learned'"),
    (dict(position="rope", head_dim=7), "head_dim=7", "even"),
    (dict(position="sinusoidal", d_model=33, n_heads=3), "d_model=33", "even"),
    (dict(norm_eps=0.0), "norm_eps=0.0", "positive"),
    (dict(norm_eps=float("nan")), "norm_eps=nan", "positive"),
    (dict(rope_theta=-1.0), "rope_theta=-1.0", "positive"),
    (dict(rope_theta=float("inf")), "rope_theta=inf", "finite"),
    (dict(dropout=1.0), "dropout=1.0", "0 to 0.99"),
    (dict(dropout=-0.1), "dropout=-0.1", "0 to 0.99"),
    (dict(dropout=float("nan")), "dropout=nan", "0 to 0.99"),
    (dict(residual_decay=0.0), "residual_decay=0.0", "residual=False"),
    (dict(residual_decay=1.5), "residual_decay=1.5", "(0, 1]"),
    (dict(residual_decay=float("nan")), "residual_decay=nan", "(0, 1]"),
    (dict(residual=False, residual_decay=0.5), "residual_decay=0.5", "residual=False"),
]


@pytest.mark.parametrize(("fields", "field", "fix"), WRONG_VALUES, ids=lambda v: str(v)[:40])
def test_an_impossible_value_is_refused_with_its_name_and_a_fix(fields, field, fix):
    """Catches: any check of `_check_values` taken out; a NaN that slips through `<`."""
    with pytest.raises(ValueError) as caught:
        tiny(**fields)
    one_line(caught.value, field, fix)


WRONG_TYPES = [
    dict(vocab_size=None),
    dict(vocab_size="50"),
    dict(vocab_size=50.0),
    dict(d_model=32.0),
    dict(d_model="32"),
    dict(n_heads=True),
    dict(n_heads="4"),
    dict(n_kv_heads=2.0),
    dict(head_dim="8"),
    dict(d_ff=128.0),
    dict(n_layers=2.0),
    dict(n_layers=None),
    dict(max_len=True),
    dict(dropout="0.1"),
    dict(norm_eps=None),
    dict(rope_theta=True),
    dict(bias=1),
    dict(qkv_bias="no"),
    dict(tie_embeddings=None),
    dict(causal="yes"),
]


@pytest.mark.parametrize("fields", WRONG_TYPES, ids=str)
def test_a_wrong_type_is_refused_by_the_field_s_name(fields):
    """Catches: True taken for 1 head, "no" for a true flag, 32.0 for a width."""
    (field, value), *_ = fields.items()
    with pytest.raises(TypeError) as caught:
        tiny(**fields)
    one_line(caught.value, f"{field}={value!r}", "must be of type")


WRONG_TRAINING = [
    (dict(steps=0), "steps=0", "at least 1"),
    (dict(batch_size=0), "batch_size=0", "at least 1"),
    (dict(accumulate=0), "accumulate=0", "at least 1"),
    (dict(accumulate=65), "accumulate=65", "at most batch_size"),
    (dict(warmup=-1), "warmup=-1", "at least 0"),
    (dict(steps=5, warmup=6), "warmup=6", "shorten"),
    (dict(lr=0.0), "lr=0.0", "positive"),
    (dict(lr=float("nan")), "lr=nan", "positive"),
    (dict(lr=float("inf")), "lr=inf", "positive"),
    (dict(muon_lr=-1.0), "muon_lr=-1.0", "positive"),
    (dict(min_lr_ratio=1.1), "min_lr_ratio=1.1", "[0, 1]"),
    (dict(min_lr_ratio=float("nan")), "min_lr_ratio=nan", "[0, 1]"),
    (dict(beta1=1.0), "beta1=1.0", "[0, 1)"),
    (dict(beta2=-0.1), "beta2=-0.1", "[0, 1)"),
    (dict(clip=-1.0), "clip=-1.0", "0 or more"),
    (dict(weight_decay=float("nan")), "weight_decay=nan", "0 or more"),
    (dict(eval_every=-1), "eval_every=-1", "0 or more"),
    (dict(save_every=-1), "save_every=-1", "0 or more"),
    (dict(optimizer="sgd"), "optimizer='sgd'", "'adamw' or 'muon'"),
    (dict(precision="fp8"), "precision='fp8'", "'bf16'"),
]


@pytest.mark.parametrize(("fields", "field", "fix"), WRONG_TRAINING, ids=lambda v: str(v)[:40])
def test_an_impossible_run_is_refused_with_its_name_and_a_fix(fields, field, fix):
    """Catches: any check of `TrainConfig` taken out; a NaN that passes a comparison."""
    with pytest.raises(ValueError) as caught:
        TrainConfig(**fields)
    one_line(caught.value, field, fix)


@pytest.mark.parametrize(
    "fields", [dict(steps=10.0), dict(lr="1e-3"), dict(compile=1), dict(seed=None)], ids=str
)
def test_a_run_s_field_of_a_wrong_type_is_refused(fields):
    """Catches: "1e-3" multiplied by a share; 10.0 steps."""
    (field, value), *_ = fields.items()
    with pytest.raises(TypeError) as caught:
        TrainConfig(**fields)
    one_line(caught.value, f"{field}={value!r}")
