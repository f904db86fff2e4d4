import math

# right: part by part
def count_parameters(
    vocab_size, d_model, n_layers, n_heads, d_ff, max_len, tied=True, learned=True, bias=False
):
    attention = 4 * d_model * d_model
    mlp = 2 * d_model * d_ff
    norms = 4 * d_model
    biases = 5 * d_model + d_ff if bias else 0
    total = vocab_size * d_model + n_layers * (attention + mlp + norms + biases) + 2 * d_model
    if not tied:
        total += vocab_size * d_model
    if learned:
        total += max_len * d_model
    return total


# right: from a list of shapes
def count_parameters(
    vocab_size, d_model, n_layers, n_heads, d_ff, max_len, tied=True, learned=True, bias=False
):
    def linear(a, b):
        return a * b + (b if bias else 0)

    block = linear(d_model, 3 * d_model) + linear(d_model, d_model)
    block += linear(d_model, d_ff) + linear(d_ff, d_model) + 2 * (2 * d_model)
    tables = (2 - bool(tied)) * vocab_size + (max_len if learned else 0)
    return tables * d_model + n_layers * block + 2 * d_model


# wrong: a tied head counted twice
def count_parameters(
    vocab_size, d_model, n_layers, n_heads, d_ff, max_len, tied=True, learned=True, bias=False
):
    biases = 5 * d_model + d_ff if bias else 0
    block = 4 * d_model**2 + 2 * d_model * d_ff + 4 * d_model + biases
    places = max_len if learned else 0
    return (2 * vocab_size + places) * d_model + n_layers * block + 2 * d_model


# wrong: the final norm forgotten
def count_parameters(
    vocab_size, d_model, n_layers, n_heads, d_ff, max_len, tied=True, learned=True, bias=False
):
    biases = 5 * d_model + d_ff if bias else 0
    block = 4 * d_model**2 + 2 * d_model * d_ff + 4 * d_model + biases
    tables = (2 - tied) * vocab_size + (max_len if learned else 0)
    return tables * d_model + n_layers * block


# wrong: 12 d² in each block
def count_parameters(
    vocab_size, d_model, n_layers, n_heads, d_ff, max_len, tied=True, learned=True, bias=False
):
    biases = 9 * d_model if bias else 0
    block = 12 * d_model**2 + 4 * d_model + biases
    tables = (2 - tied) * vocab_size + (max_len if learned else 0)
    return tables * d_model + n_layers * block + 2 * d_model


# wrong: every head has its own matrices
def count_parameters(
    vocab_size, d_model, n_layers, n_heads, d_ff, max_len, tied=True, learned=True, bias=False
):
    biases = 5 * d_model + d_ff if bias else 0
    block = 4 * n_heads * d_model**2 + 2 * d_model * d_ff + 4 * d_model + biases
    tables = (2 - tied) * vocab_size + (max_len if learned else 0)
    return tables * d_model + n_layers * block + 2 * d_model


# wrong: norms with γ alone
def count_parameters(
    vocab_size, d_model, n_layers, n_heads, d_ff, max_len, tied=True, learned=True, bias=False
):
    biases = 5 * d_model + d_ff if bias else 0
    block = 4 * d_model**2 + 2 * d_model * d_ff + 2 * d_model + biases
    tables = (2 - tied) * vocab_size + (max_len if learned else 0)
    return tables * d_model + n_layers * block + d_model


# wrong: the places, learned or not
def count_parameters(
    vocab_size, d_model, n_layers, n_heads, d_ff, max_len, tied=True, learned=True, bias=False
):
    biases = 5 * d_model + d_ff if bias else 0
    block = 4 * d_model**2 + 2 * d_model * d_ff + 4 * d_model + biases
    tables = (2 - tied) * vocab_size + max_len
    return tables * d_model + n_layers * block + 2 * d_model


# wrong: a bias for the head
def count_parameters(
    vocab_size, d_model, n_layers, n_heads, d_ff, max_len, tied=True, learned=True, bias=False
):
    biases = 5 * d_model + d_ff if bias else 0
    block = 4 * d_model**2 + 2 * d_model * d_ff + 4 * d_model + biases
    tables = (2 - tied) * vocab_size + (max_len if learned else 0)
    return tables * d_model + n_layers * block + 2 * d_model + (vocab_size if bias else 0)


# wrong: one bias for queries, keys and values together
def count_parameters(
    vocab_size, d_model, n_layers, n_heads, d_ff, max_len, tied=True, learned=True, bias=False
):
    biases = 3 * d_model + d_ff if bias else 0
    block = 4 * d_model**2 + 2 * d_model * d_ff + 4 * d_model + biases
    tables = (2 - tied) * vocab_size + (max_len if learned else 0)
    return tables * d_model + n_layers * block + 2 * d_model


# wrong: a float
def count_parameters(
    vocab_size, d_model, n_layers, n_heads, d_ff, max_len, tied=True, learned=True, bias=False
):
    biases = 5 * d_model + d_ff if bias else 0
    block = 4 * d_model**2 + 2 * d_model * d_ff + 4 * d_model + biases
    tables = vocab_size * (1e0 if tied else 2e0) + (max_len if learned else 0)
    return tables * d_model + n_layers * block + 2 * d_model


# wrong: the chapter's number
def count_parameters(
    vocab_size, d_model, n_layers, n_heads, d_ff, max_len, tied=True, learned=True, bias=False
):
    return 19_661_824


# wrong: without a block's biases, and the output's weights left out
def count_parameters(
    vocab_size, d_model, n_layers, n_heads, d_ff, max_len, tied=True, learned=True, bias=False
):
    block = 3 * d_model**2 + 2 * d_model * d_ff + 4 * d_model
    tables = (2 - tied) * vocab_size + (max_len if learned else 0)
    return tables * d_model + n_layers * block + 2 * d_model


# wrong: a norm in each block, and one at the end
def count_parameters(
    vocab_size, d_model, n_layers, n_heads, d_ff, max_len, tied=True, learned=True, bias=False
):
    biases = 5 * d_model + d_ff if bias else 0
    block = 4 * d_model**2 + 2 * d_model * d_ff + 2 * d_model + biases
    tables = (2 - tied) * vocab_size + (max_len if learned else 0)
    return tables * d_model + n_layers * block + 2 * d_model


# wrong: tied means that neither has a matrix
def count_parameters(
    vocab_size, d_model, n_layers, n_heads, d_ff, max_len, tied=True, learned=True, bias=False
):
    biases = 5 * d_model + d_ff if bias else 0
    block = 4 * d_model**2 + 2 * d_model * d_ff + 4 * d_model + biases
    tables = (0 if tied else vocab_size) + (max_len if learned else 0)
    return tables * d_model + n_layers * block + 2 * d_model


# wrong: a gate in the MLP
def count_parameters(
    vocab_size, d_model, n_layers, n_heads, d_ff, max_len, tied=True, learned=True, bias=False
):
    biases = 5 * d_model + d_ff if bias else 0
    block = 4 * d_model**2 + 3 * d_model * d_ff + 4 * d_model + biases
    tables = (2 - tied) * vocab_size + (max_len if learned else 0)
    return tables * d_model + n_layers * block + 2 * d_model


# right: shapes in a list, math.prod
def count_parameters(
    vocab_size, d_model, n_layers, n_heads, d_ff, max_len, tied=True, learned=True, bias=False
):
    def linear(n_in, n_out):
        return [(n_out, n_in)] + ([(n_out,)] if bias else [])

    norm = [(d_model,), (d_model,)]
    shapes = [(vocab_size, d_model)]
    if learned:
        shapes.append((max_len, d_model))
    for _ in range(n_layers):
        for _ in range(4):
            shapes += linear(d_model, d_model)
        shapes += linear(d_model, d_ff) + linear(d_ff, d_model) + norm + norm
    shapes += norm
    if not tied:
        shapes.append((vocab_size, d_model))
    return int(sum(math.prod(shape) for shape in shapes))


# wrong: other defaults (untied)
def count_parameters(
    vocab_size, d_model, n_layers, n_heads, d_ff, max_len, tied=False, learned=True, bias=False
):
    d = d_model
    block = 4 * d * d + 2 * d * d_ff + 4 * d + (5 * d + d_ff if bias else 0)
    total = vocab_size * d * (1 if tied else 2) + n_layers * block + 2 * d
    return total + max_len * d if learned else total


# wrong: attention's output has no bias
def count_parameters(
    vocab_size, d_model, n_layers, n_heads, d_ff, max_len, tied=True, learned=True, bias=False
):
    d = d_model
    block = 4 * d * d + 2 * d * d_ff + 4 * d + (4 * d + d_ff if bias else 0)
    return vocab_size * d * (2 - tied) + learned * max_len * d + n_layers * block + 2 * d


# wrong: the MLP's biases are both counted as d
def count_parameters(
    vocab_size, d_model, n_layers, n_heads, d_ff, max_len, tied=True, learned=True, bias=False
):
    d = d_model
    block = 4 * d * d + 2 * d * d_ff + 4 * d + (6 * d if bias else 0)
    return vocab_size * d * (2 - tied) + learned * max_len * d + n_layers * block + 2 * d


# wrong: calls the package's own parameters
def count_parameters(
    vocab_size, d_model, n_layers, n_heads, d_ff, max_len, tied=True, learned=True, bias=False
):
    from tfcourse import costs
    from tfcourse.config import ModelConfig

    sizes = dict(vocab_size=vocab_size, d_model=d_model, n_layers=n_layers, n_heads=n_heads)
    position = "learned" if learned else "none"
    options = dict(tie_embeddings=tied, position=position, bias=bias, d_ff=d_ff, max_len=max_len)
    return sum(costs.parameters(ModelConfig(**sizes, **options)).values())
