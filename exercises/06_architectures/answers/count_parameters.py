import torch
from torch import nn


# right: the formulas of the chapter
def count_parameters(vocab_size, d_model, d_ff, n_encoder_blocks, n_decoder_blocks):
    d = d_model
    attention, mlp, norm = 4 * d * d, 2 * d * d_ff, 2 * d
    encoder = n_encoder_blocks * (attention + mlp + 2 * norm)
    decoder = n_decoder_blocks * (2 * attention + mlp + 3 * norm)
    return vocab_size * d + encoder + decoder


# right: counts layers that it builds
def count_parameters(vocab_size, d_model, d_ff, n_encoder_blocks, n_decoder_blocks):
    def block(n_attentions):
        layers = [nn.Linear(d_model, d_model, bias=False) for _ in range(4 * n_attentions)]
        layers += [nn.Linear(d_model, d_ff, bias=False), nn.Linear(d_ff, d_model, bias=False)]
        return layers + [nn.LayerNorm(d_model) for _ in range(n_attentions + 1)]

    layers = [nn.Embedding(vocab_size, d_model)]
    with torch.device("meta"):
        for _ in range(n_encoder_blocks):
            layers += block(1)
        for _ in range(n_decoder_blocks):
            layers += block(2)
    return sum(w.numel() for layer in layers for w in layer.parameters())


# wrong: the number of the base model
def count_parameters(vocab_size, d_model, d_ff, n_encoder_blocks, n_decoder_blocks):
    return 63_014_912


# wrong: a decoder block without cross-attention
def count_parameters(vocab_size, d_model, d_ff, n_encoder_blocks, n_decoder_blocks):
    block = 4 * d_model**2 + 2 * d_model * d_ff + 4 * d_model
    return vocab_size * d_model + (n_encoder_blocks + n_decoder_blocks) * block


# wrong: three embeddings
def count_parameters(vocab_size, d_model, d_ff, n_encoder_blocks, n_decoder_blocks):
    encoder = n_encoder_blocks * (4 * d_model**2 + 2 * d_model * d_ff + 4 * d_model)
    decoder = n_decoder_blocks * (8 * d_model**2 + 2 * d_model * d_ff + 6 * d_model)
    return 3 * vocab_size * d_model + encoder + decoder


# wrong: two norms in a decoder block
def count_parameters(vocab_size, d_model, d_ff, n_encoder_blocks, n_decoder_blocks):
    encoder = n_encoder_blocks * (4 * d_model**2 + 2 * d_model * d_ff + 4 * d_model)
    decoder = n_decoder_blocks * (8 * d_model**2 + 2 * d_model * d_ff + 4 * d_model)
    return vocab_size * d_model + encoder + decoder


# wrong: no norms
def count_parameters(vocab_size, d_model, d_ff, n_encoder_blocks, n_decoder_blocks):
    encoder = n_encoder_blocks * (4 * d_model**2 + 2 * d_model * d_ff)
    decoder = n_decoder_blocks * (8 * d_model**2 + 2 * d_model * d_ff)
    return vocab_size * d_model + encoder + decoder


# wrong: the MLP is 4 d wide
def count_parameters(vocab_size, d_model, d_ff, n_encoder_blocks, n_decoder_blocks):
    encoder = n_encoder_blocks * (12 * d_model**2 + 4 * d_model)
    decoder = n_decoder_blocks * (16 * d_model**2 + 6 * d_model)
    return vocab_size * d_model + encoder + decoder


# wrong: biases in the MLPs
def count_parameters(vocab_size, d_model, d_ff, n_encoder_blocks, n_decoder_blocks):
    mlp = 2 * d_model * d_ff + d_ff + d_model
    encoder = n_encoder_blocks * (4 * d_model**2 + mlp + 4 * d_model)
    decoder = n_decoder_blocks * (8 * d_model**2 + mlp + 6 * d_model)
    return vocab_size * d_model + encoder + decoder


# wrong: queries, keys and values, but no output projection
def count_parameters(vocab_size, d_model, d_ff, n_encoder_blocks, n_decoder_blocks):
    encoder = n_encoder_blocks * (3 * d_model**2 + 2 * d_model * d_ff + 4 * d_model)
    decoder = n_decoder_blocks * (6 * d_model**2 + 2 * d_model * d_ff + 6 * d_model)
    return vocab_size * d_model + encoder + decoder


# wrong: the answer in millions
def count_parameters(vocab_size, d_model, d_ff, n_encoder_blocks, n_decoder_blocks):
    encoder = n_encoder_blocks * (4 * d_model**2 + 2 * d_model * d_ff + 4 * d_model)
    decoder = n_decoder_blocks * (8 * d_model**2 + 2 * d_model * d_ff + 6 * d_model)
    return (vocab_size * d_model + encoder + decoder) / 1e6


# wrong: keys and values of cross-attention cost nothing, they come from the encoder
def count_parameters(vocab_size, d_model, d_ff, n_encoder_blocks, n_decoder_blocks):
    attention, mlp = 4 * d_model**2, 2 * d_model * d_ff
    encoder = n_encoder_blocks * (attention + mlp + 4 * d_model)
    decoder = n_decoder_blocks * (attention + attention // 2 + mlp + 6 * d_model)
    return vocab_size * d_model + encoder + decoder


# wrong: 512 positions counted in
def count_parameters(vocab_size, d_model, d_ff, n_encoder_blocks, n_decoder_blocks):
    attention, mlp = 4 * d_model**2, 2 * d_model * d_ff
    encoder = n_encoder_blocks * (attention + mlp + 4 * d_model)
    decoder = n_decoder_blocks * (2 * attention + mlp + 6 * d_model)
    return (vocab_size + 512) * d_model + encoder + decoder


# wrong: a head of its own
def count_parameters(vocab_size, d_model, d_ff, n_encoder_blocks, n_decoder_blocks):
    attention, mlp = 4 * d_model**2, 2 * d_model * d_ff
    encoder = n_encoder_blocks * (attention + mlp + 4 * d_model)
    decoder = n_decoder_blocks * (2 * attention + mlp + 6 * d_model)
    return 2 * vocab_size * d_model + encoder + decoder


# wrong: counts the package's own stacks
def count_parameters(vocab_size, d_model, d_ff, n_encoder_blocks, n_decoder_blocks):
    from tfcourse import config, stacks

    total = vocab_size * d_model
    sizes = dict(vocab_size=vocab_size, d_model=d_model, d_ff=d_ff, n_heads=1)
    sizes |= dict(norm_position="post", position="sinusoidal", n_layers=1)
    for n, cross in ((n_encoder_blocks, False), (n_decoder_blocks, True)):
        with torch.device("meta"):
            stack = stacks.Stack(config.ModelConfig(**sizes, cross_attention=cross))
        total += n * sum(p.numel() for block in stack.blocks for p in block.parameters())
    return total


# wrong: calls the package's own costs for the encoder
def count_parameters(vocab_size, d_model, d_ff, n_encoder_blocks, n_decoder_blocks):
    from tfcourse import costs
    from tfcourse.config import ModelConfig

    sizes = dict(d_model=d_model, d_ff=d_ff, n_heads=1, norm_position="post")
    sizes |= dict(vocab_size=vocab_size, position="sinusoidal", n_layers=n_encoder_blocks)
    encoder = sum(costs.parameters(ModelConfig(**sizes)).values())
    return encoder + n_decoder_blocks * (8 * d_model**2 + 2 * d_model * d_ff + 6 * d_model)
