"""Positions: the tables are the papers', and half precision does not blur them."""

import math

import pytest
import torch
from helpers import few, loud, normal, tiny, tiny_lm
from hypothesis import given
from hypothesis import strategies as st

from tfcourse.positions import (
    LearnedPositions,
    NoPositions,
    RotaryPositions,
    SinusoidalPositions,
    angle_table,
    make_positions,
)


def rotary(**fields):
    return RotaryPositions(tiny(position="rope", **fields))


def places(*numbers):
    return torch.tensor([numbers])


def complex_rotation(x, positions, theta=10_000.0):
    """Rotate x [B H L k] as complex numbers: feature i is the real, i + k/2 the imaginary part."""
    half = x.shape[-1] // 2
    rates = torch.tensor([theta ** (-2 * i / (2 * half)) for i in range(half)], dtype=torch.float64)
    turns = torch.polar(torch.ones(1, dtype=torch.float64), positions[0, :, None] * rates)
    turned = torch.complex(x[..., :half].double(), x[..., half:].double()) * turns
    return torch.cat([turned.real, turned.imag], dim=-1).float()


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("learned", LearnedPositions),
        ("sinusoidal", SinusoidalPositions),
        ("rope", RotaryPositions),
        ("none", NoPositions),
    ],
)
def test_the_config_chooses_the_kind(name, kind):
    """Catches: a name that falls through to no positions at all."""
    assert type(make_positions(tiny(position=name))) is kind


def test_learned_positions_add_the_row_of_each_position():
    """Catches: rows by column index where padding shifts the positions."""
    module, x = loud(LearnedPositions(tiny())), normal(2, 3, 32)
    positions = torch.tensor([[0, 1, 2], [0, 0, 1]])
    assert torch.equal(module(x, positions), x + module.embedding.weight[positions])


def test_sinusoids_are_those_of_the_paper():
    """Feature 2i is sin(p / 10000^(2i/d)), feature 2i + 1 its cosine.

    Catches: sines and cosines in two halves; the exponent i/d for 2i/d.
    """
    got = SinusoidalPositions()(torch.zeros(1, 3, 32), places(0, 5, 300))
    for row, p in enumerate((0, 5, 300)):
        for i in range(16):
            angle = p / 10_000 ** (2 * i / 32)
            assert got[0, row, 2 * i] == pytest.approx(math.sin(angle), abs=1e-4)
            assert got[0, row, 2 * i + 1] == pytest.approx(math.cos(angle), abs=1e-4)


def test_rotation_turns_feature_pairs_half_a_head_apart():
    """Every position, not only the first, where all conventions agree.

    Catches: interleaved pairs; the opposite sense of rotation.
    """
    x, positions = normal(2, 4, 5, 8), places(0, 1, 2, 17, 31)
    got = rotary().rotation(positions)(x)
    torch.testing.assert_close(got, complex_rotation(x, positions), atol=1e-5, rtol=1e-5)


def test_rope_theta_sets_the_slowest_rate():
    """Catches: 10,000 written into the table (Llama 3 uses 500,000)."""
    x, positions = normal(1, 4, 3, 8), places(3, 10, 30)
    got = rotary(rope_theta=500_000.0).rotation(positions)(x)
    want = complex_rotation(x, positions, theta=500_000.0)
    torch.testing.assert_close(got, want, atol=1e-5, rtol=1e-5)


@few
@given(m=st.integers(0, 200), n=st.integers(0, 200), shift=st.integers(0, 300))
def test_rotated_scores_depend_on_distance_only(m, n, shift):
    """Catches: queries and keys turned in opposite senses; an angle that is not linear in p."""
    q, k = normal(1, 1, 1, 8), normal(1, 1, 1, 8, seed=1)

    def score(a, b):
        return (rotary().rotation(places(a))(q) * rotary().rotation(places(b))(k)).sum()

    torch.testing.assert_close(score(m, n), score(m + shift, n + shift), atol=1e-3, rtol=0)


def test_rotation_keeps_lengths_and_leaves_position_zero_alone():
    """Catches: a sine and a cosine of different angles."""
    x = normal(2, 4, 4, 8)
    y = rotary().rotation(places(0, 3, 100, 4000))(x)
    torch.testing.assert_close(y.norm(dim=-1), x.norm(dim=-1), atol=1e-5, rtol=1e-5)
    assert torch.equal(y[:, :, 0], x[:, :, 0])


NEAR = (256, 257, 258, 259, 260, 261, 4000, 4001)


def test_a_model_cast_to_bfloat16_still_tells_positions_apart():
    """Tables equal the float32 ones rounded once, after a cast to bfloat16 and back.

    In bfloat16 both 256 and 257 are 256. Catches: a registered table or rate that is cast along;
    positions cast before they are multiplied.
    """
    cast = rotary().to(torch.bfloat16)
    x = torch.ones(1, 1, len(NEAR), 8)
    want = rotary().rotation(places(*NEAR))(x)
    got = cast.rotation(places(*NEAR))(x.bfloat16())
    # cos x ∓ sin x of two terms, each rounded to 8 bits
    torch.testing.assert_close(got.float(), want, atol=0.02, rtol=0)
    assert len({tuple(row.tolist()) for row in got[0, 0]}) == len(NEAR)
    back = cast.to(torch.float32).rotation(places(*NEAR))(x)
    assert torch.equal(back, want)


def test_sinusoids_are_rounded_once_in_bfloat16():
    """Catches: angles computed in bfloat16, where 256 and 257 are one position."""
    zeros = torch.zeros(1, len(NEAR), 32)
    want = SinusoidalPositions()(zeros, places(*NEAR)).bfloat16()
    got = SinusoidalPositions().to(torch.bfloat16)(zeros.bfloat16(), places(*NEAR))
    assert torch.equal(got, want)
    assert len({tuple(row.tolist()) for row in got[0]}) == len(NEAR)


def test_angles_stay_in_float32_under_autocast():
    """Catches: a matrix product of positions and rates, which autocast would round."""
    with torch.autocast("cpu", dtype=torch.bfloat16):
        angles = angle_table(places(257), 8, 10_000.0)
    assert angles.dtype == torch.float32 and angles[0, 0, 0] == 257


@pytest.mark.parametrize("position", ["sinusoidal", "rope", "none"])
def test_fixed_positions_have_no_weights_to_save(position):
    """Catches: a table among the weights, which a longer model could not load."""
    assert make_positions(tiny(position=position)).state_dict() == {}


@pytest.mark.parametrize("position", ["learned", "sinusoidal", "rope"])
def test_a_model_hears_the_order_of_equal_company(position):
    """With positions, swapping two earlier tokens changes the last logits; without, only the
    causal mask tells order apart, and a single layer cannot see the swap.

    Catches: positions that are built but never used.
    """
    tokens, swapped = torch.tensor([[3, 7, 9]]), torch.tensor([[7, 3, 9]])
    model = tiny_lm(position=position, n_layers=1)
    assert not torch.allclose(model(tokens)[0, -1], model(swapped)[0, -1], atol=1e-3)
    deaf = tiny_lm(position="none", n_layers=1)
    torch.testing.assert_close(deaf(tokens)[0, -1], deaf(swapped)[0, -1], atol=1e-5, rtol=1e-5)
