"""Encoder, vision transformer, encoder–decoder: what may flow where."""

import math
from dataclasses import replace

import pytest
import torch
import torch.nn.functional as F
from helpers import few, ids, loud, normal, one_line, tiny
from hypothesis import given
from hypothesis import strategies as st

from tfcourse.architectures import DecoderLM, Encoder, EncoderDecoder, VisionTransformer
from tfcourse.checkpoints import load_model, save_checkpoint
from tfcourse.config import ModelConfig
from tfcourse.generation import generate
from tfcourse.losses import IGNORE

TOLERANCE = dict(atol=1e-5, rtol=1e-5)
POSITIONS = ["learned", "sinusoidal", "rope", "none"]
KINDS = [dict(norm_position=n, position=p) for n in ("pre", "post") for p in POSITIONS]
ORIGINAL = dict(
    norm_position="post",
    position="sinusoidal",
    activation="relu",
    embedding_scale=True,
    bias=True,
)


def encoder(**fields):
    return loud(Encoder(tiny(**fields))).eval()


def pair(**fields):
    return loud(EncoderDecoder(tiny(**fields))).eval()


def vision(height=16, width=24, **fields):
    shape = dict(image_height=height, image_width=width, patch_size=8, image_channels=3)
    config = tiny(**shape, n_classes=5, tie_embeddings=False, **fields)
    return loud(VisionTransformer(config)).eval()


# --- encoder


def test_every_position_of_an_encoder_reads_every_other():
    """Catches: a causal rule that stayed on."""
    model, tokens = encoder(), ids(1, 6)
    other = tokens.clone()
    other[0, -1] = (other[0, -1] + 1) % 50
    changed = (model(tokens) - model(other)).abs().amax(dim=-1)[0]
    assert (changed > 1e-3).all()


@few
@given(order=st.permutations(range(6)), norm_position=st.sampled_from(["pre", "post"]))
def test_without_positions_an_encoder_does_not_know_the_order(order, norm_position):
    """Permuted input, equally permuted output. Catches: an order that comes in by another way."""
    model, tokens = encoder(position="none", norm_position=norm_position), ids(2, 6)
    torch.testing.assert_close(model(tokens[:, order]), model(tokens)[:, order], **TOLERANCE)


@few
@given(kind=st.sampled_from(KINDS), length=st.integers(1, 7), seed=st.integers(0, 9))
def test_padding_and_neighbours_in_the_batch_change_nothing(kind, length, seed):
    """A row alone, and beside a longer one: the same. Catches: keys that are padding."""
    model, row = encoder(**kind), ids(1, length, seed=seed)
    batch = ids(2, 8, seed=seed + 1)
    batch[0, :length] = row
    mask = torch.arange(8) < torch.tensor([[length], [8]])
    torch.testing.assert_close(model(batch, mask)[:1, :length], model(row), **TOLERANCE)


def test_the_masked_loss_counts_the_masked_positions_alone():
    """Catches: targets shifted as for a decoder; a mean over all positions."""
    model, tokens = encoder(head_bias=True), ids(2, 6)
    targets = torch.full_like(tokens, IGNORE)
    targets[0, 2], targets[1, 4] = 7, 9
    log_p = model(tokens).log_softmax(dim=-1)
    want = -(log_p[0, 2, 7] + log_p[1, 4, 9]) / 2
    torch.testing.assert_close(model.loss(tokens, targets), want, **TOLERANCE)


def test_an_encoder_classifies_from_its_first_position():
    """Catches: a mean; the last position; a classifier that is there without classes."""
    model, tokens = encoder(n_classes=3), ids(2, 6)
    first = model.stack(tokens)[:, 0]
    want = model.classifier(torch.tanh(model.pooler(first)))
    torch.testing.assert_close(model.classify(tokens), want, **TOLERANCE)
    with pytest.raises(ValueError) as caught:
        encoder().classify(tokens)
    one_line(caught.value, "n_classes=0")


# --- vision transformer


@pytest.mark.parametrize("pooling", ["first", "mean"])
def test_patches_run_row_by_row_and_are_never_mixed_up(pooling):
    """32 × 48 pixels in patches of 8 are 4 rows of 6. Catches: height and width exchanged."""
    model = vision(32, 48, pooling=pooling)
    embedding = model.stack.embedding
    images = normal(2, 3, 32, 48)
    x = embedding(images)
    first = int(pooling == "first")
    assert x.shape == (2, 24 + first, 32)
    patch = images[:, :, 8:16, 40:48].flatten(1)  # row 1, column 5
    want = embedding.project(patch) + embedding.positions[0, 11 + first]
    torch.testing.assert_close(x[:, 11 + first], want, **TOLERANCE)
    if first:
        want = (embedding.first + embedding.positions[:, :1]).expand(2, 1, 32)
        torch.testing.assert_close(x[:, :1], want, **TOLERANCE)


@pytest.mark.parametrize("pooling", ["first", "mean"])
def test_another_image_size_takes_its_positions_from_the_grid(pooling):
    """Catches: rows taken for columns; the class's own position resampled, too."""
    model = vision(16, 24, pooling=pooling)  # 2 × 3 patches
    embedding = model.stack.embedding
    assert embedding._positions(2, 3) is embedding.positions  # the native size: not resampled
    first = int(pooling == "first")
    got = embedding._positions(4, 6)
    grid = embedding.positions[0, first:].T.reshape(1, 32, 2, 3)
    want = F.interpolate(grid, size=(4, 6), mode="bicubic", align_corners=False)
    torch.testing.assert_close(got[0, first:], want[0].flatten(1).T, **TOLERANCE)
    assert torch.equal(got[:, :first], embedding.positions[:, :first])
    assert model(normal(2, 3, 32, 48)).shape == (2, 5)


def test_an_image_may_have_more_patches_than_max_len():
    """Catches: a model that is built and then refuses images of its own size."""
    model = vision(48, 56, max_len=32)  # 6 × 7 patches
    assert model(normal(1, 3, 48, 56)).shape == (1, 5)


def test_the_mean_is_taken_after_the_final_norm():
    """mean(LN(x)), not LN(mean(x)). Catches: the two exchanged."""
    model = vision(pooling="mean")
    streams = []
    model.stack.final_norm.register_forward_pre_hook(lambda _, args: streams.append(args[0]))
    got = model.hidden(normal(2, 3, 16, 24))
    norm = model.stack.final_norm
    torch.testing.assert_close(got[:, 0], norm(streams[0]).mean(dim=1), **TOLERANCE)
    assert not torch.allclose(got[:, 0], norm(streams[0].mean(dim=1)), atol=1e-3)


def test_the_loss_of_images_is_that_of_their_logits():
    """Catches: a class that is shifted; a mean over patches."""
    model, images = vision(head_bias=True), normal(4, 3, 16, 24)
    labels = torch.tensor([[0], [4], [2], [2]])
    want = F.cross_entropy(model(images), labels[:, 0])
    torch.testing.assert_close(model.loss(images, labels), want, **TOLERANCE)


def test_an_untrained_vision_transformer_finds_all_classes_equally_likely():
    """Catches: a head whose start prefers a class."""
    config = replace(vision().config)
    loss = VisionTransformer(config).loss(normal(4, 3, 16, 24), torch.ones(4, 1, dtype=torch.long))
    assert loss.item() == pytest.approx(math.log(5), rel=1e-6)


@pytest.mark.parametrize(
    ("fields", "size", "named"),
    [
        (dict(height=12), None, "image_height=12"),
        (dict(width=20), None, "image_width=20"),
        ({}, (16, 20), "16×20"),
        ({}, (4, 8), "4×8"),
    ],
)
def test_images_that_do_not_divide_into_patches_are_refused(fields, size, named):
    """Catches: pixels at the edge that are dropped silently."""
    with pytest.raises(ValueError) as caught:
        vision(**fields)(normal(1, 3, *size))
    one_line(caught.value, named, "patch_size=8")


def test_images_of_other_channels_are_refused():
    """Catches: an error about the shapes of two matrices that the reader has never seen."""
    with pytest.raises(ValueError) as caught:
        vision()(normal(1, 1, 16, 24))
    one_line(caught.value, "1 channels", "image_channels=3")


# --- encoder–decoder


@few
@given(kind=st.sampled_from(KINDS), lengths=st.tuples(st.integers(1, 9), st.integers(1, 6)))
def test_a_source_counts_its_real_tokens_alone(kind, lengths):
    """Each row equals its own run, and what stands in the padding is no matter.

    Catches: a source mask that does not reach cross-attention, or is the target's.
    """
    n_source, n_target = lengths
    model = pair(**kind)
    source, target = ids(2, 9), ids(2, 6, seed=1)
    mask = torch.arange(9) < torch.tensor([[9], [n_source]])
    both = model(target, source, source_mask=mask)
    alone = model(target[1:, :n_target], source[1:, :n_source])
    torch.testing.assert_close(both[1:, :n_target], alone, **TOLERANCE)
    other = torch.where(mask, source, (source + 1) % 50)
    torch.testing.assert_close(model(target, other, source_mask=mask), both, **TOLERANCE)


def test_the_target_is_causal_and_the_source_is_not():
    """Catches: cross-attention under the causal rule; a target that reads ahead."""
    model, source, target = pair(), ids(1, 7), ids(1, 6, seed=1)
    before = model(target, source)
    later = target.clone()
    later[0, 4:] = (later[0, 4:] + 1) % 50
    assert torch.equal(model(later, source)[:, :4], before[:, :4])
    other = source.clone()
    other[0, -1] = (other[0, -1] + 1) % 50
    changed = (model(target, other) - before).abs().amax(dim=-1)[0]
    assert (changed > 1e-3).all()  # the first target position, too


@pytest.mark.parametrize("fields", [{}, ORIGINAL, dict(n_kv_heads=2, position="rope")], ids=str)
def test_a_source_that_was_read_once_gives_the_same(fields):
    """Catches: keys and values of another block; a norm that is applied twice."""
    model = pair(**fields, n_decoder_layers=3)
    source, target = ids(2, 7), ids(2, 6, seed=1)
    mask = torch.arange(7) < torch.tensor([[7], [4]])
    encoded = model.encode(source, mask)
    want = model.hidden(target, encoded, mask)
    got = model.hidden(target, model.decoder.read(encoded), mask)
    torch.testing.assert_close(got, want, **TOLERANCE)


@pytest.mark.parametrize("fields", [{}, ORIGINAL], ids=str)
def test_cross_attentions_weights_are_rectangular_and_skip_padding(fields):
    """Catches: the two paths of attention apart; weights on a source's padding."""
    reader = pair(**fields).decoder.blocks[0].cross.sublayer
    x, source = normal(2, 6, 32), normal(2, 9, 32, seed=1)
    mask = (torch.arange(9) < torch.tensor([[9], [3]]))[:, None, None, :]
    out, weights = reader.with_weights(x, mask, source=source)
    assert weights.shape == (2, 4, 6, 9)
    torch.testing.assert_close(out, reader(x, mask, source=source), **TOLERANCE)
    assert (weights[1, :, :, 3:] == 0).all()
    torch.testing.assert_close(weights.sum(dim=-1), torch.ones(2, 4, 6), **TOLERANCE)


def test_one_matrix_serves_source_target_and_head():
    """Catches: copies; a count that counts the matrix three times."""
    model = EncoderDecoder(tiny())
    matrix = model.encoder.embedding.weight
    assert matrix is model.decoder.embedding.weight and matrix is model.head.weight
    apart = EncoderDecoder(tiny(tie_embeddings=False))
    assert apart.n_params() - model.n_params() == 2 * 50 * 32
    assert len({w.data_ptr() for w in (
        apart.encoder.embedding.weight, apart.decoder.embedding.weight, apart.head.weight
    )}) == 3  # fmt: skip


def test_a_decoder_without_blocks_writes():
    """It reads no source, so none can be counted. Catches: an IndexError in place of a baseline."""
    model = pair(n_decoder_layers=0)
    written = generate(model, [[1], [2, 3]], 2, sources=[[4, 5], [6]], temperature=0.0)
    assert [len(row) for row in written] == [2, 2]


@pytest.mark.nohook
def test_as_many_sources_as_rows_are_needed():
    """Catches: one source, spread over all rows."""
    with pytest.raises(ValueError) as caught:
        pair().hidden(ids(2, 3), normal(3, 4, 32))
    one_line(caught.value, "2 rows read 3 sources")


def test_a_source_is_needed_where_it_is_read_and_nowhere_else():
    """Catches: a decoder that attends to itself twice; a source that is ignored."""
    model = pair()
    with pytest.raises(ValueError) as caught:
        model.decoder(ids(1, 3))
    one_line(caught.value, "cross_attention=True", "source")
    with pytest.raises(ValueError) as caught:
        model.encoder(ids(1, 3), source=normal(1, 3, 32))
    one_line(caught.value, "cross_attention=False", "source")


BASE = dict(d_model=512, n_heads=8, d_ff=2048, n_layers=6, max_len=512, **ORIGINAL)


def test_the_base_model_of_2017_has_the_parameters_that_are_derived():
    """Without biases: 18,886,656 in the encoder's blocks and 25,184,256 in the decoder's.

    With 32,000 words that is 60.5 million, with 37,000 it is 63.0. Catches: a norm, a projection or
    a matrix too many.
    """
    config = ModelConfig(vocab_size=32_000, **BASE | {"bias": False})
    with torch.device("meta"):
        model = EncoderDecoder(config)
        larger = EncoderDecoder(replace(config, vocab_size=37_000))
    counts = [
        sum(p.numel() for p in stack.blocks.parameters())
        for stack in (model.encoder, model.decoder)
    ]
    assert counts == [18_886_656, 25_184_256]
    assert model.n_params() == 18_886_656 + 25_184_256 + 32_000 * 512 == 60_454_912
    assert round(larger.n_params() / 1e6, 1) == 63.0


# --- all of them


@pytest.mark.parametrize("architecture", [DecoderLM, Encoder, VisionTransformer, EncoderDecoder])
def test_a_checkpoint_brings_back_the_architecture(architecture, tmp_path):
    """Catches: a decoder built from an encoder's weights; a field that is not stored."""
    image = dict(image_height=16, image_width=8, patch_size=8)
    config = tiny(n_classes=5, tie_embeddings=False, head_bias=True, **image)
    model = loud(architecture(config)).eval()
    save_checkpoint(tmp_path / "checkpoint.pt", model)
    again, _ = load_model(tmp_path)
    assert type(again) is architecture and again.config == model.config
    for name, weight in model.state_dict().items():
        assert torch.equal(again.state_dict()[name], weight)


@pytest.mark.parametrize("norm_position", ["pre", "post"])
@pytest.mark.parametrize(
    "fields", [{}, dict(embedding_scale=True), dict(tie_embeddings=False)], ids=str
)
def test_the_first_loss_is_that_of_a_uniform_guess(norm_position, fields):
    """Within 2 % of ln V. Catches: an initialization made for decoders alone."""
    config = ModelConfig(
        vocab_size=1000, d_model=256, n_layers=6, norm_position=norm_position, **fields
    )
    tokens, targets = ids(4, 32, vocab_size=1000), ids(4, 32, vocab_size=1000, seed=1)
    torch.manual_seed(0)
    with torch.no_grad():
        losses = [
            Encoder(config).loss(tokens, targets),
            EncoderDecoder(config).loss(tokens, targets, source=targets),
        ]
    for loss in losses:
        assert loss.item() == pytest.approx(math.log(1000), rel=0.02)
