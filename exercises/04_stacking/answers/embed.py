import math

import torch
import torch.nn.functional as F
from torch import nn


# right: from the equation
def embed(tokens, table, places, scaled):
    x = table[tokens]
    if scaled:
        x = x * math.sqrt(table.shape[1])
    return x + places[: tokens.shape[1]]


# right: with F.embedding and positions as ids
def embed(tokens, table, places, scaled):
    positions = torch.arange(tokens.shape[1]).expand_as(tokens)
    factor = table.shape[1] ** 0.5 if scaled else 1.0
    return factor * F.embedding(tokens, table) + F.embedding(positions, places)


# right: one-hot rows times the table
def embed(tokens, table, places, scaled):
    hot = F.one_hot(tokens, len(table)).to(table.dtype)
    words = torch.einsum("blv,vd->bld", hot, table)
    return words * (table.shape[1] ** (0.5 * scaled)) + places[None, : tokens.shape[-1]]


# wrong: √d over the sum
def embed(tokens, table, places, scaled):
    x = table[tokens] + places[: tokens.shape[1]]
    return x * math.sqrt(table.shape[1]) if scaled else x


# wrong: times d
def embed(tokens, table, places, scaled):
    factor = table.shape[1] if scaled else 1
    return factor * table[tokens] + places[: tokens.shape[1]]


# wrong: divided by √d
def embed(tokens, table, places, scaled):
    factor = 1 / math.sqrt(table.shape[1]) if scaled else 1
    return factor * table[tokens] + places[: tokens.shape[1]]


# wrong: the places of the words
def embed(tokens, table, places, scaled):
    factor = math.sqrt(table.shape[1]) if scaled else 1
    return factor * table[tokens] + places[tokens]


# wrong: no places
def embed(tokens, table, places, scaled):
    return table[tokens] * (math.sqrt(table.shape[1]) if scaled else 1)


# wrong: a place for each row of the batch
def embed(tokens, table, places, scaled):
    factor = math.sqrt(table.shape[1]) if scaled else 1
    return factor * table[tokens] + places[: tokens.shape[0], None]


# wrong: a copy of the table, which does not learn
def embed(tokens, table, places, scaled):
    words = nn.Embedding.from_pretrained(table)(tokens)
    factor = math.sqrt(table.shape[1]) if scaled else 1
    return factor * words + places[: tokens.shape[1]]


# wrong: scales the table in place
def embed(tokens, table, places, scaled):
    if scaled:
        table.data.mul_(math.sqrt(table.shape[1]))
    return table[tokens] + places[: tokens.shape[1]]


# wrong: broadcasts over all places, for one position or for max_len
def embed(tokens, table, places, scaled):
    factor = math.sqrt(table.shape[1]) if scaled else 1
    return factor * table[tokens] + (places if len(places) == tokens.shape[1] else places[0])


# wrong: the square root of the length
def embed(tokens, table, places, scaled):
    factor = math.sqrt(tokens.shape[1]) if scaled else 1
    return factor * table[tokens] + places[: tokens.shape[1]]


# wrong: float32 from half precision
def embed(tokens, table, places, scaled):
    factor = torch.tensor([table.shape[1] ** 0.5]) if scaled else 1
    return factor * table[tokens] + places[: tokens.shape[1]]


# wrong: adds the numbers of the places
def embed(tokens, table, places, scaled):
    factor = math.sqrt(table.shape[1]) if scaled else 1
    return factor * table[tokens] + torch.arange(tokens.shape[1])[:, None]


# wrong: the places the wrong way round
def embed(tokens, table, places, scaled):
    factor = math.sqrt(table.shape[1]) if scaled else 1
    return factor * table[tokens] + places[: tokens.shape[1]].flip(0)


# wrong: word 0 is taken for padding, its row gets no gradient
def embed(tokens, table, places, scaled):
    words = F.embedding(tokens, table, padding_idx=0)
    if scaled:
        words = words * table.shape[1] ** 0.5
    return words + places[: tokens.shape[1]]
