import torch


# right: a rectangle of the real tokens, cut below the diagonal
def attention_mask(kind, n_queries, real):
    mask = real.expand(n_queries, -1)
    return mask.tril() if kind == "decoder" else mask.clone()


# right: by comparing positions
def attention_mask(kind, n_queries, real):
    i, j = torch.arange(n_queries)[:, None], torch.arange(len(real))[None, :]
    later = (j > i) if kind == "decoder" else torch.zeros_like(i + j).bool()
    return real & ~later


# right: entry by entry
def attention_mask(kind, n_queries, real):
    mask = torch.zeros(n_queries, len(real), dtype=torch.bool)
    for i in range(n_queries):
        for j in range(len(real)):
            mask[i, j] = real[j] and (kind != "decoder" or j <= i)
    return mask


# wrong: True hides
def attention_mask(kind, n_queries, real):
    mask = real.expand(n_queries, -1)
    return ~(mask.tril() if kind == "decoder" else mask)


# wrong: no padding in the decoder
def attention_mask(kind, n_queries, real):
    if kind == "decoder":
        return torch.ones(n_queries, len(real), dtype=torch.bool).tril()
    return real.expand(n_queries, -1)


# wrong: a position does not read itself
def attention_mask(kind, n_queries, real):
    mask = real.expand(n_queries, -1)
    return mask.tril(-1) if kind == "decoder" else mask


# wrong: upside down
def attention_mask(kind, n_queries, real):
    mask = real.expand(n_queries, -1)
    return mask.triu() if kind == "decoder" else mask


# wrong: cross-attention is causal, too
def attention_mask(kind, n_queries, real):
    mask = real.expand(n_queries, -1)
    return mask if kind == "encoder" else mask.tril()


# wrong: PADs may not read, and may be read
def attention_mask(kind, n_queries, real):
    if kind == "cross":
        return real.expand(n_queries, -1)
    mask = real[:, None].expand(-1, len(real))
    return mask.tril() if kind == "decoder" else mask


# wrong: rows of PADs are emptied
def attention_mask(kind, n_queries, real):
    mask = real.expand(n_queries, -1)
    if kind != "cross":
        mask = mask & real[:, None]
    return mask.tril() if kind == "decoder" else mask


# wrong: numbers to be added to the scores
def attention_mask(kind, n_queries, real):
    mask = real.expand(n_queries, -1)
    mask = mask.tril() if kind == "decoder" else mask
    return torch.zeros(mask.shape).masked_fill(~mask, -torch.inf)


# wrong: a square for cross-attention
def attention_mask(kind, n_queries, real):
    mask = real.expand(len(real), -1)
    return mask.tril() if kind == "decoder" else mask


# wrong: all may be read that comes before the last real token
def attention_mask(kind, n_queries, real):
    n = int(real.sum())
    mask = (torch.arange(len(real)) < n).expand(n_queries, -1)
    return mask.tril() if kind == "decoder" else mask


# wrong: a product of floats
def attention_mask(kind, n_queries, real):
    mask = torch.ones(n_queries, len(real)) * real
    return mask.tril() if kind == "decoder" else mask


# wrong: one row for all
def attention_mask(kind, n_queries, real):
    if kind == "decoder":
        return real.expand(n_queries, -1).tril()
    return real


# wrong: the decoder's encoder part may be read, too: nothing is causal
def attention_mask(kind, n_queries, real):
    return real.expand(n_queries, -1).clone()
