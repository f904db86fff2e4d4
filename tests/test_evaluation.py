"""Held-out loss against the floor: the same rows, the same tokens, and an honest error."""

import math

import pytest
import torch
from counting import Counting, counting_lm
from helpers import loud

from tfcourse.evaluation import Evaluation, evaluate, held_out_nll, mean_difference
from tfcourse.losses import IGNORE


@pytest.mark.parametrize("batch_size", [1, 3, 64])
def test_each_row_is_scored_as_if_alone_and_in_order(batch_size):
    """Catches: rows out of order, so that they are compared with another row's floor; a mean of
    means over batches; padding that counts.
    """
    model, data = loud(counting_lm()), Counting()
    nll, counts = held_out_nll(model, data, batch_size)
    for i, row in enumerate(data._held_out):
        tokens = torch.tensor([row])
        want = model.loss(tokens[:, :-1], tokens[:, 1:], "sum")
        assert nll[i].item() == pytest.approx(want.item(), rel=1e-5)
        assert counts[i] == len(row) - 1
    evaluation = evaluate(model, data, batch_size)
    assert evaluation.loss == pytest.approx(float(nll.sum() / counts.sum()))
    assert evaluation.n_tokens == int(counts.sum())


@pytest.mark.parametrize("training", [True, False])
def test_scoring_uses_no_dropout_and_gives_the_mode_back(training):
    """Catches: dropout in the score; a run that goes on in evaluation mode."""
    model = counting_lm(dropout=0.5).train(training)
    scores = [evaluate(model, Counting()).loss for _ in range(2)]
    assert scores[0] == scores[1] == evaluate(counting_lm(), Counting()).loss
    assert model.training is training


def test_against_its_own_losses_a_model_is_at_the_floor():
    """Zero above, with zero error. Catches: a floor of other tokens; an unpaired error."""
    model, data = counting_lm(), Counting()
    data.floor, _ = held_out_nll(model, data)
    evaluation = evaluate(model, data)
    assert evaluation.above_floor == pytest.approx(0, abs=1e-6)
    assert evaluation.standard_error == pytest.approx(0, abs=1e-6)
    assert evaluation.floor == pytest.approx(evaluation.loss)


def test_a_floor_that_lies_lower_by_a_constant_per_token_is_found():
    """Catches: a difference per row in place of per token."""
    model, data = counting_lm(), Counting()
    nll, counts = held_out_nll(model, data)
    data.floor = nll - 0.25 * counts
    evaluation = evaluate(model, data)
    assert evaluation.above_floor == pytest.approx(0.25, abs=1e-6)
    assert "above floor 0.250" in str(evaluation)


def test_the_standard_error_is_that_of_resampled_rows():
    """Against a bootstrap of 2,000 draws, to 10 %: rows of unequal length, tied within a row.

    Catches: tokens counted as independent; √n forgotten.
    """
    generator = torch.Generator().manual_seed(0)
    counts = torch.randint(5, 60, (400,), generator=generator).double()
    shift = torch.randn(400, generator=generator).double() * 0.3
    nll, floor = (1.0 + shift) * counts, counts.clone()
    mean, error = mean_difference(nll, floor, counts)
    draws = torch.randint(400, (2000, 400), generator=generator)
    means = (nll - floor)[draws].sum(dim=1) / counts[draws].sum(dim=1)
    assert mean == pytest.approx(float((shift * counts).sum() / counts.sum()))
    assert error == pytest.approx(float(means.std()), rel=0.1)


def test_a_single_row_has_no_error_to_speak_of():
    """Catches: 0/0, or an error of zero that claims certainty."""
    one = torch.ones(1).double()
    assert mean_difference(2 * one, one, one) == (1.0, math.inf)


def test_the_line_reads_the_same_with_and_without_a_floor():
    """Catches: None printed as a number."""
    assert str(Evaluation(0.8621, 10, 0.8419, 0.001)) == (
        "held-out loss 0.862  entropy floor 0.842  above floor 0.020"
    )
    assert str(Evaluation(0.8621, 10)) == "held-out loss 0.862"
    assert Evaluation(0.5, 10).above_floor is None


def test_padding_is_never_scored():
    """Catches: targets that contain the padding's id."""
    for batch in Counting().held_out_batches(4):
        assert not bool((batch.targets == Counting.pad_id).any())
        assert bool((batch.targets == IGNORE).any())
