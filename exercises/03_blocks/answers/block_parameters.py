# right: part by part
def block_parameters(d_model, d_ff, n_heads, n_kv_heads):
    d = d_model
    d_k = d // n_heads
    queries, keys, values, output = d * d, n_kv_heads * d_k * d, n_kv_heads * d_k * d, d * d
    return queries + keys + values + output + 2 * d * d_ff + 2 * (2 * d)


# right: from a list of shapes
def block_parameters(d_model, d_ff, n_heads, n_kv_heads):
    kv = d_model // n_heads * n_kv_heads
    norm = [(d_model, 1)] * 2
    matrices = [(d_model, d_model), (d_model, kv), (d_model, kv), (d_model, d_model)]
    matrices += [(d_model, d_ff), (d_ff, d_model)]
    return sum(rows * columns for rows, columns in matrices + norm + norm)


# right: in one formula
def block_parameters(d_model, d_ff, n_heads, n_kv_heads):
    d = d_model
    return 2 * d * (d + d * n_kv_heads // n_heads + d_ff + 2)


# wrong: 12 d² whatever is asked
def block_parameters(d_model, d_ff, n_heads, n_kv_heads):
    d = d_model
    return 12 * d * d


# wrong: 12 d² and the norms
def block_parameters(d_model, d_ff, n_heads, n_kv_heads):
    d = d_model
    return 12 * d * d + 4 * d


# wrong: without the norms
def block_parameters(d_model, d_ff, n_heads, n_kv_heads):
    d = d_model
    d_k = d // n_heads
    return 2 * d * d + 2 * d * n_kv_heads * d_k + 2 * d * d_ff


# wrong: norms with a gain alone
def block_parameters(d_model, d_ff, n_heads, n_kv_heads):
    d = d_model
    d_k = d // n_heads
    return 2 * d * d + 2 * d * n_kv_heads * d_k + 2 * d * d_ff + 2 * d


# wrong: every head at full width
def block_parameters(d_model, d_ff, n_heads, n_kv_heads):
    d = d_model
    return 2 * n_heads * d * d + 2 * n_kv_heads * d * d + 2 * d * d_ff + 4 * d


# wrong: without the output projection
def block_parameters(d_model, d_ff, n_heads, n_kv_heads):
    d = d_model
    d_k = d // n_heads
    return d * d + 2 * d * n_kv_heads * d_k + 2 * d * d_ff + 4 * d


# wrong: with biases
def block_parameters(d_model, d_ff, n_heads, n_kv_heads):
    d = d_model
    kv = n_kv_heads * (d // n_heads)
    matrices = 2 * d * (d + 1) + 2 * (d + 1) * kv + (d + 1) * d_ff + (d_ff + 1) * d
    return matrices + 4 * d


# wrong: keys and values for every query head
def block_parameters(d_model, d_ff, n_heads, n_kv_heads):
    d = d_model
    return 4 * d * d + 2 * d * d_ff + 4 * d


# wrong: as floating-point numbers
def block_parameters(d_model, d_ff, n_heads, n_kv_heads):
    d = d_model
    return 2 * d * d + 2 * d * n_kv_heads * (d / n_heads) + 2 * d * d_ff + 4 * d


# wrong: three matrices in the MLP
def block_parameters(d_model, d_ff, n_heads, n_kv_heads):
    d = d_model
    return 2 * d * d + 2 * d * n_kv_heads * (d // n_heads) + 3 * d * d_ff + 4 * d


# wrong: one norm for the whole block
def block_parameters(d_model, d_ff, n_heads, n_kv_heads):
    d = d_model
    return 2 * d * d + 2 * d * n_kv_heads * (d // n_heads) + 2 * d * d_ff + 2 * d


# wrong: the output projection as narrow as the values
def block_parameters(d_model, d_ff, n_heads, n_kv_heads):
    d = d_model
    kv = n_kv_heads * (d // n_heads)
    return d * d + 3 * d * kv + 2 * d * d_ff + 4 * d


# wrong: keys shared, values not
def block_parameters(d_model, d_ff, n_heads, n_kv_heads):
    d = d_model
    kv = n_kv_heads * (d // n_heads)
    return 3 * d * d + d * kv + 2 * d * d_ff + 4 * d


# wrong: by a share of floating-point numbers
def block_parameters(d_model, d_ff, n_heads, n_kv_heads):
    d = d_model
    share = n_kv_heads / n_heads
    return int(2 * d * d * (1 + share)) + 2 * d * d_ff + 4 * d


# wrong: a division that comes out as 0
def block_parameters(d_model, d_ff, n_heads, n_kv_heads):
    d = d_model
    kv = n_kv_heads // n_heads * d
    return 2 * d * d + 2 * d * kv + 2 * d * d_ff + 4 * d


# wrong: one head of keys and values, whatever n_kv_heads is
def block_parameters(d_model, d_ff, n_heads, n_kv_heads):
    d = d_model
    return 2 * d * d + 2 * d * (d // n_heads) + 2 * d * d_ff + 4 * d


# wrong: calls the package's own parameters
def block_parameters(d_model, d_ff, n_heads, n_kv_heads):
    from tfcourse.config import ModelConfig
    from tfcourse.costs import parameters

    sizes = dict(d_model=d_model, d_ff=d_ff, n_heads=n_heads, n_kv_heads=n_kv_heads)
    counts = parameters(ModelConfig(vocab_size=2, n_layers=1, **sizes))
    return counts["attention"] + counts["feed-forward"] + 4 * d_model


# wrong: live layers counted
def block_parameters(d_model, d_ff, n_heads, n_kv_heads):
    from torch import nn

    kv = d_model // n_heads * n_kv_heads
    shapes = [(d_model, d_model), (d_model, kv), (d_model, kv), (d_model, d_model)]
    shapes += [(d_model, d_ff), (d_ff, d_model)]
    layers = [nn.Linear(a, b, bias=False, device="meta") for a, b in shapes]
    layers += [nn.LayerNorm(d_model), nn.LayerNorm(d_model)]
    return sum(len(p.flatten()) for layer in layers for p in layer.parameters())


# wrong: the values forgotten
def block_parameters(d_model, d_ff, n_heads, n_kv_heads):
    d, d_k = d_model, d_model // n_heads
    return 2 * d * d + d * n_kv_heads * d_k + 2 * d * d_ff + 4 * d
