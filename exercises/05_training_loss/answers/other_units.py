import math

import torch


# right: from the mean
def other_units(nats, n_tokens, n_bytes):
    bits = nats / math.log(2)
    return math.exp(nats / n_tokens), bits / n_tokens, bits / n_bytes


# right: perplexity as 2 to the power of bits, as tensors
def other_units(nats, n_tokens, n_bytes):
    per_token = torch.tensor(nats) * math.log2(math.e) / n_tokens
    return 2**per_token, per_token, per_token * n_tokens / n_bytes


# wrong: bits times ln 2
def other_units(nats, n_tokens, n_bytes):
    bits = nats * math.log(2)
    return math.exp(nats / n_tokens), bits / n_tokens, bits / n_bytes


# wrong: 2 to the power of nats
def other_units(nats, n_tokens, n_bytes):
    bits = nats / math.log(2)
    return 2 ** (nats / n_tokens), bits / n_tokens, bits / n_bytes


# wrong: the perplexity of the whole text
def other_units(nats, n_tokens, n_bytes):
    bits = nats / math.log(2)
    return math.exp(nats), bits / n_tokens, bits / n_bytes


# wrong: tokens and bytes swapped
def other_units(nats, n_tokens, n_bytes):
    bits = nats / math.log(2)
    return math.exp(nats / n_tokens), bits / n_bytes, bits / n_tokens


# wrong: the root of the inverse probability of the whole text, which overflows
def other_units(nats, n_tokens, n_bytes):
    bits = nats / math.log(2)
    return math.exp(nats) ** (1 / n_tokens), bits / n_tokens, bits / n_bytes


# wrong: a byte is always eight bits of a token
def other_units(nats, n_tokens, n_bytes):
    per_token = nats / n_tokens / math.log(2)
    return math.exp(nats / n_tokens), per_token, per_token / 8


# wrong: the logarithm of the loss
def other_units(nats, n_tokens, n_bytes):
    return math.exp(nats / n_tokens), math.log2(nats / n_tokens), math.log2(nats / n_bytes)


# wrong: the numbers of the example
def other_units(nats, n_tokens, n_bytes):
    return 4.0, 2.0, 0.5


# wrong: perplexity from bits with e
def other_units(nats, n_tokens, n_bytes):
    bits = nats / math.log(2)
    return math.exp(bits / n_tokens), bits / n_tokens, bits / n_bytes


# wrong: perplexity negative exponent
def other_units(nats, n_tokens, n_bytes):
    bits = nats / math.log(2)
    return math.exp(-nats / n_tokens), bits / n_tokens, bits / n_bytes
