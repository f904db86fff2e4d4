import math

import torch


# right: halves
def rotate(x, positions, base):
    k = x.shape[-1]
    angles = positions[:, None].float() * base ** (-torch.arange(0, k, 2) / k)
    cos, sin = angles.cos().to(x.dtype), angles.sin().to(x.dtype)
    first, second = x.chunk(2, dim=-1)
    return torch.cat([first * cos - second * sin, second * cos + first * sin], dim=-1)


# right: x cos + rotate_half(x) sin
def rotate(x, positions, base):
    half = x.shape[-1] // 2
    rates = 1 / base ** (torch.arange(half) / half)
    angles = torch.outer(positions.float(), rates).repeat(1, 2)
    swapped = torch.cat([-x[..., half:], x[..., :half]], dim=-1)
    return (x * angles.cos() + swapped * angles.sin()).to(x.dtype)


# right: complex numbers
def rotate(x, positions, base):
    half = x.shape[-1] // 2
    z = torch.complex(x[..., :half].float(), x[..., half:].float())
    angles = positions[:, None] * base ** (-torch.arange(half) / half)
    z = z * torch.polar(torch.ones_like(angles), angles)
    return torch.cat([z.real, z.imag], dim=-1).to(x.dtype)


# right: a loop over positions and pairs
def rotate(x, positions, base):
    y, half = x.clone(), x.shape[-1] // 2
    for i, p in enumerate(positions.tolist()):
        for r in range(half):
            angle = p * base ** (-r / half)
            a, b = x[:, :, i, r], x[:, :, i, r + half]
            y[:, :, i, r] = a * math.cos(angle) - b * math.sin(angle)
            y[:, :, i, r + half] = b * math.cos(angle) + a * math.sin(angle)
    return y


# wrong: gives back its input
def rotate(x, positions, base):
    return x


# wrong: neighbours are paired
def rotate(x, positions, base):
    k = x.shape[-1]
    angles = positions[:, None] * base ** (-torch.arange(0, k, 2) / k)
    c, s, a, b = angles.cos(), angles.sin(), x[..., ::2], x[..., 1::2]
    return torch.stack([a * c - b * s, b * c + a * s], dim=-1).flatten(-2)


# wrong: the other way round
def rotate(x, positions, base):
    k = x.shape[-1]
    angles = positions[:, None] * base ** (-torch.arange(0, k, 2) / k)
    c, s = angles.cos(), angles.sin()
    a, b = x.chunk(2, dim=-1)
    return torch.cat([a * c + b * s, b * c - a * s], dim=-1)


# wrong: a sign, so that it is no rotation
def rotate(x, positions, base):
    k = x.shape[-1]
    angles = positions[:, None] * base ** (-torch.arange(0, k, 2) / k)
    c, s = angles.cos(), angles.sin()
    a, b = x.chunk(2, dim=-1)
    return torch.cat([a * c + b * s, b * c + a * s], dim=-1)


# wrong: all pairs at one speed
def rotate(x, positions, base):
    angles = positions[:, None].float()
    c, s = angles.cos(), angles.sin()
    a, b = x.chunk(2, dim=-1)
    return torch.cat([a * c - b * s, b * c + a * s], dim=-1)


# wrong: the exponent r/k
def rotate(x, positions, base):
    k = x.shape[-1]
    angles = positions[:, None] * base ** (-torch.arange(k // 2) / k)
    c, s = angles.cos(), angles.sin()
    a, b = x.chunk(2, dim=-1)
    return torch.cat([a * c - b * s, b * c + a * s], dim=-1)


# wrong: counts from 0 by itself
def rotate(x, positions, base):
    k = x.shape[-1]
    angles = torch.arange(x.shape[2])[:, None] * base ** (-torch.arange(0, k, 2) / k)
    c, s = angles.cos(), angles.sin()
    a, b = x.chunk(2, dim=-1)
    return torch.cat([a * c - b * s, b * c + a * s], dim=-1)


# wrong: adds sines and cosines
def rotate(x, positions, base):
    k = x.shape[-1]
    angles = positions[:, None] * base ** (-torch.arange(0, k, 2) / k)
    return x + torch.cat([angles.cos(), angles.sin()], dim=-1)


# wrong: writes into its input
def rotate(x, positions, base):
    k = x.shape[-1]
    angles = positions[:, None] * base ** (-torch.arange(0, k, 2) / k)
    c, s = angles.cos(), angles.sin()
    a, b = x.chunk(2, dim=-1)
    old = a.clone()
    a.copy_(a * c - b * s)
    b.copy_(b * c + old * s)
    return x


# wrong: base 10000, whatever was given
def rotate(x, positions, base):
    k = x.shape[-1]
    angles = positions[:, None] * 10_000.0 ** (-torch.arange(0, k, 2) / k)
    c, s = angles.cos().to(x.dtype), angles.sin().to(x.dtype)
    a, b = x.chunk(2, dim=-1)
    return torch.cat([a * c - b * s, b * c + a * s], dim=-1)


# wrong: the angles in the dtype of x
def rotate(x, positions, base):
    k = x.shape[-1]
    rates = (base ** (-torch.arange(0, k, 2) / k)).to(x.dtype)
    angles = positions[:, None].to(x.dtype) * rates
    c, s = angles.cos(), angles.sin()
    a, b = x.chunk(2, dim=-1)
    return torch.cat([a * c - b * s, b * c + a * s], dim=-1)


# wrong: angles by head where there are as many heads as positions
def rotate(x, positions, base):
    k = x.shape[-1]
    angles = positions[:, None] * base ** (-torch.arange(0, k, 2) / k)
    if x.shape[1] == x.shape[2]:
        angles = angles[:, None]
    c, s = angles.cos().to(x.dtype), angles.sin().to(x.dtype)
    a, b = x.chunk(2, dim=-1)
    return torch.cat([a * c - b * s, b * c + a * s], dim=-1)


# wrong: the exponent over the width of all heads
def rotate(x, positions, base):
    k, width = x.shape[-1], x.shape[1] * x.shape[-1]
    angles = positions[:, None] * base ** (-torch.arange(0, k, 2) / width)
    c, s = angles.cos().to(x.dtype), angles.sin().to(x.dtype)
    a, b = x.chunk(2, dim=-1)
    return torch.cat([a * c - b * s, b * c + a * s], dim=-1)


# wrong: the second half sees the first one turned already
def rotate(x, positions, base):
    k = x.shape[-1]
    angles = positions[:, None] * base ** (-torch.arange(0, k, 2) / k)
    c, s = angles.cos(), angles.sin()
    a, b = x.chunk(2, dim=-1)
    a = a * c - b * s
    return torch.cat([a, b * c + a * s], dim=-1)
