import math

import torch
import torch.nn.functional as F
from torch import nn

from tfcourse.blocks import Block
from tfcourse.config import ModelConfig


class Sound(nn.Module):
    """A right model. Most answers differ from it in one thing."""

    options = {}  # of the blocks

    def __init__(self, vocab_size, d_model, n_layers, n_heads, max_len):
        super().__init__()
        sizes = dict(vocab_size=vocab_size, d_model=d_model, n_layers=n_layers, n_heads=n_heads)
        config = ModelConfig(**sizes | self.options)
        self.words = nn.Embedding(vocab_size, d_model)
        self.places = nn.Embedding(max_len, d_model)
        self.blocks = nn.ModuleList(Block(config) for _ in range(n_layers))
        self.norm = nn.LayerNorm(d_model)
        self.head = nn.Linear(d_model, vocab_size, bias=False)
        self.head.weight = self.words.weight
        for table in (self.words, self.places):
            nn.init.normal_(table.weight, std=min(0.02, 2 / d_model))

    def embed(self, tokens):
        return self.words(tokens) + self.places.weight[: tokens.shape[1]]

    def run(self, x):
        for block in self.blocks:
            x = block(x)
        return x

    def forward(self, tokens):
        return self.head(self.norm(self.run(self.embed(tokens))))

class OwnBlock(nn.Module):
    def __init__(self, d_model, n_heads):
        super().__init__()
        self.n_heads = n_heads
        self.norm1, self.norm2 = nn.LayerNorm(d_model), nn.LayerNorm(d_model)
        self.qkv = nn.Linear(d_model, 3 * d_model, bias=False)
        self.out = nn.Linear(d_model, d_model, bias=False)
        self.up = nn.Linear(d_model, 4 * d_model, bias=False)
        self.down = nn.Linear(4 * d_model, d_model, bias=False)

    def forward(self, x):
        n, length, d = x.shape
        heads = self.qkv(self.norm1(x)).view(n, length, 3, self.n_heads, -1)
        q, k, v = heads.permute(2, 0, 3, 1, 4)
        scores = q @ k.mT / math.sqrt(q.shape[-1])
        later = torch.ones(length, length, dtype=torch.bool).triu(1)
        weights = scores.masked_fill(later, -math.inf).softmax(dim=-1)
        x = x + self.out((weights @ v).transpose(1, 2).reshape(n, length, d))
        return x + self.down(F.gelu(self.up(self.norm2(x))))


# right: with the package's blocks
class TinyDecoder(Sound):
    pass


# right: bare parameters
class TinyDecoder(nn.Module):
    def __init__(self, vocab_size, d_model, n_layers, n_heads, max_len):
        super().__init__()
        config = ModelConfig(vocab_size=vocab_size, d_model=d_model, n_heads=n_heads)
        self.E = nn.Parameter(torch.randn(vocab_size, d_model) / d_model)
        self.P = nn.Parameter(torch.randn(1, max_len, d_model) / d_model)
        self.blocks = nn.Sequential(*[Block(config) for _ in range(n_layers)])
        self.norm = nn.LayerNorm(d_model)

    def forward(self, tokens):
        x = self.blocks(self.E[tokens] + self.P[:, : tokens.shape[1]])
        return torch.einsum("bld,vd->blv", self.norm(x), self.E)


# right: blocks of its own
class TinyDecoder(nn.Module):
    def __init__(self, vocab_size, d_model, n_layers, n_heads, max_len):
        super().__init__()
        self.words = nn.Embedding(vocab_size, d_model)
        self.places = nn.Embedding(max_len, d_model)
        self.blocks = nn.ModuleList([OwnBlock(d_model, n_heads) for _ in range(n_layers)])
        self.norm = nn.LayerNorm(d_model)
        self.register_buffer("positions", torch.arange(max_len))
        nn.init.normal_(self.words.weight, std=1 / d_model)
        nn.init.normal_(self.places.weight, std=1 / d_model)

    def forward(self, tokens):
        x = self.words(tokens) + self.places(self.positions[: tokens.shape[1]])
        for block in self.blocks:
            x = block(x)
        return self.norm(x) @ self.words.weight.T


# right: 0.02 for the tables, small enough beside PyTorch's blocks
class TinyDecoder(Sound):
    def __init__(self, *sizes):
        super().__init__(*sizes)
        for table in (self.words, self.places):
            nn.init.normal_(table.weight, std=0.02)


# wrong: sees the future
class TinyDecoder(Sound):
    options = dict(causal=False)


# wrong: PyTorch's large rows
class TinyDecoder(Sound):
    def __init__(self, *sizes):
        super().__init__(*sizes)
        for table in (self.words, self.places):
            table.reset_parameters()


# wrong: not tied
class TinyDecoder(Sound):
    def __init__(self, *sizes):
        super().__init__(*sizes)
        self.head.weight = nn.Parameter(0.02 * torch.randn_like(self.words.weight))


# wrong: no final norm
class TinyDecoder(Sound):
    def __init__(self, *sizes):
        super().__init__(*sizes)
        self.norm = nn.Identity()


# wrong: the final norm is made and not used
class TinyDecoder(Sound):
    def forward(self, tokens):
        return self.head(self.run(self.embed(tokens)))


# wrong: a Python list of blocks
class TinyDecoder(Sound):
    def __init__(self, *sizes):
        super().__init__(*sizes)
        blocks = list(self.blocks)
        del self.blocks
        self.blocks = blocks


# wrong: one block again and again
class TinyDecoder(Sound):
    def __init__(self, *sizes):
        super().__init__(*sizes)
        self.blocks = nn.ModuleList([self.blocks[0]] * len(self.blocks))


# wrong: no places added
class TinyDecoder(Sound):
    def embed(self, tokens):
        return self.words(tokens)


# wrong: post-norm
class TinyDecoder(Sound):
    options = dict(norm_position='post')


# wrong: the norm before the blocks
class TinyDecoder(Sound):
    def forward(self, tokens):
        return self.head(self.run(self.norm(self.embed(tokens))))


# wrong: √d at the embedding
class TinyDecoder(Sound):
    def embed(self, tokens):
        words = self.words(tokens) * self.words.embedding_dim**0.5
        return words + self.places.weight[: tokens.shape[1]]


# wrong: tables of 1/√d
class TinyDecoder(Sound):
    def __init__(self, *sizes):
        super().__init__(*sizes)
        for table in (self.words, self.places):
            nn.init.normal_(table.weight, std=table.embedding_dim**-0.5)


# wrong: one head
class TinyDecoder(Sound):
    options = dict(n_heads=1)


# wrong: n_heads forgotten
class TinyDecoder(Sound):
    options = dict(n_heads=4)


# wrong: blocks of its own with one head
class TinyDecoder(Sound):
    def __init__(self, vocab_size, d_model, n_layers, n_heads, max_len):
        super().__init__(vocab_size, d_model, n_layers, n_heads, max_len)
        self.blocks = nn.ModuleList(OwnBlock(d_model, 1) for _ in range(n_layers))


# wrong: the last block first
class TinyDecoder(Sound):
    def run(self, x):
        for block in reversed(self.blocks):
            x = block(x)
        return x


# wrong: a table of zeros
class TinyDecoder(Sound):
    def __init__(self, *sizes):
        super().__init__(*sizes)
        for table in (self.words, self.places):
            nn.init.zeros_(table.weight)


# wrong: probabilities
class TinyDecoder(Sound):
    def forward(self, tokens):
        return super().forward(tokens).softmax(dim=-1)


# wrong: biases in the linear layers
class TinyDecoder(Sound):
    options = dict(bias=True)


# wrong: the places of the words
class TinyDecoder(Sound):
    def embed(self, tokens):
        return self.words(tokens) + self.places(tokens % self.places.num_embeddings)


# wrong: skips the last block
class TinyDecoder(Sound):
    def run(self, x):
        for block in self.blocks[:-1]:
            x = block(x)
        return x


# wrong: frozen places
class TinyDecoder(Sound):
    def __init__(self, *sizes):
        super().__init__(*sizes)
        self.places.weight.requires_grad_(False)


# wrong: dropout
class TinyDecoder(Sound):
    options = dict(dropout=0.5)


# wrong: adds the stream once more
class TinyDecoder(Sound):
    def run(self, x):
        for block in self.blocks:
            x = x + block(x)
        return x


# wrong: places by the number of rows
class TinyDecoder(Sound):
    def embed(self, tokens):
        return self.words(tokens) + self.places(torch.arange(tokens.shape[0]))[:, None]


# wrong: scores over √d
class TinyDecoder(Sound):
    def forward(self, tokens):
        return super().forward(tokens) / self.words.embedding_dim**0.5


# wrong: PyTorch's encoder layers, without a mask
class TinyDecoder(Sound):
    def __init__(self, vocab_size, d_model, n_layers, n_heads, max_len):
        super().__init__(vocab_size, d_model, n_layers, n_heads, max_len)
        options = dict(batch_first=True, norm_first=True, bias=False)
        self.blocks = nn.ModuleList(
            nn.TransformerEncoderLayer(d_model, n_heads, 4 * d_model, 0.0, F.gelu, **options)
            for _ in range(n_layers)
        )
