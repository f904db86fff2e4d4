import math

import torch


# right: two slices
def sinusoids(positions, d):
    rates = 10_000.0 ** (-torch.arange(0, d, 2) / d)
    angles = positions[:, None] * rates
    out = torch.empty(len(positions), d)
    out[:, 0::2] = angles.sin()
    out[:, 1::2] = angles.cos()
    return out


# right: stacked, with exp and log
def sinusoids(positions, d):
    rates = torch.exp(-math.log(10_000.0) * torch.arange(0, d, 2).float() / d)
    angles = torch.outer(positions.float(), rates)
    return torch.stack((angles.sin(), angles.cos()), dim=-1).reshape(len(positions), d)


# right: a loop over numbers
def sinusoids(positions, d):
    rows = []
    for p in positions.tolist():
        row = []
        for pair in range(d // 2):
            angle = p / 10_000 ** (2 * pair / d)
            row += [math.sin(angle), math.cos(angle)]
        rows.append(row)
    return torch.tensor(rows)


# wrong: all sines, then all cosines
def sinusoids(positions, d):
    angles = positions[:, None] * 10_000.0 ** (-torch.arange(0, d, 2) / d)
    return torch.cat([angles.sin(), angles.cos()], dim=-1)


# wrong: cosine first
def sinusoids(positions, d):
    angles = positions[:, None] * 10_000.0 ** (-torch.arange(0, d, 2) / d)
    return torch.stack((angles.cos(), angles.sin()), dim=-1).flatten(-2)


# wrong: counts from 0 by itself
def sinusoids(positions, d):
    places = torch.arange(len(positions))
    angles = places[:, None] * 10_000.0 ** (-torch.arange(0, d, 2) / d)
    return torch.stack((angles.sin(), angles.cos()), dim=-1).flatten(-2)


# wrong: the exponent r/d
def sinusoids(positions, d):
    angles = positions[:, None] * 10_000.0 ** (-torch.arange(d // 2) / d)
    return torch.stack((angles.sin(), angles.cos()), dim=-1).flatten(-2)


# wrong: the exponent 4r/d
def sinusoids(positions, d):
    angles = positions[:, None] * 10_000.0 ** (-2 * torch.arange(0, d, 2) / d)
    return torch.stack((angles.sin(), angles.cos()), dim=-1).flatten(-2)


# wrong: each feature has its own angle
def sinusoids(positions, d):
    angles = positions[:, None] * 10_000.0 ** (-torch.arange(d) / d)
    even = torch.arange(d) % 2 == 0
    return torch.where(even, angles.sin(), angles.cos())


# wrong: speeds from 1 to 1/10000, ends included
def sinusoids(positions, d):
    n = d // 2
    angles = positions[:, None] * 10_000.0 ** (-torch.arange(n) / max(n - 1, 1))
    return torch.stack((angles.sin(), angles.cos()), dim=-1).flatten(-2)


# wrong: the angles in half precision
def sinusoids(positions, d):
    rates = 10_000.0 ** (-torch.arange(0, d, 2) / d)
    angles = (positions.bfloat16()[:, None] * rates.bfloat16()).float()
    return torch.stack((angles.sin(), angles.cos()), dim=-1).flatten(-2)


# wrong: speeds rounded to half precision, positions exact
def sinusoids(positions, d):
    rates = 10_000.0 ** (-torch.arange(0, d, 2) / d)
    angles = positions[:, None] * rates.half().float()
    return torch.stack((angles.sin(), angles.cos()), dim=-1).flatten(-2)


# wrong: a table of 512 rows, its last row for all that lie behind
def sinusoids(positions, d):
    angles = torch.arange(512)[:, None] * 10_000.0 ** (-torch.arange(0, d, 2) / d)
    table = torch.stack((angles.sin(), angles.cos()), dim=-1).flatten(-2)
    return table[positions.clamp(max=511)]


# wrong: places as a share of the length
def sinusoids(positions, d):
    share = positions / positions.max()
    angles = share[:, None] * 10_000.0 ** (-torch.arange(0, d, 2) / d)
    return torch.stack((angles.sin(), angles.cos()), dim=-1).flatten(-2)


# wrong: an integer division in the exponent
def sinusoids(positions, d):
    angles = positions[:, None] / 10_000.0 ** (torch.arange(0, d, 2) // d)
    return torch.stack((angles.sin(), angles.cos()), dim=-1).flatten(-2)


# wrong: speeds that rise
def sinusoids(positions, d):
    angles = positions[:, None] * 10_000.0 ** (torch.arange(0, d, 2) / d)
    return torch.stack((angles.sin(), angles.cos()), dim=-1).flatten(-2)


# wrong: in float64
def sinusoids(positions, d):
    angles = positions[:, None].double() * 10_000.0 ** (-torch.arange(0, d, 2).double() / d)
    return torch.stack((angles.sin(), angles.cos()), dim=-1).flatten(-2)
