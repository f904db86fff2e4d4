"""The data of the other architectures, and what their models reach."""

import random
import re
import subprocess
import sys
from datetime import date, timedelta

import numpy as np
import pytest
import torch
from helpers import one_line, tiny
from sklearn.datasets import load_digits

from tfcourse.architectures import EncoderDecoder, Model, VisionTransformer
from tfcourse.config import ModelConfig, TrainConfig
from tfcourse.data.batching import EmailData, MaskedEmailData
from tfcourse.data.dates import FIRST_DAY, LOCALES, N_DAYS, STYLES, DateData, write_date
from tfcourse.data.digits import DigitData, shift
from tfcourse.losses import IGNORE
from tfcourse.presets import PRESETS
from tfcourse.training import train

# --- dates


@pytest.fixture(scope="module")
def dates():
    return DateData(n_held_out=300)


def test_no_two_days_are_written_alike_in_one_locale_and_style():
    """Else the right answer could not be known. Days 1 to 3 of every month of a hundred years.

    Catches: two digits for a year in a range of more than a hundred; a style without the day.
    """
    days = [date(year, month, day) for year in range(1970, 2070) for month in (1, 2, 3, 11)
            for day in (1, 2, 3)]  # fmt: skip
    assert len(set(LOCALES)) >= 25
    for locale in LOCALES:
        for style in STYLES:
            assert len({write_date(day, locale, style) for day in days}) == len(days)


def test_every_date_can_be_read_and_fits(dates):
    """2,000 days at random. Catches: a character, or a length, that the sample of weeks lacks."""
    rng = random.Random(1)
    for _ in range(2000):
        day = FIRST_DAY + timedelta(days=rng.randrange(N_DAYS))
        written = write_date(day, rng.choice(LOCALES), rng.choice(STYLES))
        ids = dates.encode(written)
        assert dates.decode(ids) == written and len(ids) + 1 <= dates.max_len


def test_training_never_sees_a_day_that_is_held_out(dates):
    """In no locale and no style. Catches: pairs held out in place of days."""
    held_out = {dates.decode(target) for _, target in dates._held_out}
    seen = set()
    for step in range(40):
        seen |= {dates.decode(row) for row in dates.train_batch(step, 64).inputs.tolist()}
    assert len(seen) > 2000 and not seen & held_out
    assert len({dates.decode(source).split()[0] for source, _ in dates._held_out}) >= 25


def test_a_batch_of_dates_holds_pairs_and_says_what_is_real(dates):
    """Catches: a target that is not the source's day; a mask of the target."""
    batch = dates.train_batch(3, 8)
    source, mask = batch.context["source"], batch.context["source_mask"]
    assert torch.equal(mask, source != 0) and not mask.all()
    for inputs, targets, row in zip(batch.inputs, batch.targets, source, strict=True):
        day = date.fromisoformat(dates.decode(inputs.tolist()))
        assert dates.decode(targets[:-1].tolist()) == day.isoformat()
        assert targets[-1] == dates.eos_id and inputs[0] == dates.bos_id
        written = dates.decode(row.tolist())
        locale = written.split()[0]
        assert written in {write_date(day, locale, style) for style in STYLES}


def test_exact_match_counts_whole_dates_by_real_decoding(dates, monkeypatch):
    """Catches: characters counted; the right answer handed to the model."""
    from tfcourse import generation

    wrong = 3

    def write(model, prompts, n, *, sources, **options):
        nonlocal wrong
        answer = {tuple(source): target[1:] for source, target in dates._held_out}
        rows = [list(answer[tuple(source)]) for source in sources]
        while wrong:
            wrong -= 1
            rows[wrong][4] = rows[wrong][4] + 1
        return rows

    monkeypatch.setattr(generation, "generate", write)
    assert dates.score(None) == ("exact match", 297 / 300)


# --- digits


def test_digits_are_split_once_and_keep_their_labels():
    """Catches: images that are held out and trained on; labels of another image."""
    data, raw = DigitData(n_held_out=300), load_digits()
    held_out, trained = data._held_out, data._train
    images = torch.cat([held_out.inputs, trained.inputs]).flatten(1).numpy()
    labels = torch.cat([held_out.targets, trained.targets])[:, 0].numpy()
    assert len(held_out.targets) == 300 and len(images) == 1797
    scale = np.ptp(raw.data) / np.ptp(images)
    found = np.round((images - images.min()) * scale).astype(int)
    want = {(tuple(x), y) for x, y in zip(raw.data.astype(int), raw.target, strict=True)}
    assert {(tuple(x), y) for x, y in zip(found, labels, strict=True)} == want
    assert len({tuple(x) for x in found[:300]} & {tuple(x) for x in found[300:]}) == 0


def test_each_epoch_shows_every_digit_once_in_an_order_of_its_own():
    """Catches: an order that is the same in each epoch; images that never come."""
    data = DigitData(n_held_out=1697)
    epochs = [data.train_batch(step, 100).targets[:, 0].tolist() for step in (0, 1)]
    assert sorted(epochs[0]) == sorted(epochs[1]) == sorted(data._train.targets[:, 0].tolist())
    assert epochs[0] != epochs[1]
    assert torch.equal(
        data.train_batch(1, 100).inputs, DigitData(n_held_out=1697).train_batch(1, 100).inputs
    )


def test_a_long_seed_is_a_seed():
    """Of 18 digits, the most that a command takes. Catches: a number beyond 64 bits."""
    batches = [DigitData(seed, n_held_out=1700).train_batch(3, 8) for seed in (10**17, 10**17 + 1)]
    assert not torch.equal(batches[0].targets, batches[1].targets)


def test_an_image_is_moved_by_whole_pixels_and_filled_with_background():
    """Catches: rows and columns exchanged; what leaves on one side coming back on the other."""
    image = torch.arange(9.0).view(1, 1, 3, 3)
    moved = shift(image, torch.tensor([[1, -1]]), -5.0)
    want = torch.tensor([[-5.0, -5, -5], [1, 2, -5], [4, 5, -5]])
    assert torch.equal(moved[0, 0], want)


def test_accuracy_is_the_share_of_right_classes():
    """Catches: a mean over batches of unequal size; the mode left changed."""
    data = DigitData(n_held_out=300)

    class Oracle(Model):
        def __init__(self):
            super().__init__()
            self.head = torch.nn.Linear(1, 1)

        def forward(self, images):
            found = (data._held_out.inputs.flatten(1) == images.flatten(1).unsqueeze(1)).all(2)
            labels = data._held_out.targets[found.int().argmax(1), 0].clone()
            labels[labels == 3] = 4
            return torch.nn.functional.one_hot(labels, 10).float()

    model = Oracle().train()
    threes = int((data._held_out.targets == 3).sum())
    assert data.score(model) == ("accuracy", (300 - threes) / 300) and model.training


def test_a_model_of_other_images_is_refused():
    """Catches: an error from deep inside a matrix product."""
    image = dict(image_height=16, image_width=8, patch_size=4, n_classes=10)
    with pytest.raises(ValueError) as caught:
        DigitData().check_fit(tiny(**image))
    one_line(caught.value, "image_height=8")


# --- masked emails


def test_masked_emails_ask_for_15_percent_and_hide_most_of_them():
    """Of what is asked, 80 % is masked, 10 % another word, 10 % itself.

    Catches: targets everywhere; words changed that nobody asks for; BOS, EOS or PAD asked for.
    """
    data, plain = MaskedEmailData(n_held_out=400), EmailData(n_held_out=400)
    asked = masked = same = total = 0
    for i, (inputs, targets) in enumerate(data._held_out):
        row = plain._held_out[i]
        for before, now, target in zip(row, inputs, targets, strict=True):
            if target == IGNORE:
                assert now == before
                continue
            assert target == before and before >= 3
            asked += 1
            masked += now == data.mask_id
            same += now == before
        total += len(row) - 2
    assert asked / total == pytest.approx(0.15, abs=0.01)
    assert masked / asked == pytest.approx(0.8, abs=0.03)
    assert same / asked == pytest.approx(0.1, abs=0.03)
    batch = data.train_batch(0, 4)
    assert torch.equal(batch.context["padding_mask"], batch.inputs != 0)
    assert int(batch.inputs.max()) <= data.mask_id == data.vocab_size - 1


# --- what is reached


def score_after(steps, architecture, preset, data):
    """Train the preset's model for a few steps; return what it reached."""
    torch.manual_seed(0)
    model = architecture(ModelConfig(**PRESETS[preset]["model"] | data.model_fields()))
    config = TrainConfig(**PRESETS[preset]["train"] | {"steps": steps, "warmup": 20})
    return train(model, data, config, progress=False).evaluation.score


@pytest.mark.slow
def test_a_vision_transformer_learns_digits():
    """250 steps of the preset's model; 10 % would be guessing. Catches: labels or patches mixed."""
    name, share = score_after(250, VisionTransformer, "digits", DigitData())
    assert name == "accuracy" and share > 0.6


@pytest.mark.slow
def test_an_encoder_decoder_learns_dates(dates):
    """220 steps; a model without its source would guess a day of 36,525.

    Catches: a source that does not arrive; decoding that differs from training.
    """
    name, share = score_after(220, EncoderDecoder, "dates", dates)
    assert name == "exact match" and share > 0.3


@pytest.mark.nohook
@pytest.mark.parametrize(
    "given", [dict(styles=["tiny"]), dict(styles="full"), dict(locales="de"), dict(locales=[])]
)
def test_an_unknown_style_or_locale_is_refused(given):
    """Catches: a style that Babel reads as a pattern, "tin1970"; a word taken for its letters."""
    with pytest.raises(ValueError) as caught:
        DateData(n_held_out=1, **given)
    [(field, value)] = given.items()
    one_line(caught.value, f"{field}={value!r}", "full" if field == "styles" else "en_GB")


def test_more_dates_than_are_held_out_are_refused():
    """Catches: millions of dates that are drawn for hours, the same ones again and again."""
    with pytest.raises(ValueError, match="n_held_out=99999999 is more than the"):
        DateData(n_held_out=99_999_999)


@pytest.mark.accept
@pytest.mark.nohook
@pytest.mark.timeout(1200)
@pytest.mark.parametrize(
    ("task", "score", "least"),
    [("digits", "accuracy", 97), ("dates", "exact match", 99), ("masked", "words right", 65)],
)
def test_a_task_reaches_its_promise_by_one_command(task, score, least, tmp_path):
    """Catches: a preset that trains too little; a task that drifts away from its preset."""
    command = [sys.executable, "-m", "tfcourse.cli", "train", task, "--out", str(tmp_path / "run")]
    run = subprocess.run(command, capture_output=True, text=True, check=True)
    line = run.stdout.splitlines()[-1]
    assert float(re.search(rf"{score} (\d+\.\d) %", line)[1]) >= least, line
