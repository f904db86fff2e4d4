import math

import torch
import torch.nn.functional as F
from torch import nn


# right: nn.Embedding and nn.Linear share one Parameter
class TiedModel(nn.Module):
    def __init__(self, vocab_size, d_model, body):
        super().__init__()
        self.embedding = nn.Embedding(vocab_size, d_model)
        self.body = body
        self.head = nn.Linear(d_model, vocab_size, bias=False)
        self.head.weight = self.embedding.weight

    def forward(self, tokens):
        return self.head(self.body(self.embedding(tokens)))


# right: one bare Parameter
class TiedModel(nn.Module):
    def __init__(self, vocab_size, d_model, body):
        super().__init__()
        self.table = nn.Parameter(0.02 * torch.randn(vocab_size, d_model))
        self.body = body

    def forward(self, tokens):
        return self.body(self.table[tokens]) @ self.table.T


# right: the head's matrix is looked up
class TiedModel(nn.Module):
    def __init__(self, vocab_size, d_model, body):
        super().__init__()
        self.head = nn.Linear(d_model, vocab_size, bias=False)
        self.body = body

    def forward(self, tokens):
        return self.head(self.body(F.embedding(tokens, self.head.weight)))


# wrong: two matrices
class TiedModel(nn.Module):
    def __init__(self, vocab_size, d_model, body):
        super().__init__()
        self.embedding = nn.Embedding(vocab_size, d_model)
        self.body = body
        self.head = nn.Linear(d_model, vocab_size, bias=False)

    def forward(self, tokens):
        return self.head(self.body(self.embedding(tokens)))


# wrong: copied once
class TiedModel(nn.Module):
    def __init__(self, vocab_size, d_model, body):
        super().__init__()
        self.embedding = nn.Embedding(vocab_size, d_model)
        self.body = body
        self.head = nn.Linear(d_model, vocab_size, bias=False)
        with torch.no_grad():
            self.head.weight.copy_(self.embedding.weight)

    def forward(self, tokens):
        return self.head(self.body(self.embedding(tokens)))


# wrong: shares .data, but not the Parameter
class TiedModel(nn.Module):
    def __init__(self, vocab_size, d_model, body):
        super().__init__()
        self.embedding = nn.Embedding(vocab_size, d_model)
        self.body = body
        self.head = nn.Linear(d_model, vocab_size, bias=False)
        self.head.weight.data = self.embedding.weight.data

    def forward(self, tokens):
        return self.head(self.body(self.embedding(tokens)))


# wrong: a new Parameter of the same numbers
class TiedModel(nn.Module):
    def __init__(self, vocab_size, d_model, body):
        super().__init__()
        self.embedding = nn.Embedding(vocab_size, d_model)
        self.body = body
        self.head = nn.Linear(d_model, vocab_size, bias=False)
        self.head.weight = nn.Parameter(self.embedding.weight.detach().clone())

    def forward(self, tokens):
        return self.head(self.body(self.embedding(tokens)))


# wrong: the head reads a detached table
class TiedModel(nn.Module):
    def __init__(self, vocab_size, d_model, body):
        super().__init__()
        self.embedding = nn.Embedding(vocab_size, d_model)
        self.body = body

    def forward(self, tokens):
        return F.linear(self.body(self.embedding(tokens)), self.embedding.weight.detach())


# wrong: the embedding reads .data
class TiedModel(nn.Module):
    def __init__(self, vocab_size, d_model, body):
        super().__init__()
        self.body = body
        self.head = nn.Linear(d_model, vocab_size, bias=False)

    def forward(self, tokens):
        return self.head(self.body(self.head.weight.data[tokens]))


# wrong: a bias in the head
class TiedModel(nn.Module):
    def __init__(self, vocab_size, d_model, body):
        super().__init__()
        self.embedding = nn.Embedding(vocab_size, d_model)
        self.body = body
        self.head = nn.Linear(d_model, vocab_size)
        self.head.weight = self.embedding.weight
        nn.init.zeros_(self.head.bias)

    def forward(self, tokens):
        return self.head(self.body(self.embedding(tokens)))


# wrong: no body
class TiedModel(nn.Module):
    def __init__(self, vocab_size, d_model, body):
        super().__init__()
        self.embedding = nn.Embedding(vocab_size, d_model)

    def forward(self, tokens):
        return self.embedding(tokens) @ self.embedding.weight.T


# wrong: the transpose is taken when the model is built
class TiedModel(nn.Module):
    def __init__(self, vocab_size, d_model, body):
        super().__init__()
        self.embedding = nn.Embedding(vocab_size, d_model)
        self.body = body
        self.out = self.embedding.weight.T.clone()

    def forward(self, tokens):
        return self.body(self.embedding(tokens)) @ self.out


# wrong: a plain tensor, no Parameter
class TiedModel(nn.Module):
    def __init__(self, vocab_size, d_model, body):
        super().__init__()
        self.register_buffer("table", torch.randn(vocab_size, d_model))
        self.body = body

    def forward(self, tokens):
        return self.body(self.table[tokens]) @ self.table.T


# wrong: word 0 taken for padding
class TiedModel(nn.Module):
    def __init__(self, vocab_size, d_model, body):
        super().__init__()
        self.embedding = nn.Embedding(vocab_size, d_model, padding_idx=0)
        self.body = body

    def forward(self, tokens):
        return self.body(self.embedding(tokens)) @ self.embedding.weight.T


# wrong: √d on the way in
class TiedModel(nn.Module):
    def __init__(self, vocab_size, d_model, body):
        super().__init__()
        self.embedding = nn.Embedding(vocab_size, d_model)
        self.body, self.scale = body, math.sqrt(d_model)

    def forward(self, tokens):
        return self.body(self.scale * self.embedding(tokens)) @ self.embedding.weight.T


# wrong: tied too late, at the first forward pass
class TiedModel(nn.Module):
    def __init__(self, vocab_size, d_model, body):
        super().__init__()
        self.embedding = nn.Embedding(vocab_size, d_model)
        self.body = body
        self.head = nn.Linear(d_model, vocab_size, bias=False)

    def forward(self, tokens):
        self.head.weight = self.embedding.weight
        return self.head(self.body(self.embedding(tokens)))


# wrong: copied at every forward pass
class TiedModel(nn.Module):
    def __init__(self, vocab_size, d_model, body):
        super().__init__()
        self.embedding = nn.Embedding(vocab_size, d_model)
        self.body = body
        self.head = nn.Linear(d_model, vocab_size, bias=False)

    def forward(self, tokens):
        self.head.weight.data.copy_(self.embedding.weight.data)
        return self.head(self.body(self.embedding(tokens)))


# wrong: a table that lies on its side
class TiedModel(nn.Module):
    def __init__(self, vocab_size, d_model, body):
        super().__init__()
        self.table = nn.Parameter(torch.randn(d_model, vocab_size))
        self.body = body

    def forward(self, tokens):
        return self.body(self.table.T[tokens]) @ self.table


# wrong: a frozen table
class TiedModel(nn.Module):
    def __init__(self, vocab_size, d_model, body):
        super().__init__()
        self.embedding = nn.Embedding.from_pretrained(torch.randn(vocab_size, d_model))
        self.body = body

    def forward(self, tokens):
        return self.body(self.embedding(tokens)) @ self.embedding.weight.T


# wrong: the body is hidden in a list, and its parameters with it
class TiedModel(nn.Module):
    def __init__(self, vocab_size, d_model, body):
        super().__init__()
        self.table = nn.Parameter(torch.randn(vocab_size, d_model))
        self.parts = [body]

    def forward(self, tokens):
        return self.parts[0](self.table[tokens]) @ self.table.T
