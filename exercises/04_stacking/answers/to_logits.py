import math

import torch
import torch.nn.functional as F


# right: from the equation
def to_logits(x, norm, weight, bias):
    z = norm(x) @ weight.T
    return z if bias is None else z + bias


# right: F.linear
def to_logits(x, norm, weight, bias):
    return F.linear(norm(x), weight, bias)


# right: einsum
def to_logits(x, norm, weight, bias):
    z = torch.einsum("bld,vd->blv", norm(x), weight)
    if bias is not None:
        z = z + bias[None, None]
    return z


# wrong: no norm
def to_logits(x, norm, weight, bias):
    return F.linear(x, weight, bias)


# wrong: no bias
def to_logits(x, norm, weight, bias):
    return norm(x) @ weight.T


# wrong: probabilities
def to_logits(x, norm, weight, bias):
    return F.linear(norm(x), weight, bias).softmax(dim=-1)


# wrong: log-probabilities
def to_logits(x, norm, weight, bias):
    return F.linear(norm(x), weight, bias).log_softmax(dim=-1)


# wrong: a norm of its own, without γ and β
def to_logits(x, norm, weight, bias):
    return F.linear(F.layer_norm(x, x.shape[-1:]), weight, bias)


# wrong: the norm after the head
def to_logits(x, norm, weight, bias):
    z = F.linear(x, weight, bias)
    return (z - z.mean(-1, keepdim=True)) / z.std(-1, keepdim=True)


# wrong: W without its transpose
def to_logits(x, norm, weight, bias):
    z = norm(x) @ (weight if weight.shape[0] == weight.shape[1] else weight.T)
    return z if bias is None else z + bias


# wrong: the last position only
def to_logits(x, norm, weight, bias):
    return F.linear(norm(x[:, -1:]), weight, bias)


# wrong: adds the stream to its norm
def to_logits(x, norm, weight, bias):
    return F.linear(x + norm(x), weight, bias)


# wrong: scores over √d, as in attention
def to_logits(x, norm, weight, bias):
    z = norm(x) @ weight.T / math.sqrt(x.shape[-1])
    return z if bias is None else z + bias


# wrong: one probability, by a sigmoid
def to_logits(x, norm, weight, bias):
    return torch.sigmoid(F.linear(norm(x), weight, bias))


# wrong: the words chosen
def to_logits(x, norm, weight, bias):
    return F.linear(norm(x), weight, bias).argmax(dim=-1)


# wrong: normalizes twice
def to_logits(x, norm, weight, bias):
    x = norm(x)
    return F.linear(norm(x), weight, bias)


# wrong: reshaped instead of transposed
def to_logits(x, norm, weight, bias):
    z = norm(x) @ weight.reshape(weight.shape[1], weight.shape[0])
    return z if bias is None else z + bias
