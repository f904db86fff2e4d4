import torch
from torch.nn import functional as F


# right: from the equation
def layer_norm(x, gain, shift, eps):
    mean = x.mean(dim=-1, keepdim=True)
    variance = (x - mean).square().mean(dim=-1, keepdim=True)
    return gain * (x - mean) / (variance + eps).sqrt() + shift


# right: by rsqrt and var with correction 0
def layer_norm(x, gain, shift, eps):
    centred = x - x.mean(-1, keepdim=True)
    return centred * torch.rsqrt(x.var(-1, keepdim=True, correction=0) + eps) * gain + shift


# right: a loop over positions
def layer_norm(x, gain, shift, eps):
    rows = []
    for row in x.reshape(-1, x.shape[-1]):
        centred = row - row.sum() / len(row)
        rows.append(gain * centred / torch.sqrt(centred @ centred / len(row) + eps) + shift)
    return torch.stack(rows).reshape(x.shape)


# wrong: unbiased variance
def layer_norm(x, gain, shift, eps):
    mean = x.mean(dim=-1, keepdim=True)
    return gain * (x - mean) / (x.var(dim=-1, keepdim=True) + eps).sqrt() + shift


# wrong: ε outside of the root
def layer_norm(x, gain, shift, eps):
    mean = x.mean(dim=-1, keepdim=True)
    return gain * (x - mean) / (x.std(dim=-1, keepdim=True, correction=0) + eps) + shift


# wrong: changes its input
def layer_norm(x, gain, shift, eps):
    x -= x.mean(dim=-1, keepdim=True)
    return gain * x / (x.square().mean(dim=-1, keepdim=True) + eps).sqrt() + shift


# wrong: the library's own
def layer_norm(x, gain, shift, eps):
    return F.layer_norm(x, x.shape[-1:], gain, shift, eps)


# wrong: the library's own, looked up by its name
def layer_norm(x, gain, shift, eps):
    return getattr(F, "layer" + "_norm")(x, x.shape[-1:], gain, shift, eps)


# wrong: one mean for all positions
def layer_norm(x, gain, shift, eps):
    mean = x.mean()
    return gain * (x - mean) / ((x - mean).square().mean() + eps).sqrt() + shift


# wrong: E[x²] − E[x]² loses its digits far from 0
def layer_norm(x, gain, shift, eps):
    mean = x.mean(dim=-1, keepdim=True)
    variance = x.square().mean(dim=-1, keepdim=True) - mean.square()
    return gain * (x - mean) / (variance.clamp(min=0) + eps).sqrt() + shift


# wrong: the root of the variance squared again, whose gradient is NaN at a constant vector
def layer_norm(x, gain, shift, eps):
    centred = x - x.mean(dim=-1, keepdim=True)
    sigma = centred.square().mean(dim=-1, keepdim=True).sqrt()
    return gain * centred / (sigma**2 + eps).sqrt() + shift


# wrong: the gain on the shift too
def layer_norm(x, gain, shift, eps):
    mean = x.mean(dim=-1, keepdim=True)
    normed = (x - mean) / (x.var(dim=-1, keepdim=True, correction=0) + eps).sqrt()
    return gain * (normed + shift)


# wrong: the usual ε, whatever is asked for
def layer_norm(x, gain, shift, eps=1e-5):
    mean = x.mean(dim=-1, keepdim=True)
    return gain * (x - mean) / (x.var(dim=-1, keepdim=True, correction=0) + 1e-5).sqrt() + shift


# wrong: centred above the line only
def layer_norm(x, gain, shift, eps):
    centred = x - x.mean(dim=-1, keepdim=True)
    return gain * centred / (x.square().mean(dim=-1, keepdim=True) + eps).sqrt() + shift


# wrong: statistics as constants
def layer_norm(x, gain, shift, eps):
    mean = x.mean(dim=-1, keepdim=True).detach()
    variance = x.var(dim=-1, correction=0, keepdim=True).detach()
    return gain * (x - mean) / (variance + eps).sqrt() + shift


# wrong: ε squared
def layer_norm(x, gain, shift, eps):
    centred = x - x.mean(dim=-1, keepdim=True)
    return gain * centred / (centred.square().mean(dim=-1, keepdim=True) + eps**2).sqrt() + shift


# wrong: ε only where the variance is 0
def layer_norm(x, gain, shift, eps):
    centred = x - x.mean(dim=-1, keepdim=True)
    variance = centred.square().mean(dim=-1, keepdim=True)
    return gain * centred / torch.where(variance == 0, eps, variance).sqrt() + shift


# wrong: statistics over all axes but the first
def layer_norm(x, gain, shift, eps):
    axes = tuple(range(1, x.ndim)) or (0,)
    centred = x - x.mean(dim=axes, keepdim=True)
    return gain * centred / (centred.square().mean(dim=axes, keepdim=True) + eps).sqrt() + shift


# wrong: calls the package's own
def layer_norm(x, gain, shift, eps):
    from tfcourse.norms import LayerNorm as Library

    norm = Library(x.shape[-1], eps)
    return gain * norm(x) + shift
