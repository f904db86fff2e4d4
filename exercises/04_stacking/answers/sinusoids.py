import math

import torch


# right: two slices
def sinusoids(positions, d_model):
    rates = 10_000.0 ** (-torch.arange(0, d_model, 2) / d_model)
    angles = positions[:, None] * rates
    out = torch.empty(len(positions), d_model)
    out[:, 0::2] = angles.sin()
    out[:, 1::2] = angles.cos()
    return out


# right: stacked, with exp and log
def sinusoids(positions, d_model):
    rates = torch.exp(-math.log(10_000.0) * torch.arange(0, d_model, 2).float() / d_model)
    angles = torch.outer(positions.float(), rates)
    return torch.stack((angles.sin(), angles.cos()), dim=-1).reshape(len(positions), d_model)


# right: a loop over numbers
def sinusoids(positions, d_model):
    rows = []
    for p in positions.tolist():
        row = []
        for pair in range(d_model // 2):
            angle = p / 10_000 ** (2 * pair / d_model)
            row += [math.sin(angle), math.cos(angle)]
        rows.append(row)
    return torch.tensor(rows)


# wrong: all sines, then all cosines
def sinusoids(positions, d_model):
    angles = positions[:, None] * 10_000.0 ** (-torch.arange(0, d_model, 2) / d_model)
    return torch.cat([angles.sin(), angles.cos()], dim=-1)


# wrong: cosine first
def sinusoids(positions, d_model):
    angles = positions[:, None] * 10_000.0 ** (-torch.arange(0, d_model, 2) / d_model)
    return torch.stack((angles.cos(), angles.sin()), dim=-1).flatten(-2)


# wrong: counts from 0 by itself
def sinusoids(positions, d_model):
    places = torch.arange(len(positions))
    angles = places[:, None] * 10_000.0 ** (-torch.arange(0, d_model, 2) / d_model)
    return torch.stack((angles.sin(), angles.cos()), dim=-1).flatten(-2)


# wrong: the exponent r/d
def sinusoids(positions, d_model):
    angles = positions[:, None] * 10_000.0 ** (-torch.arange(d_model // 2) / d_model)
    return torch.stack((angles.sin(), angles.cos()), dim=-1).flatten(-2)


# wrong: the exponent 4r/d
def sinusoids(positions, d_model):
    angles = positions[:, None] * 10_000.0 ** (-2 * torch.arange(0, d_model, 2) / d_model)
    return torch.stack((angles.sin(), angles.cos()), dim=-1).flatten(-2)


# wrong: each feature has its own angle
def sinusoids(positions, d_model):
    angles = positions[:, None] * 10_000.0 ** (-torch.arange(d_model) / d_model)
    even = torch.arange(d_model) % 2 == 0
    return torch.where(even, angles.sin(), angles.cos())


# wrong: speeds from 1 to 1/10000, ends included
def sinusoids(positions, d_model):
    n = d_model // 2
    angles = positions[:, None] * 10_000.0 ** (-torch.arange(n) / max(n - 1, 1))
    return torch.stack((angles.sin(), angles.cos()), dim=-1).flatten(-2)


# wrong: the angles in half precision
def sinusoids(positions, d_model):
    rates = 10_000.0 ** (-torch.arange(0, d_model, 2) / d_model)
    angles = (positions.bfloat16()[:, None] * rates.bfloat16()).float()
    return torch.stack((angles.sin(), angles.cos()), dim=-1).flatten(-2)


# wrong: speeds rounded to half precision, positions exact
def sinusoids(positions, d_model):
    rates = 10_000.0 ** (-torch.arange(0, d_model, 2) / d_model)
    angles = positions[:, None] * rates.half().float()
    return torch.stack((angles.sin(), angles.cos()), dim=-1).flatten(-2)


# wrong: a table of 512 rows, its last row for all that lie behind
def sinusoids(positions, d_model):
    angles = torch.arange(512)[:, None] * 10_000.0 ** (-torch.arange(0, d_model, 2) / d_model)
    table = torch.stack((angles.sin(), angles.cos()), dim=-1).flatten(-2)
    return table[positions.clamp(max=511)]


# wrong: places as a share of the length
def sinusoids(positions, d_model):
    share = positions / positions.max()
    angles = share[:, None] * 10_000.0 ** (-torch.arange(0, d_model, 2) / d_model)
    return torch.stack((angles.sin(), angles.cos()), dim=-1).flatten(-2)


# wrong: an integer division in the exponent
def sinusoids(positions, d_model):
    angles = positions[:, None] / 10_000.0 ** (torch.arange(0, d_model, 2) // d_model)
    return torch.stack((angles.sin(), angles.cos()), dim=-1).flatten(-2)


# wrong: speeds that rise
def sinusoids(positions, d_model):
    angles = positions[:, None] * 10_000.0 ** (torch.arange(0, d_model, 2) / d_model)
    return torch.stack((angles.sin(), angles.cos()), dim=-1).flatten(-2)


# wrong: in float64
def sinusoids(positions, d_model):
    angles = positions[:, None].double() * 10_000.0 ** (-torch.arange(0, d_model, 2).double() / d_model)
    return torch.stack((angles.sin(), angles.cos()), dim=-1).flatten(-2)
