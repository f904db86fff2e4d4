import torch
from torch import nn


# right: a lower triangle, moved
def causal_mask(n_queries, n_keys):
    return torch.ones(n_queries, n_keys, dtype=torch.bool).tril(diagonal=n_keys - n_queries)


# right: compares places
def causal_mask(n_queries, n_keys):
    query = torch.arange(n_keys - n_queries, n_keys)[:, None]
    return torch.arange(n_keys) <= query


# right: loops
def causal_mask(n_queries, n_keys):
    mask = torch.zeros(n_queries, n_keys, dtype=torch.bool)
    for i in range(n_queries):
        for j in range(n_keys):
            mask[i, j] = j <= i + n_keys - n_queries
    return mask


# right: what is not above the diagonal
def causal_mask(n_queries, n_keys):
    above = torch.triu(torch.ones(n_queries, n_keys), diagonal=1 + n_keys - n_queries)
    return above == 0


# wrong: top left for more keys than queries
def causal_mask(n_queries, n_keys):
    return torch.ones(n_queries, n_keys, dtype=torch.bool).tril()


# wrong: True where a key is hidden
def causal_mask(n_queries, n_keys):
    return torch.ones(n_queries, n_keys, dtype=torch.bool).triu(diagonal=n_keys - n_queries + 1)


# wrong: no query reads itself
def causal_mask(n_queries, n_keys):
    query = torch.arange(n_queries)[:, None] + n_keys - n_queries
    return torch.arange(n_keys) < query


# wrong: one position of the future
def causal_mask(n_queries, n_keys):
    return torch.ones(n_queries, n_keys, dtype=torch.bool).tril(diagonal=n_keys - n_queries + 1)


# wrong: numbers to add to the scores
def causal_mask(n_queries, n_keys):
    above = torch.ones(n_queries, n_keys, dtype=torch.bool).triu(diagonal=n_keys - n_queries + 1)
    return torch.zeros(n_queries, n_keys).masked_fill(above, float("-inf"))


# wrong: square, whatever the number of keys
def causal_mask(n_queries, n_keys):
    return torch.ones(n_queries, n_queries, dtype=torch.bool).tril()


# wrong: the upper triangle
def causal_mask(n_queries, n_keys):
    return torch.triu(torch.ones(n_queries, n_keys, dtype=torch.bool), n_keys - n_queries)


# wrong: a row for each key
def causal_mask(n_queries, n_keys):
    return torch.ones(n_keys, n_queries, dtype=torch.bool).triu(diagonal=n_queries - n_keys)


# wrong: PyTorch's own, made boolean the wrong way
def causal_mask(n_queries, n_keys):
    return nn.Transformer.generate_square_subsequent_mask(n_keys)[-n_queries:] == 0


# wrong: the earlier keys hidden from all
def causal_mask(n_queries, n_keys):
    square = torch.ones(n_queries, n_queries, dtype=torch.bool).tril()
    return torch.cat([torch.zeros(n_queries, n_keys - n_queries, dtype=torch.bool), square], dim=1)


# wrong: room for the earlier keys on the wrong side
def causal_mask(n_queries, n_keys):
    square = torch.ones(n_queries, n_queries, dtype=torch.bool).tril()
    earlier = torch.ones(n_queries, n_keys - n_queries, dtype=torch.bool)
    return torch.cat([square, earlier], dim=1)


# wrong: calls the package's own causal_mask
def causal_mask(n_queries, n_keys):
    from tfcourse.attention import causal_mask as own

    return own(n_queries, n_keys)
