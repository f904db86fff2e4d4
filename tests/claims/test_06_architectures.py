"""What the four documents claim about encoders, decoders and the model of 2017, measured."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from helpers import ids, loud, tiny
from torch import nn

from tfcourse.architectures import DecoderLM, Encoder, EncoderDecoder
from tfcourse.config import ModelConfig
from tfcourse.figures.architectures import seen_tokens, trace
from tfcourse.generation import KVCache
from tfcourse.stacks import Stack


def count(module: nn.Module) -> int:
    return sum(parameter.numel() for parameter in module.parameters())


def base_2017(vocab_size: int = 32_000, **fields) -> EncoderDecoder:
    """Return the base model without memory for its weights: it is only counted."""
    with torch.device("meta"):
        config = ModelConfig(
            vocab_size=vocab_size,
            d_model=512,
            n_layers=6,
            n_heads=8,
            d_ff=2048,
            max_len=512,
            norm_position="post",
            position="sinusoidal",
            activation="relu",
            embedding_scale=True,
            **fields,
        )
        return EncoderDecoder(config)


def test_queries_keys_and_values_come_from_embeddings_in_block_1_alone(record):
    """Catches: a later block that is handed the embeddings again."""
    target, source = ids(1, 4), ids(1, 5, seed=1)
    seen = seen_tokens(loud(EncoderDecoder(tiny(n_layers=2))), target, source)
    first, second, cross = (
        [marks.count("1") for marks in seen[name]["keys"]]
        for name in (
            "encoder.blocks.0.attention",
            "encoder.blocks.1.attention",
            "decoder.blocks.0.cross",
        )
    )
    assert (first, second, cross) == ([1] * 5, [5] * 5, [5] * 5)
    record(
        "of 5 source tokens 1 is in a key of encoder block 1, 5 are in one of block 2, "
        "and 5 in one of the decoder's cross-attention"
    )


def test_cross_attention_reads_the_encoders_last_result(record):
    """Catches: block i of the decoder that reads block i of the encoder."""
    model = loud(EncoderDecoder(tiny(n_layers=3)))
    read = {part.source for part in trace(model, ids(1, 4), ids(1, 5)) if part.source}
    assert read == {"encoder.final_norm"}
    record("all 3 decoder blocks read one thing: what the encoder's last norm returns")


def test_scores_of_cross_attention_are_rectangular(record):
    """Catches: a source that is cut or padded to the target's length."""
    model = loud(EncoderDecoder(tiny(n_layers=1)))
    (part,) = [p for p in trace(model, ids(1, 4), ids(1, 7)) if p.source]
    assert part.weights is not None and part.weights.shape == (4, 7)
    record("4 target tokens and 7 source tokens give scores of 4 × 7")


def test_an_encoder_and_a_decoder_have_the_same_weights(record):
    """Catches: a mask that is stored as a weight; a block of another form."""
    config = tiny()
    decoder, encoder = Stack(config).state_dict(), Stack(replace(config, causal=False)).state_dict()
    assert {k: v.shape for k, v in decoder.items()} == {k: v.shape for k, v in encoder.items()}
    reader = Stack(replace(config, cross_attention=True)).state_dict()
    extra = sorted({k.split(".")[2] for k in set(reader) - set(decoder)})
    assert extra == ["cross"] and set(decoder) < set(reader)
    record("encoder and decoder: the same names and shapes; with a source one branch more, cross")


def test_the_base_model_of_2017_counted(record):
    """Catches: a head that is not tied; two embeddings; a bias."""
    model = base_2017()
    encoder, decoder = count(model.encoder), count(model.decoder.blocks)
    assert (encoder, decoder) == (35_270_656, 25_184_256)
    assert model.n_params() == encoder + decoder == 60_454_912
    larger = base_2017(37_000).n_params()
    assert larger == 63_014_912
    record(
        f"encoder {encoder:,}, decoder blocks {decoder:,}, together {encoder + decoder:,}; "
        f"with 37,000 tokens {larger:,}"
    )


def test_biases_and_a_stored_table_add_a_third_of_a_million_at_most(record):
    """Catches: biases of the head or the norms counted as well."""
    everywhere = base_2017(bias=True).n_params() - base_2017().n_params()
    blocks = [*base_2017().encoder.blocks, *base_2017().decoder.blocks]
    in_mlps = sum(
        layer.out_features
        for block in blocks
        for layer in block.feed_forward.sublayer.modules()
        if isinstance(layer, nn.Linear)
    )
    table = 512 * 512
    assert (everywhere + table, in_mlps + table) == (329_728, 292_864)
    record(
        f"{everywhere + table:,} with biases in all layers and a table of 512 positions, "
        f"{in_mlps + table:,} with biases in the MLPs alone"
    )


def test_the_mlp_is_half_of_a_block_with_cross_attention(record):
    """Catches: cross-attention that shares its matrices with self-attention."""
    shares = []
    for block in (base_2017().encoder.blocks[0], base_2017().decoder.blocks[0]):
        shares.append(count(block.feed_forward) / count(block))
    assert abs(shares[0] - 2 / 3) < 0.01 and abs(shares[1] - 1 / 2) < 0.01
    record(f"{shares[0]:.0%} of an encoder block, {shares[1]:.0%} of a decoder block")


def test_the_embedding_is_nearly_half_of_the_encoder(record):
    """Catches: a second embedding for positions."""
    model = base_2017()
    share = count(model.encoder.embedding) / count(model.encoder)
    assert 0.45 < share < 0.48
    record(f"{share:.0%}")


def test_only_the_decoders_own_cache_grows(record):
    """Catches: keys and values that are kept for the encoder's layers; those of the source
    computed again for each target token."""
    model = base_2017()
    cache = KVCache(model.decoder.config, 1, 1, device=torch.device("meta"))
    per_target = cache.keys.nbytes + cache.values.nbytes
    encoded = torch.empty(1, 10, 512, device=torch.device("meta"))
    read = model.decoder.read(encoded)
    per_source = sum(t.nbytes for pair in read for t in pair) / 10
    assert per_target == per_source == 24_576
    both = (per_target + per_source) * 4096 / 2**20
    assert both == 192
    record(
        f"{per_target / 1024:.0f} KiB for each target token, {per_source / 1024:.0f} KiB for each "
        "source token, fixed; 192 MiB at 4096 of each"
    )


def order_two(n_rows: int, length: int, table: torch.Tensor, generator: torch.Generator):
    """Draw texts in which each token depends on the two before it."""
    text = torch.randint(len(table), (n_rows, 2), generator=generator)
    for _ in range(length - 1):
        following = table[text[:, -2], text[:, -1]]
        text = torch.cat([text, torch.multinomial(following, 1, generator=generator)], dim=1)
    return text


@pytest.mark.slow
def test_a_causal_model_looks_worse_without_its_mask(record):
    """On its own task, with the answer in plain view, and at gaps with both sides in view.

    Catches: a mask that is still there; a model that was trained without one.
    """
    in_view, at_gaps = [], []
    for seed in range(3):
        generator = torch.Generator().manual_seed(seed)
        table = torch.softmax(3 * torch.randn(8, 8, 8, generator=generator), dim=-1)
        torch.manual_seed(seed)
        model = DecoderLM(ModelConfig(vocab_size=8, d_model=32, n_layers=2, max_len=16))
        optimizer = torch.optim.Adam(model.parameters(), lr=5e-3, fused=True)
        for _ in range(150):
            text = order_two(32, 16, table, generator)
            loss = model.loss(text[:, :-1], text[:, 1:])
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        opened = DecoderLM(replace(model.config, causal=False))
        opened.load_state_dict(model.state_dict())
        text = order_two(256, 16, table, generator)
        with torch.no_grad():
            masked, bare = (float(m.loss(text[:, :-1], text[:, 1:])) for m in (model, opened))
            gaps = []  # at token 9 another one stands, and it is asked for at position 8
            for m in (model, opened):
                hidden = text[:, :-1].clone()
                hidden[:, 9] = torch.randint(8, (256,), generator=generator)
                gaps.append(float(m.loss(hidden, text[:, 1:], "none")[:, 8].mean()))
        in_view.append(bare / masked)
        at_gaps.append(gaps[1] / gaps[0])
    assert min(in_view) > 1.2 and min(at_gaps) > 1.2, (in_view, at_gaps)
    record(
        "in each of 3 runs the loss is at least 1.2 times as high without the mask, for the next "
        "token and for a token that was replaced"
    )


def test_an_encoder_sees_what_stands_on_the_right(record):
    """Catches: an encoder that is causal."""
    model = loud(Encoder(tiny())).eval()
    tokens, other = ids(1, 6), ids(1, 6)
    other[0, -1] = (other[0, -1] + 1) % 50
    moved = (model(tokens) - model(other)).abs().amax(dim=-1)[0] > 1e-4
    assert moved.all()
    record("another last token moves the result at all 6 positions")
