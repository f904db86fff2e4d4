import torch
from torch import nn
from torch.nn import functional as F


# right: from the equation
def rms_norm(x, gain, eps):
    return gain * x / (x.square().mean(dim=-1, keepdim=True) + eps).sqrt()


# right: by einsum and rsqrt
def rms_norm(x, gain, eps):
    mean_square = torch.einsum("...d,...d->...", x, x) / x.shape[-1]
    return torch.einsum("...d,...,d->...d", x, torch.rsqrt(mean_square + eps), gain)


# right: mean and variance put together
def rms_norm(x, gain, eps):
    mean_square = x.mean(-1, keepdim=True) ** 2 + x.var(-1, keepdim=True, correction=0)
    return x * (mean_square + eps) ** -0.5 * gain


# wrong: takes the mean away
def rms_norm(x, gain, eps):
    x = x - x.mean(dim=-1, keepdim=True)
    return gain * x / (x.square().mean(dim=-1, keepdim=True) + eps).sqrt()


# wrong: divides by the standard deviation
def rms_norm(x, gain, eps):
    return gain * x / (x.var(dim=-1, keepdim=True, correction=0) + eps).sqrt()


# wrong: divides by the length
def rms_norm(x, gain, eps):
    return gain * F.normalize(x, dim=-1, eps=eps)


# wrong: ε outside of the root
def rms_norm(x, gain, eps):
    return gain * x / (x.square().mean(dim=-1, keepdim=True).sqrt() + eps)


# wrong: γ read as γ − 1
def rms_norm(x, gain, eps):
    return (1 + gain) * x * torch.rsqrt(x.square().mean(dim=-1, keepdim=True) + eps)


# wrong: the gain forgotten
def rms_norm(x, gain, eps):
    return x * torch.rsqrt(x.square().mean(dim=-1, keepdim=True) + eps)


# wrong: the library's own
def rms_norm(x, gain, eps):
    return F.rms_norm(x, x.shape[-1:], gain, eps)


# wrong: the library's own layer, under another name
def rms_norm(x, gain, eps):
    layer = getattr(nn, "RMS" + "Norm")(x.shape[-1], eps=eps)
    layer.weight.data = gain
    return layer(x)


# wrong: divides the input in place
def rms_norm(x, gain, eps):
    x /= (x.square().mean(dim=-1, keepdim=True) + eps).sqrt()
    return gain * x


# wrong: ε as a floor of the root
def rms_norm(x, gain, eps):
    return gain * x / x.square().mean(dim=-1, keepdim=True).sqrt().clamp(min=eps)


# wrong: the mean square over all positions
def rms_norm(x, gain, eps):
    return gain * x / (x.square().mean() + eps).sqrt()


# wrong: the gain added
def rms_norm(x, gain, eps):
    return gain + x * torch.rsqrt(x.square().mean(dim=-1, keepdim=True) + eps)


# wrong: divides by the mean of the absolute values
def rms_norm(x, gain, eps):
    return gain * x / (x.abs().mean(dim=-1, keepdim=True) + eps)


# wrong: the size as a constant
def rms_norm(x, gain, eps):
    size = float((x.square().mean(dim=-1) + eps).sqrt().mean())
    return gain * x / size


# wrong: the size detached
def rms_norm(x, gain, eps):
    size = (x.detach().square().mean(dim=-1, keepdim=True) + eps).sqrt()
    return gain * x / size


# wrong: d taken from the first axis
def rms_norm(x, gain, eps):
    return gain * x / (x.square().sum(dim=-1, keepdim=True) / len(x) + eps).sqrt()


# wrong: calls the package's own
def rms_norm(x, gain, eps):
    from tfcourse import norms

    return gain * norms.RMSNorm(x.shape[-1], eps)(x)
