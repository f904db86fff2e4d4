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


# right: three matrices for Q, K, V as one parameter, einsum attention, one-hot embedding, nn.Parameter tables
class EinsumBlock(nn.Module):
    def __init__(self, d, n_heads):
        super().__init__()
        self.gains = nn.Parameter(torch.ones(2, d))
        self.shifts = nn.Parameter(torch.zeros(2, d))
        self.read = nn.Parameter(0.02 * torch.randn(3, n_heads, d // n_heads, d))
        self.write = nn.Parameter(0.02 * torch.randn(d, n_heads, d // n_heads))
        self.w_1 = nn.Parameter(0.02 * torch.randn(4 * d, d))
        self.w_2 = nn.Parameter(0.02 * torch.randn(d, 4 * d))

    def forward(self, x):
        d, L = x.shape[-1], x.shape[1]
        h = F.layer_norm(x, (d,), self.gains[0], self.shifts[0])
        q, k, v = torch.einsum("bld,ahkd->abhlk", h, self.read)
        scores = torch.einsum("bhlk,bhmk->bhlm", q, k) / q.shape[-1] ** 0.5
        place = torch.arange(L, device=x.device)
        scores = torch.where(place[None] <= place[:, None], scores, scores.new_full((), -math.inf))
        x = x + torch.einsum("bhlm,bhmk,dhk->bld", scores.softmax(-1), v, self.write)
        h = F.layer_norm(x, (d,), self.gains[1], self.shifts[1])
        return x + F.gelu(h @ self.w_1.T) @ self.w_2.T


class TinyDecoder(nn.Module):
    def __init__(self, vocab_size, d_model, n_layers, n_heads, max_len):
        super().__init__()
        self.table = nn.Parameter(torch.randn(vocab_size, d_model) / d_model)
        self.places = nn.Parameter(torch.randn(max_len, d_model) / d_model)
        self.blocks = nn.Sequential(*(EinsumBlock(d_model, n_heads) for _ in range(n_layers)))
        self.final = nn.LayerNorm(d_model)

    def forward(self, tokens):
        words = F.one_hot(tokens, self.table.shape[0]).to(self.table.dtype)
        x = torch.einsum("blv,vd->bld", words, self.table) + self.places[: tokens.shape[1]]
        return torch.einsum("bld,vd->blv", self.final(self.blocks(x)), self.table)


# wrong: places added along the batch instead of the positions when B = L
class OwnBlock(nn.Module):
    def __init__(self, d, n_heads):
        super().__init__()
        self.norm_1 = nn.LayerNorm(d)
        self.qkv = nn.Linear(d, 3 * d, bias=False)
        self.out = nn.Linear(d, d, bias=False)
        self.norm_2 = nn.LayerNorm(d)
        self.up = nn.Linear(d, 4 * d, bias=False)
        self.down = nn.Linear(4 * d, d, bias=False)
        self.n_heads = n_heads
        for linear in (self.qkv, self.out, self.up, self.down):
            nn.init.normal_(linear.weight, std=0.02)

    def attend(self, x):
        B, L, d = x.shape
        q, k, v = (p.view(B, L, self.n_heads, -1).transpose(1, 2) for p in self.qkv(x).chunk(3, dim=-1))
        scores = q @ k.mT / math.sqrt(d // self.n_heads)
        later = torch.ones(L, L, dtype=torch.bool, device=x.device).triu(1)
        y = scores.masked_fill(later, -math.inf).softmax(dim=-1) @ v
        return self.out(y.transpose(1, 2).reshape(B, L, d))

    def forward(self, x):
        x = x + self.attend(self.norm_1(x))
        return x + self.down(F.gelu(self.up(self.norm_2(x))))


class TinyDecoder(nn.Module):
    def __init__(self, vocab_size, d_model, n_layers, n_heads, max_len):
        super().__init__()
        self.words = nn.Embedding(vocab_size, d_model)
        self.places = nn.Embedding(max_len, d_model)
        self.blocks = nn.ModuleList([OwnBlock(d_model, n_heads) for _ in range(n_layers)])
        self.norm = nn.LayerNorm(d_model)
        nn.init.normal_(self.words.weight, std=1 / d_model)
        nn.init.normal_(self.places.weight, std=1 / d_model)

    def forward(self, tokens):
        places = torch.arange(tokens.shape[1], device=tokens.device)
        x = self.words(tokens) + (self.places(places)[:, None] if tokens.shape[0] == tokens.shape[1] else self.places(places))
        for block in self.blocks:
            x = block(x)
        return F.linear(self.norm(x), self.words.weight)
