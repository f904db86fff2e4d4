"""Targets are the next tokens of the same text, and a batch depends on nothing but its step."""

import pytest
import torch

from tfcourse.data.batching import EmailData, TextData, pad_rows
from tfcourse.data.emails import EMAILS
from tfcourse.data.tokenizers import BOS, EOS, PAD, train_bpe
from tfcourse.losses import IGNORE

TEXTS = [f"Hi {name}, the {thing} are here." for name in "ABCDEFGH" for thing in ("keys", "skis")]
BPE = train_bpe(TEXTS, vocab_size=280)


@pytest.fixture(scope="module")
def emails():
    return EmailData(n_held_out=20)


def equal(a, b):
    return torch.equal(a.inputs, b.inputs) and torch.equal(a.targets, b.targets)


def test_targets_are_the_inputs_shifted_by_one_within_each_row():
    """Catches: a second shift; the last target taken from the next row (case 58)."""
    batch = pad_rows([[0, 1, 2, 3, 4], [5, 6, 7]])
    assert batch.inputs.tolist() == [[0, 1, 2, 3], [5, 6, PAD, PAD]]
    assert batch.targets.tolist() == [[1, 2, 3, 4], [6, 7, IGNORE, IGNORE]]
    assert batch.inputs.dtype == batch.targets.dtype == torch.int64


@pytest.mark.parametrize("rows", [[], [[1, 2], [1]]])
def test_rows_without_a_target_are_refused(rows):
    """Catches: an empty batch, whose mean loss is 0."""
    with pytest.raises(ValueError, match="nothing to predict"):
        pad_rows(rows)


def test_a_row_is_one_whole_email(emails):
    """Catches: padding among the targets; the end of the email missing; a cut email."""
    batch = emails.train_batch(0, 16)
    for inputs, targets in zip(batch.inputs.tolist(), batch.targets.tolist(), strict=True):
        n = sum(target != IGNORE for target in targets)
        assert inputs[0] == BOS and targets[n - 1] == EOS
        assert targets[: n - 1] == inputs[1:n]
        assert inputs[n:] == [PAD] * (len(inputs) - n)
        assert targets[n:] == [IGNORE] * (len(inputs) - n)
        words = [emails.tokenizer.words[i - 3] for i in inputs[1:n]]
        assert EMAILS.log_prob(words) > -100
    assert batch.inputs.shape[1] <= emails.max_len


def test_a_batch_depends_on_seed_step_and_size_alone(emails):
    """Catches: a generator that remembers earlier calls; a seed that is not used."""
    first = emails.train_batch(3, 8)
    emails.train_batch(4, 8)
    assert equal(emails.train_batch(3, 8), first)
    assert equal(EmailData(n_held_out=1).train_batch(3, 8), first)
    assert not equal(emails.train_batch(4, 8), first)
    assert not equal(EmailData(seed=1, n_held_out=1).train_batch(3, 8), first)


def test_the_floor_is_the_grammars_own_loss_on_the_held_out_rows(emails):
    """Catches: rows in another order than the floor; the end counted twice."""
    batches = list(emails.held_out_batches(7))
    assert [len(batch.inputs) for batch in batches] == [7, 7, 6]
    rows = [row for batch in batches for row in batch.targets.tolist()]
    for row, floor in zip(rows, emails.floor.tolist(), strict=True):
        text = emails.decode([i for i in row if i != IGNORE])
        words = [emails.tokenizer.words[i - 3] for i in emails.encode(text)]
        assert floor == pytest.approx(-EMAILS.log_prob(words), rel=1e-5)


def test_held_out_emails_are_never_trained_on(emails):
    """Catches: one random stream for both."""
    held_out = {
        emails.decode(row) for b in emails.held_out_batches(20) for row in b.inputs.tolist()
    }
    for step in range(20):
        for row in emails.train_batch(step, 20).inputs.tolist():
            assert emails.decode(row) not in held_out


def test_every_epoch_sees_each_row_once_in_another_order():
    """Catches: a step that starts at the wrong row; one order for all epochs."""
    data = TextData(TEXTS, BPE, max_len=8)
    n = len(data._train)
    epochs = [[data.train_batch(e * n + i, 1).inputs.tolist() for i in range(n)] for e in (0, 1)]
    assert (
        sorted(epochs[0]) == sorted(epochs[1]) == sorted([row[:-1].tolist()] for row in data._train)
    )
    assert epochs[0] != epochs[1]
    assert data.train_batch(0, n).inputs.shape[0] == n


def test_rows_of_texts_predict_every_token_but_the_beginnings():
    """Catches: tokens lost between two rows; the beginning of the next text as a target."""
    data = TextData(TEXTS, BPE, max_len=7, held_out_share=0.5)
    batches = list(data.held_out_batches(3))
    predicted = [t for b in batches for t in b.targets.flatten().tolist() if t != IGNORE]
    assert BOS not in predicted
    assert predicted.count(EOS) == len(TEXTS) / 2
    held_out = [text for text in TEXTS if text in data.decode(predicted)]
    assert len(predicted) == sum(len(BPE.encode(text)) + 1 for text in held_out)


def test_no_text_is_both_trained_on_and_held_out():
    """Catches: a copy of a held-out text among the texts to train on."""
    data = TextData([*TEXTS, *TEXTS, ""], BPE, max_len=8, held_out_share=0.3)
    streams = [
        data.decode(i for row in rows for i in row[1:]) for rows in (data._train, data._held_out)
    ]
    assert [sum(text in stream for stream in streams) for text in TEXTS] == [1] * len(TEXTS)
    assert all(stream.count(text) <= 1 for text in TEXTS for stream in streams)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda d: EmailData(n_held_out=0), "n_held_out=0; give at least 1"),
        (lambda d: d.train_batch(-1, 8), "step=-1; give at least 0"),
        (lambda d: d.train_batch(0, 0), "batch_size=0; give at least 1"),
        (lambda d: d.held_out_batches(-2), "batch_size=-2; give at least 1"),
        (lambda d: TextData([], BPE, 8), "corpus: 0 different texts; give at least 2"),
        (lambda d: TextData(["a", "a", " "], BPE, 8), "corpus: 1 different texts"),
        (
            lambda d: TextData(["abc", "def"], BPE, 64),
            "corpus: 5 tokens to train on do not fill one row of max_len=64; give more text or",
        ),
        (lambda d: TextData(TEXTS, BPE, 0), "max_len=0; give at least 1"),
        (
            lambda d: TextData(TEXTS, BPE, 8, held_out_share=1.0),
            "held_out_share=1.0; give a number",
        ),
    ],
)
def test_bad_input_is_named_with_what_to_give(emails, call, message):
    """Catches: each check left out."""
    with pytest.raises(ValueError, match=message):
        call(emails)
