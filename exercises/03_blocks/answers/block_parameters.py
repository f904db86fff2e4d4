# right: part by part
def block_parameters(d, d_ff, n_heads, n_kv_heads):
    d_k = d // n_heads
    queries, keys, values, output = d * d, n_kv_heads * d_k * d, n_kv_heads * d_k * d, d * d
    return queries + keys + values + output + 2 * d * d_ff + 2 * (2 * d)


# right: live layers counted
def block_parameters(d, d_ff, n_heads, n_kv_heads):
    from torch import nn

    kv = d // n_heads * n_kv_heads
    shapes = [(d, d), (d, kv), (d, kv), (d, d), (d, d_ff), (d_ff, d)]
    with __import__("torch").device("meta"):
        layers = [nn.Linear(a, b, bias=False) for a, b in shapes] + [nn.LayerNorm(d)] * 2
    count = 0
    for layer in layers:
        for p in layer.parameters():
            count += p.shape[0] * (p.shape[1] if p.ndim == 2 else 1)
    return count


# right: in one formula
def block_parameters(d, d_ff, n_heads, n_kv_heads):
    return 2 * d * (d + d * n_kv_heads // n_heads + d_ff + 2)


# wrong: 12 d² whatever is asked
def block_parameters(d, d_ff, n_heads, n_kv_heads):
    return 12 * d * d


# wrong: 12 d² and the norms
def block_parameters(d, d_ff, n_heads, n_kv_heads):
    return 12 * d * d + 4 * d


# wrong: without the norms
def block_parameters(d, d_ff, n_heads, n_kv_heads):
    d_k = d // n_heads
    return 2 * d * d + 2 * d * n_kv_heads * d_k + 2 * d * d_ff


# wrong: norms with a gain alone
def block_parameters(d, d_ff, n_heads, n_kv_heads):
    d_k = d // n_heads
    return 2 * d * d + 2 * d * n_kv_heads * d_k + 2 * d * d_ff + 2 * d


# wrong: every head at full width
def block_parameters(d, d_ff, n_heads, n_kv_heads):
    return 2 * n_heads * d * d + 2 * n_kv_heads * d * d + 2 * d * d_ff + 4 * d


# wrong: without the output projection
def block_parameters(d, d_ff, n_heads, n_kv_heads):
    d_k = d // n_heads
    return d * d + 2 * d * n_kv_heads * d_k + 2 * d * d_ff + 4 * d


# wrong: with biases
def block_parameters(d, d_ff, n_heads, n_kv_heads):
    kv = n_kv_heads * (d // n_heads)
    matrices = 2 * d * (d + 1) + 2 * (d + 1) * kv + (d + 1) * d_ff + (d_ff + 1) * d
    return matrices + 4 * d


# wrong: keys and values for every query head
def block_parameters(d, d_ff, n_heads, n_kv_heads):
    return 4 * d * d + 2 * d * d_ff + 4 * d


# wrong: as floating-point numbers
def block_parameters(d, d_ff, n_heads, n_kv_heads):
    return 2 * d * d + 2 * d * n_kv_heads * (d / n_heads) + 2 * d * d_ff + 4 * d


# wrong: three matrices in the MLP
def block_parameters(d, d_ff, n_heads, n_kv_heads):
    return 2 * d * d + 2 * d * n_kv_heads * (d // n_heads) + 3 * d * d_ff + 4 * d


# wrong: one norm for the whole block
def block_parameters(d, d_ff, n_heads, n_kv_heads):
    return 2 * d * d + 2 * d * n_kv_heads * (d // n_heads) + 2 * d * d_ff + 2 * d


# wrong: the output projection as narrow as the values
def block_parameters(d, d_ff, n_heads, n_kv_heads):
    kv = n_kv_heads * (d // n_heads)
    return d * d + 3 * d * kv + 2 * d * d_ff + 4 * d


# wrong: keys shared, values not
def block_parameters(d, d_ff, n_heads, n_kv_heads):
    kv = n_kv_heads * (d // n_heads)
    return 3 * d * d + d * kv + 2 * d * d_ff + 4 * d


# wrong: by a share of floating-point numbers
def block_parameters(d, d_ff, n_heads, n_kv_heads):
    share = n_kv_heads / n_heads
    return int(2 * d * d * (1 + share)) + 2 * d * d_ff + 4 * d


# wrong: a division that comes out as 0
def block_parameters(d, d_ff, n_heads, n_kv_heads):
    kv = n_kv_heads // n_heads * d
    return 2 * d * d + 2 * d * kv + 2 * d * d_ff + 4 * d


# wrong: one head of keys and values, whatever n_kv_heads is
def block_parameters(d, d_ff, n_heads, n_kv_heads):
    return 2 * d * d + 2 * d * (d // n_heads) + 2 * d * d_ff + 4 * d
