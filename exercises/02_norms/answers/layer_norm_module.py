import torch
from torch import nn
from torch.nn import functional as F


# right: from the equation
class LayerNorm(nn.Module):
    def __init__(self, d_model, eps):
        super().__init__()
        self.eps = eps
        self.weight = nn.Parameter(torch.ones(d_model))
        self.bias = nn.Parameter(torch.zeros(d_model))

    def forward(self, x):
        wide = x.to(torch.promote_types(x.dtype, torch.float32))
        centred = wide - wide.mean(dim=-1, keepdim=True)
        variance = centred.square().mean(dim=-1, keepdim=True)
        return (self.weight * centred / (variance + self.eps).sqrt() + self.bias).to(x.dtype)


# right: by var_mean and addcmul, everything in double precision
class LayerNorm(nn.Module):
    def __init__(self, d_model, eps):
        super(LayerNorm, self).__init__()
        self.register_parameter("bias", nn.Parameter(torch.zeros(d_model)))
        self.register_parameter("weight", nn.Parameter(torch.ones(d_model)))
        self.register_buffer("epsilon", torch.tensor(eps, dtype=torch.float64))

    def forward(self, x):
        variance, mean = torch.var_mean(x.double(), dim=-1, correction=0, keepdim=True)
        normed = (x.double() - mean) * torch.rsqrt(variance + self.epsilon)
        return torch.addcmul(self.bias.double(), normed, self.weight.double()).type_as(x)


# wrong: plain tensors, which training does not see
class LayerNorm(nn.Module):
    def __init__(self, d_model, eps):
        super().__init__()
        self.eps = eps
        self.weight = torch.ones(d_model)
        self.bias = torch.zeros(d_model)

    def forward(self, x):
        variance, mean = torch.var_mean(x.float(), dim=-1, correction=0, keepdim=True)
        return (self.weight * (x - mean) / (variance + self.eps).sqrt() + self.bias).to(x.dtype)


# wrong: buffers, which training does not change
class LayerNorm(nn.Module):
    def __init__(self, d_model, eps):
        super().__init__()
        self.eps = eps
        self.register_buffer("weight", torch.ones(d_model))
        self.register_buffer("bias", torch.zeros(d_model))

    def forward(self, x):
        variance, mean = torch.var_mean(x.float(), dim=-1, correction=0, keepdim=True)
        return (self.weight * (x - mean) / (variance + self.eps).sqrt() + self.bias).to(x.dtype)


# wrong: γ starts as zeros
class LayerNorm(nn.Module):
    def __init__(self, d_model, eps):
        super().__init__()
        self.eps = eps
        self.weight = nn.Parameter(torch.zeros(d_model))
        self.bias = nn.Parameter(torch.zeros(d_model))

    def forward(self, x):
        variance, mean = torch.var_mean(x.float(), dim=-1, correction=0, keepdim=True)
        return (self.weight * (x - mean) / (variance + self.eps).sqrt() + self.bias).to(x.dtype)


# wrong: statistics without gradient
class LayerNorm(nn.Module):
    def __init__(self, d_model, eps):
        super().__init__()
        self.eps = eps
        self.weight = nn.Parameter(torch.ones(d_model))
        self.bias = nn.Parameter(torch.zeros(d_model))

    def forward(self, x):
        with torch.no_grad():
            variance, mean = torch.var_mean(x.float(), dim=-1, correction=0, keepdim=True)
        return (self.weight * (x - mean) / (variance + self.eps).sqrt() + self.bias).to(x.dtype)


# wrong: unbiased variance
class LayerNorm(nn.Module):
    def __init__(self, d_model, eps):
        super().__init__()
        self.eps = eps
        self.weight = nn.Parameter(torch.ones(d_model))
        self.bias = nn.Parameter(torch.zeros(d_model))

    def forward(self, x):
        variance, mean = torch.var_mean(x.float(), dim=-1, keepdim=True)
        return (self.weight * (x - mean) / (variance + self.eps).sqrt() + self.bias).to(x.dtype)


# wrong: the library's layer inside
class LayerNorm(nn.LayerNorm):
    def __init__(self, d_model, eps):
        super().__init__(d_model, eps=eps)


# wrong: another module's name for the gain
class LayerNorm(nn.Module):
    def __init__(self, d_model, eps):
        super().__init__()
        self.eps = eps
        self.gamma = nn.Parameter(torch.ones(d_model))
        self.beta = nn.Parameter(torch.zeros(d_model))

    def forward(self, x):
        variance, mean = torch.var_mean(x.float(), dim=-1, correction=0, keepdim=True)
        return (self.gamma * (x - mean) / (variance + self.eps).sqrt() + self.beta).to(x.dtype)


# wrong: returns float32 whatever comes in
class LayerNorm(nn.Module):
    def __init__(self, d_model, eps):
        super().__init__()
        self.eps = eps
        self.weight = nn.Parameter(torch.ones(d_model))
        self.bias = nn.Parameter(torch.zeros(d_model))

    def forward(self, x):
        x = x.float()
        variance, mean = torch.var_mean(x, dim=-1, correction=0, keepdim=True)
        return self.weight * (x - mean) / (variance + self.eps).sqrt() + self.bias


# wrong: all in the input's dtype
class LayerNorm(nn.Module):
    def __init__(self, d_model, eps):
        super().__init__()
        self.eps = eps
        self.weight = nn.Parameter(torch.ones(d_model))
        self.bias = nn.Parameter(torch.zeros(d_model))

    def forward(self, x):
        centred = x - x.mean(dim=-1, keepdim=True)
        normed = centred / (centred.square().mean(dim=-1, keepdim=True) + self.eps).sqrt()
        return self.weight.to(x.dtype) * normed + self.bias.to(x.dtype)


# wrong: statistics over all positions
class LayerNorm(nn.Module):
    def __init__(self, d_model, eps):
        super().__init__()
        self.eps = eps
        self.weight = nn.Parameter(torch.ones(d_model))
        self.bias = nn.Parameter(torch.zeros(d_model))

    def forward(self, x):
        variance, mean = torch.var_mean(x.float(), correction=0)
        return (self.weight * (x - mean) / (variance + self.eps).sqrt() + self.bias).to(x.dtype)


# wrong: returns float16 for all half precisions
class LayerNorm(nn.Module):
    def __init__(self, d_model, eps):
        super().__init__()
        self.eps = eps
        self.weight = nn.Parameter(torch.ones(d_model))
        self.bias = nn.Parameter(torch.zeros(d_model))

    def forward(self, x):
        variance, mean = torch.var_mean(x.float(), dim=-1, correction=0, keepdim=True)
        y = self.weight * (x - mean) / (variance + self.eps).sqrt() + self.bias
        return y if x.dtype == torch.float32 else y.half()


# wrong: the usual ε
class LayerNorm(nn.Module):
    def __init__(self, d_model, eps):
        super().__init__()
        self.eps = 1e-5
        self.weight = nn.Parameter(torch.ones(d_model))
        self.bias = nn.Parameter(torch.zeros(d_model))

    def forward(self, x):
        variance, mean = torch.var_mean(x.float(), dim=-1, correction=0, keepdim=True)
        return (self.weight * (x - mean) / (variance + self.eps).sqrt() + self.bias).to(x.dtype)


# wrong: widened after the mean
class LayerNorm(nn.Module):
    def __init__(self, d_model, eps):
        super().__init__()
        self.eps = eps
        self.weight = nn.Parameter(torch.ones(d_model))
        self.bias = nn.Parameter(torch.zeros(d_model))

    def forward(self, x):
        centred = (x - x.mean(dim=-1, keepdim=True)).square().mean(dim=-1, keepdim=True).float()
        mean = x.float().mean(dim=-1, keepdim=True)
        return (self.weight * (x - mean) / (centred + self.eps).sqrt() + self.bias).to(x.dtype)


# wrong: normalizes in training only
class LayerNorm(nn.Module):
    def __init__(self, d_model, eps):
        super().__init__()
        self.eps = eps
        self.weight = nn.Parameter(torch.ones(d_model))
        self.bias = nn.Parameter(torch.zeros(d_model))

    def forward(self, x):
        if not self.training:
            return (self.weight * x + self.bias).to(x.dtype)
        variance, mean = torch.var_mean(x.float(), dim=-1, correction=0, keepdim=True)
        return (self.weight * (x - mean) / (variance + self.eps).sqrt() + self.bias).to(x.dtype)


# wrong: one number for all features
class LayerNorm(nn.Module):
    def __init__(self, d_model, eps):
        super().__init__()
        self.eps = eps
        self.weight = nn.Parameter(torch.ones(1))
        self.bias = nn.Parameter(torch.zeros(1))

    def forward(self, x):
        variance, mean = torch.var_mean(x.float(), dim=-1, correction=0, keepdim=True)
        return (self.weight * (x - mean) / (variance + self.eps).sqrt() + self.bias).to(x.dtype)


# wrong: gain and shift in the input's dtype
class LayerNorm(nn.Module):
    def __init__(self, d_model, eps):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(d_model))
        self.bias = nn.Parameter(torch.zeros(d_model))
        self.eps = eps

    def forward(self, x):
        wide = x.float()
        centred = wide - wide.mean(dim=-1, keepdim=True)
        normed = centred / (centred.square().mean(dim=-1, keepdim=True) + self.eps).sqrt()
        return normed.to(x.dtype) * self.weight.to(x.dtype) + self.bias.to(x.dtype)


# wrong: calls the package's own
from tfcourse.norms import LayerNorm


# wrong: derives from the package's own
from tfcourse import norms


class LayerNorm(norms.LayerNorm):
    pass


# wrong: E[x²] − μ², which loses its digits far from 0
class LayerNorm(nn.Module):
    def __init__(self, d_model, eps):
        super().__init__()
        self.eps = eps
        self.weight = nn.Parameter(torch.ones(d_model))
        self.bias = nn.Parameter(torch.zeros(d_model))

    def forward(self, x):
        wide = x.to(torch.promote_types(x.dtype, torch.float32))
        mean = wide.mean(dim=-1, keepdim=True)
        variance = wide.square().mean(dim=-1, keepdim=True) - mean.square()
        return (self.weight * (wide - mean) / (variance + self.eps).sqrt() + self.bias).to(x.dtype)
