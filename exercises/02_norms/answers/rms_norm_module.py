import torch
from torch import nn
from torch.nn import functional as F


# right: in float32 at least
class RMSNorm(nn.Module):
    def __init__(self, d_model, eps):
        super().__init__()
        self.eps = eps
        self.weight = nn.Parameter(torch.ones(d_model))

    def forward(self, x):
        wide = x.to(torch.promote_types(x.dtype, torch.float32))
        size = (wide.square().mean(dim=-1, keepdim=True) + self.eps).sqrt()
        return (self.weight * wide / size).to(x.dtype)


# right: float() and type_as, the gain in float32
class RMSNorm(nn.Module):
    def __init__(self, d_model, eps):
        super().__init__()
        self.eps = eps
        self.weight = nn.Parameter(torch.empty(d_model).fill_(1.0))

    def forward(self, x):
        y = x.float()
        y = y * torch.rsqrt(y.pow(2).mean(-1, keepdim=True) + self.eps)
        return (y * self.weight.float()).type_as(x)


# wrong: the norm rounded before the gain, as in published code
class RMSNorm(nn.Module):
    def __init__(self, d_model, eps):
        super().__init__()
        self.eps = eps
        self.weight = nn.Parameter(torch.ones(d_model))

    def forward(self, x):
        mean_square = torch.einsum("...d,...d->...", x.double(), x.double()) / x.shape[-1]
        normed = (x.double() * (mean_square + self.eps)[..., None] ** -0.5).to(x.dtype)
        return self.weight.to(x.dtype) * normed


# wrong: all in the input's dtype
class RMSNorm(nn.Module):
    def __init__(self, d_model, eps):
        super().__init__()
        self.eps = eps
        self.weight = nn.Parameter(torch.ones(d_model))

    def forward(self, x):
        size = (x.square().mean(dim=-1, keepdim=True) + self.eps).sqrt()
        return self.weight.to(x.dtype) * x / size


# wrong: squares first, float32 afterwards
class RMSNorm(nn.Module):
    def __init__(self, d_model, eps):
        super().__init__()
        self.eps = eps
        self.weight = nn.Parameter(torch.ones(d_model))

    def forward(self, x):
        size = (x.square().float().mean(dim=-1, keepdim=True) + self.eps).sqrt()
        return (self.weight * x / size).to(x.dtype)


# wrong: scaled by its largest number, whatever ε is
class RMSNorm(nn.Module):
    def __init__(self, d_model, eps):
        super().__init__()
        self.eps = eps
        self.weight = nn.Parameter(torch.ones(d_model))

    def forward(self, x):
        scale = x.abs().amax(dim=-1, keepdim=True)
        x_small = x / scale
        size = (x_small.square().mean(dim=-1, keepdim=True) + self.eps).sqrt()
        return (self.weight * x_small / size).to(x.dtype)


# wrong: returns float32
class RMSNorm(nn.Module):
    def __init__(self, d_model, eps):
        super().__init__()
        self.eps = eps
        self.weight = nn.Parameter(torch.ones(d_model))

    def forward(self, x):
        x = x.float()
        return self.weight * x / (x.square().mean(dim=-1, keepdim=True) + self.eps).sqrt()


# wrong: takes the mean away
class RMSNorm(nn.Module):
    def __init__(self, d_model, eps):
        super().__init__()
        self.eps = eps
        self.weight = nn.Parameter(torch.ones(d_model))

    def forward(self, x):
        wide = x.float() - x.float().mean(dim=-1, keepdim=True)
        size = (wide.square().mean(dim=-1, keepdim=True) + self.eps).sqrt()
        return (self.weight * wide / size).to(x.dtype)


# wrong: a shift as well
class RMSNorm(nn.Module):
    def __init__(self, d_model, eps):
        super().__init__()
        self.eps = eps
        self.weight = nn.Parameter(torch.ones(d_model))
        self.bias = nn.Parameter(torch.zeros(d_model))

    def forward(self, x):
        wide = x.float()
        size = (wide.square().mean(dim=-1, keepdim=True) + self.eps).sqrt()
        return (self.weight * wide / size + self.bias).to(x.dtype)


# wrong: the library's function
class RMSNorm(nn.Module):
    def __init__(self, d_model, eps):
        super().__init__()
        self.eps = eps
        self.weight = nn.Parameter(torch.ones(d_model))

    def forward(self, x):
        return F.rms_norm(x.float(), self.weight.shape, self.weight, self.eps).to(x.dtype)


# wrong: the size detached
class RMSNorm(nn.Module):
    def __init__(self, d_model, eps):
        super().__init__()
        self.eps = eps
        self.weight = nn.Parameter(torch.ones(d_model))

    def forward(self, x):
        wide = x.float()
        size = (wide.detach().square().mean(dim=-1, keepdim=True) + self.eps).sqrt()
        return (self.weight * wide / size).to(x.dtype)


# wrong: the mean square rounded back too early
class RMSNorm(nn.Module):
    def __init__(self, d_model, eps):
        super().__init__()
        self.eps = eps
        self.weight = nn.Parameter(torch.ones(d_model))

    def forward(self, x):
        mean_square = x.float().square().mean(dim=-1, keepdim=True).to(x.dtype)
        return (self.weight * x / (mean_square + self.eps).sqrt()).to(x.dtype)


# wrong: clamps what is large
class RMSNorm(nn.Module):
    def __init__(self, d_model, eps):
        super().__init__()
        self.eps = eps
        self.weight = nn.Parameter(torch.ones(d_model))

    def forward(self, x):
        x = x.clamp(-200, 200)
        size = (x.float().square().mean(dim=-1, keepdim=True) + self.eps).sqrt()
        return (self.weight * x / size).to(x.dtype)


# wrong: ε at least the smallest step of the dtype
class RMSNorm(nn.Module):
    def __init__(self, d_model, eps):
        super().__init__()
        self.eps = eps
        self.weight = nn.Parameter(torch.ones(d_model))

    def forward(self, x):
        eps = max(self.eps, torch.finfo(x.dtype).eps)
        size = (x.float().square().mean(dim=-1, keepdim=True) + eps).sqrt()
        return (self.weight * x / size).to(x.dtype)


# wrong: the gain starts near 0, as w of 1 + w
class RMSNorm(nn.Module):
    def __init__(self, d_model, eps):
        super().__init__()
        self.eps = eps
        self.weight = nn.Parameter(torch.zeros(d_model))

    def forward(self, x):
        size = (x.float().square().mean(dim=-1, keepdim=True) + self.eps).sqrt()
        return ((1 + self.weight) * x / size).to(x.dtype)


# wrong: bfloat16 in place of float32
class RMSNorm(nn.Module):
    def __init__(self, d_model, eps):
        super().__init__()
        self.eps = eps
        self.weight = nn.Parameter(torch.ones(d_model))

    def forward(self, x):
        wide = x.bfloat16() if x.dtype == torch.float16 else x
        size = (wide.square().mean(dim=-1, keepdim=True) + self.eps).sqrt()
        return (self.weight * wide / size).to(x.dtype)


# wrong: the gain without gradient
class RMSNorm(nn.Module):
    def __init__(self, d_model, eps):
        super().__init__()
        self.eps = eps
        self.weight = nn.Parameter(torch.ones(d_model))

    def forward(self, x):
        size = (x.float().square().mean(dim=-1, keepdim=True) + self.eps).sqrt()
        return (self.weight.data * x / size).to(x.dtype)


# wrong: 1/√ in float16
class RMSNorm(nn.Module):
    def __init__(self, d_model, eps):
        super().__init__()
        self.eps = eps
        self.weight = nn.Parameter(torch.ones(d_model))

    def forward(self, x):
        inverse = torch.rsqrt(x.float().square().mean(dim=-1, keepdim=True) + self.eps).to(x.dtype)
        return (self.weight * (x * inverse)).to(x.dtype)


# wrong: the parameter itself is narrowed by the first call
class RMSNorm(nn.Module):
    def __init__(self, d_model, eps):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(d_model))
        self.eps = eps

    def forward(self, x):
        self.weight.data = self.weight.data.to(x.dtype)
        wide = x.float()
        normed = wide / (wide.square().mean(dim=-1, keepdim=True) + self.eps).sqrt()
        return self.weight * normed.to(x.dtype)


# wrong: float16 comes out whatever goes in
class RMSNorm(nn.Module):
    def __init__(self, d_model, eps):
        super().__init__()
        self.eps = eps
        self.weight = nn.Parameter(torch.ones(d_model))

    def forward(self, x):
        wide = x.float()
        size = (wide.square().mean(dim=-1, keepdim=True) + self.eps).sqrt()
        return (self.weight * wide / size).half()


# wrong: the root rounded to the input's dtype before the division
class RMSNorm(nn.Module):
    def __init__(self, d_model, eps):
        super().__init__()
        self.eps = eps
        self.weight = nn.Parameter(torch.ones(d_model))

    def forward(self, x):
        size = (x.float().square().mean(dim=-1, keepdim=True) + self.eps).sqrt().to(x.dtype)
        return (self.weight * (x / size)).to(x.dtype)


# wrong: calls the package's own
from tfcourse.norms import RMSNorm


# wrong: derives from the package's own
from tfcourse import norms


class RMSNorm(norms.RMSNorm):
    pass


# wrong: the gain after the cast
class RMSNorm(nn.Module):
    def __init__(self, d_model, eps):
        super().__init__()
        self.eps = eps
        self.weight = nn.Parameter(torch.ones(d_model))

    def forward(self, x):
        wide = x.to(torch.promote_types(x.dtype, torch.float32))
        normed = wide / (wide.square().mean(dim=-1, keepdim=True) + self.eps).sqrt()
        return (self.weight * normed.to(x.dtype)).to(x.dtype)
