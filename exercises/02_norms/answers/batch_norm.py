import torch
from torch import nn


# right: with lerp_
class BatchNorm(nn.Module):
    def __init__(self, d_model, momentum, eps):
        super().__init__()
        self.momentum, self.eps = momentum, eps
        self.weight = nn.Parameter(torch.ones(d_model))
        self.bias = nn.Parameter(torch.zeros(d_model))
        self.register_buffer("running_mean", torch.zeros(d_model))
        self.register_buffer("running_var", torch.ones(d_model))

    def forward(self, x):
        if self.training:
            mean = x.mean(dim=(0, 1))
            variance = (x - mean).square().mean(dim=(0, 1))
            n = x.shape[0] * x.shape[1]
            with torch.no_grad():
                self.running_mean.lerp_(mean, self.momentum)
                self.running_var.lerp_(variance * n / (n - 1), self.momentum)
        else:
            mean, variance = self.running_mean, self.running_var
        return self.weight * (x - mean) / (variance + self.eps).sqrt() + self.bias


# right: positions in one axis, averages newly assigned
class BatchNorm(nn.Module):
    def __init__(self, d_model, momentum, eps):
        super().__init__()
        self.momentum, self.eps = momentum, eps
        self.weight = nn.Parameter(torch.ones(d_model))
        self.bias = nn.Parameter(torch.zeros(d_model))
        self.register_buffer("running_mean", torch.zeros(d_model))
        self.register_buffer("running_var", torch.ones(d_model))

    def forward(self, x):
        flat = x.reshape(-1, x.shape[-1])
        if not self.training:
            scale = self.weight * torch.rsqrt(self.running_var + self.eps)
            return x * scale + (self.bias - self.running_mean * scale)
        m = self.momentum
        unbiased = torch.var(flat.detach(), dim=0)
        self.running_mean = (1 - m) * self.running_mean + m * flat.detach().mean(dim=0)
        self.running_var = (1 - m) * self.running_var + m * unbiased
        centred = flat - flat.mean(dim=0)
        variance = torch.einsum("nd,nd->d", centred, centred) / len(flat)
        y = centred * torch.rsqrt(variance + self.eps) * self.weight + self.bias
        return y.reshape(x.shape)


# wrong: over each position's features
class BatchNorm(nn.Module):
    def __init__(self, d_model, momentum, eps):
        super().__init__()
        self.momentum, self.eps = momentum, eps
        self.weight = nn.Parameter(torch.ones(d_model))
        self.bias = nn.Parameter(torch.zeros(d_model))
        self.register_buffer("running_mean", torch.zeros(d_model))
        self.register_buffer("running_var", torch.ones(d_model))

    def forward(self, x):
        if self.training:
            mean = x.mean(dim=-1, keepdim=True)
            variance = (x - mean).square().mean(dim=-1, keepdim=True)
            n = x.shape[0] * x.shape[1]
            with torch.no_grad():
                self.running_mean.lerp_(x.mean(dim=(0, 1)), self.momentum)
                self.running_var.lerp_(x.var(dim=(0, 1)), self.momentum)
        else:
            mean, variance = self.running_mean, self.running_var
        return self.weight * (x - mean) / (variance + self.eps).sqrt() + self.bias


# wrong: per text
class BatchNorm(nn.Module):
    def __init__(self, d_model, momentum, eps):
        super().__init__()
        self.momentum, self.eps = momentum, eps
        self.weight = nn.Parameter(torch.ones(d_model))
        self.bias = nn.Parameter(torch.zeros(d_model))
        self.register_buffer("running_mean", torch.zeros(d_model))
        self.register_buffer("running_var", torch.ones(d_model))

    def forward(self, x):
        if self.training:
            mean = x.mean(dim=1, keepdim=True)
            variance = (x - mean).square().mean(dim=1, keepdim=True)
            n = x.shape[0] * x.shape[1]
            with torch.no_grad():
                self.running_mean.lerp_(x.mean(dim=(0, 1)), self.momentum)
                self.running_var.lerp_(x.var(dim=(0, 1)), self.momentum)
        else:
            mean, variance = self.running_mean, self.running_var
        return self.weight * (x - mean) / (variance + self.eps).sqrt() + self.bias


# wrong: over the batch axis alone
class BatchNorm(nn.Module):
    def __init__(self, d_model, momentum, eps):
        super().__init__()
        self.momentum, self.eps = momentum, eps
        self.weight = nn.Parameter(torch.ones(d_model))
        self.bias = nn.Parameter(torch.zeros(d_model))
        self.register_buffer("running_mean", torch.zeros(d_model))
        self.register_buffer("running_var", torch.ones(d_model))

    def forward(self, x):
        if self.training:
            mean = x.mean(dim=0)
            variance = (x - mean).square().mean(dim=0)
            n = x.shape[0] * x.shape[1]
            with torch.no_grad():
                self.running_mean.lerp_(x.mean(dim=(0, 1)), self.momentum)
                self.running_var.lerp_(x.var(dim=(0, 1)), self.momentum)
        else:
            mean, variance = self.running_mean, self.running_var
        return self.weight * (x - mean) / (variance + self.eps).sqrt() + self.bias


# wrong: momentum swapped
class BatchNorm(nn.Module):
    def __init__(self, d_model, momentum, eps):
        super().__init__()
        self.momentum, self.eps = momentum, eps
        self.weight = nn.Parameter(torch.ones(d_model))
        self.bias = nn.Parameter(torch.zeros(d_model))
        self.register_buffer("running_mean", torch.zeros(d_model))
        self.register_buffer("running_var", torch.ones(d_model))

    def forward(self, x):
        if self.training:
            mean = x.mean(dim=(0, 1))
            variance = (x - mean).square().mean(dim=(0, 1))
            n = x.shape[0] * x.shape[1]
            with torch.no_grad():
                self.running_mean.lerp_(mean, 1 - self.momentum)
                self.running_var.lerp_(variance * n / (n - 1), 1 - self.momentum)
        else:
            mean, variance = self.running_mean, self.running_var
        return self.weight * (x - mean) / (variance + self.eps).sqrt() + self.bias


# wrong: the batch in evaluation too
class BatchNorm(nn.Module):
    def __init__(self, d_model, momentum, eps):
        super().__init__()
        self.momentum, self.eps = momentum, eps
        self.weight = nn.Parameter(torch.ones(d_model))
        self.bias = nn.Parameter(torch.zeros(d_model))
        self.register_buffer("running_mean", torch.zeros(d_model))
        self.register_buffer("running_var", torch.ones(d_model))

    def forward(self, x):
        if self.training:
            mean = x.mean(dim=(0, 1))
            variance = (x - mean).square().mean(dim=(0, 1))
            n = x.shape[0] * x.shape[1]
            with torch.no_grad():
                self.running_mean.lerp_(mean, self.momentum)
                self.running_var.lerp_(variance * n / (n - 1), self.momentum)
        else:
            mean, variance = x.mean(dim=(0, 1)), x.var(dim=(0, 1), correction=0)
        return self.weight * (x - mean) / (variance + self.eps).sqrt() + self.bias


# wrong: averages move in evaluation
class BatchNorm(nn.Module):
    def __init__(self, d_model, momentum, eps):
        super().__init__()
        self.momentum, self.eps = momentum, eps
        self.weight = nn.Parameter(torch.ones(d_model))
        self.bias = nn.Parameter(torch.zeros(d_model))
        self.register_buffer("running_mean", torch.zeros(d_model))
        self.register_buffer("running_var", torch.ones(d_model))

    def forward(self, x):
        mean, variance = self.running_mean.clone(), self.running_var.clone()
        with torch.no_grad():
            self.running_mean.lerp_(x.mean(dim=(0, 1)), self.momentum)
            self.running_var.lerp_(x.var(dim=(0, 1)), self.momentum)
        if self.training:
            mean = x.mean(dim=(0, 1))
            variance = (x - mean).square().mean(dim=(0, 1))
        return self.weight * (x - mean) / (variance + self.eps).sqrt() + self.bias


# wrong: the averages used in training
class BatchNorm(nn.Module):
    def __init__(self, d_model, momentum, eps):
        super().__init__()
        self.momentum, self.eps = momentum, eps
        self.weight = nn.Parameter(torch.ones(d_model))
        self.bias = nn.Parameter(torch.zeros(d_model))
        self.register_buffer("running_mean", torch.zeros(d_model))
        self.register_buffer("running_var", torch.ones(d_model))

    def forward(self, x):
        if self.training:
            mean = x.mean(dim=(0, 1))
            variance = (x - mean).square().mean(dim=(0, 1))
            n = x.shape[0] * x.shape[1]
            with torch.no_grad():
                self.running_mean.lerp_(mean, self.momentum)
                self.running_var.lerp_(variance * n / (n - 1), self.momentum)
        mean, variance = self.running_mean, self.running_var
        return self.weight * (x - mean) / (variance + self.eps).sqrt() + self.bias


# wrong: unbiased variance in the result
class BatchNorm(nn.Module):
    def __init__(self, d_model, momentum, eps):
        super().__init__()
        self.momentum, self.eps = momentum, eps
        self.weight = nn.Parameter(torch.ones(d_model))
        self.bias = nn.Parameter(torch.zeros(d_model))
        self.register_buffer("running_mean", torch.zeros(d_model))
        self.register_buffer("running_var", torch.ones(d_model))

    def forward(self, x):
        if self.training:
            mean = x.mean(dim=(0, 1))
            variance = x.var(dim=(0, 1))
            n = x.shape[0] * x.shape[1]
            with torch.no_grad():
                self.running_mean.lerp_(mean, self.momentum)
                self.running_var.lerp_(variance, self.momentum)
        else:
            mean, variance = self.running_mean, self.running_var
        return self.weight * (x - mean) / (variance + self.eps).sqrt() + self.bias


# wrong: biased variance in the average
class BatchNorm(nn.Module):
    def __init__(self, d_model, momentum, eps):
        super().__init__()
        self.momentum, self.eps = momentum, eps
        self.weight = nn.Parameter(torch.ones(d_model))
        self.bias = nn.Parameter(torch.zeros(d_model))
        self.register_buffer("running_mean", torch.zeros(d_model))
        self.register_buffer("running_var", torch.ones(d_model))

    def forward(self, x):
        if self.training:
            mean = x.mean(dim=(0, 1))
            variance = (x - mean).square().mean(dim=(0, 1))
            n = x.shape[0] * x.shape[1]
            with torch.no_grad():
                self.running_mean.lerp_(mean, self.momentum)
                self.running_var.lerp_(variance, self.momentum)
        else:
            mean, variance = self.running_mean, self.running_var
        return self.weight * (x - mean) / (variance + self.eps).sqrt() + self.bias


# wrong: averages that keep the graph
class BatchNorm(nn.Module):
    def __init__(self, d_model, momentum, eps):
        super().__init__()
        self.momentum, self.eps = momentum, eps
        self.weight = nn.Parameter(torch.ones(d_model))
        self.bias = nn.Parameter(torch.zeros(d_model))
        self.register_buffer("running_mean", torch.zeros(d_model))
        self.register_buffer("running_var", torch.ones(d_model))

    def forward(self, x):
        if self.training:
            mean = x.mean(dim=(0, 1))
            variance = (x - mean).square().mean(dim=(0, 1))
            n = x.shape[0] * x.shape[1]
            m = self.momentum
            self.running_mean = (1 - m) * self.running_mean + m * mean
            self.running_var = (1 - m) * self.running_var + m * variance * n / (n - 1)
        else:
            mean, variance = self.running_mean, self.running_var
        return self.weight * (x - mean) / (variance + self.eps).sqrt() + self.bias


# wrong: batch statistics without gradient
class BatchNorm(nn.Module):
    def __init__(self, d_model, momentum, eps):
        super().__init__()
        self.momentum, self.eps = momentum, eps
        self.weight = nn.Parameter(torch.ones(d_model))
        self.bias = nn.Parameter(torch.zeros(d_model))
        self.register_buffer("running_mean", torch.zeros(d_model))
        self.register_buffer("running_var", torch.ones(d_model))

    def forward(self, x):
        if self.training:
            mean = x.detach().mean(dim=(0, 1))
            variance = (x.detach() - mean).square().mean(dim=(0, 1))
            n = x.shape[0] * x.shape[1]
            with torch.no_grad():
                self.running_mean.lerp_(mean, self.momentum)
                self.running_var.lerp_(variance * n / (n - 1), self.momentum)
        else:
            mean, variance = self.running_mean, self.running_var
        return self.weight * (x - mean) / (variance + self.eps).sqrt() + self.bias


# wrong: PyTorch's own
class BatchNorm(nn.Module):
    def __init__(self, d_model, momentum, eps):
        super().__init__()
        self.inner = nn.BatchNorm1d(d_model, momentum=momentum, eps=eps)

    def forward(self, x):
        return self.inner(x.flatten(0, 1)).view_as(x)


# wrong: averages that are no part of the state
class BatchNorm(nn.Module):
    def __init__(self, d_model, momentum, eps):
        super().__init__()
        self.momentum, self.eps = momentum, eps
        self.weight = nn.Parameter(torch.ones(d_model))
        self.bias = nn.Parameter(torch.zeros(d_model))
        self.running_mean = torch.zeros(d_model)
        self.running_var = torch.ones(d_model)

    def forward(self, x):
        if self.training:
            mean = x.mean(dim=(0, 1))
            variance = (x - mean).square().mean(dim=(0, 1))
            n = x.shape[0] * x.shape[1]
            with torch.no_grad():
                self.running_mean.lerp_(mean, self.momentum)
                self.running_var.lerp_(variance * n / (n - 1), self.momentum)
        else:
            mean, variance = self.running_mean, self.running_var
        return self.weight * (x - mean) / (variance + self.eps).sqrt() + self.bias


# wrong: averages that are trained
class BatchNorm(nn.Module):
    def __init__(self, d_model, momentum, eps):
        super().__init__()
        self.momentum, self.eps = momentum, eps
        self.weight = nn.Parameter(torch.ones(d_model))
        self.bias = nn.Parameter(torch.zeros(d_model))
        self.running_mean = nn.Parameter(torch.zeros(d_model))
        self.running_var = nn.Parameter(torch.ones(d_model))

    def forward(self, x):
        if self.training:
            mean = x.mean(dim=(0, 1))
            variance = (x - mean).square().mean(dim=(0, 1))
            n = x.shape[0] * x.shape[1]
            with torch.no_grad():
                self.running_mean.data.lerp_(mean, self.momentum)
                self.running_var.data.lerp_(variance * n / (n - 1), self.momentum)
        else:
            mean, variance = self.running_mean, self.running_var
        return self.weight * (x - mean) / (variance + self.eps).sqrt() + self.bias


# wrong: momentum fixed
class BatchNorm(nn.Module):
    def __init__(self, d_model, momentum, eps):
        super().__init__()
        self.momentum, self.eps = 0.1, eps
        self.weight = nn.Parameter(torch.ones(d_model))
        self.bias = nn.Parameter(torch.zeros(d_model))
        self.register_buffer("running_mean", torch.zeros(d_model))
        self.register_buffer("running_var", torch.ones(d_model))

    def forward(self, x):
        mean, variance = self.running_mean, self.running_var
        if self.training:
            mean, variance = x.mean(dim=(0, 1)), x.var(dim=(0, 1), correction=0)
            with torch.no_grad():
                self.running_mean.lerp_(mean, self.momentum)
                self.running_var.lerp_(x.var(dim=(0, 1)), self.momentum)
        return self.weight * (x - mean) / (variance + self.eps).sqrt() + self.bias


# wrong: ε outside of the root
class BatchNorm(nn.Module):
    def __init__(self, d_model, momentum, eps):
        super().__init__()
        self.momentum, self.eps = momentum, eps
        self.weight = nn.Parameter(torch.ones(d_model))
        self.bias = nn.Parameter(torch.zeros(d_model))
        self.register_buffer("running_mean", torch.zeros(d_model))
        self.register_buffer("running_var", torch.ones(d_model))

    def forward(self, x):
        mean, variance = self.running_mean, self.running_var
        if self.training:
            mean, variance = x.mean(dim=(0, 1)), x.var(dim=(0, 1), correction=0)
            with torch.no_grad():
                self.running_mean.lerp_(mean, self.momentum)
                self.running_var.lerp_(x.var(dim=(0, 1)), self.momentum)
        return self.weight * (x - mean) / (variance.sqrt() + self.eps) + self.bias


# wrong: ε fixed
class BatchNorm(nn.Module):
    def __init__(self, d_model, momentum, eps):
        super().__init__()
        self.momentum, self.eps = momentum, 1e-5
        self.weight = nn.Parameter(torch.ones(d_model))
        self.bias = nn.Parameter(torch.zeros(d_model))
        self.register_buffer("running_mean", torch.zeros(d_model))
        self.register_buffer("running_var", torch.ones(d_model))

    def forward(self, x):
        mean, variance = self.running_mean, self.running_var
        if self.training:
            mean, variance = x.mean(dim=(0, 1)), x.var(dim=(0, 1), correction=0)
            with torch.no_grad():
                self.running_mean.lerp_(mean, self.momentum)
                self.running_var.lerp_(x.var(dim=(0, 1)), self.momentum)
        return self.weight * (x - mean) / (variance + self.eps).sqrt() + self.bias


# wrong: running_var starts as zeros
class BatchNorm(nn.Module):
    def __init__(self, d_model, momentum, eps):
        super().__init__()
        self.momentum, self.eps = momentum, eps
        self.weight = nn.Parameter(torch.ones(d_model))
        self.bias = nn.Parameter(torch.zeros(d_model))
        self.register_buffer("running_mean", torch.zeros(d_model))
        self.register_buffer("running_var", torch.zeros(d_model))

    def forward(self, x):
        mean, variance = self.running_mean, self.running_var
        if self.training:
            mean, variance = x.mean(dim=(0, 1)), x.var(dim=(0, 1), correction=0)
            with torch.no_grad():
                self.running_mean.lerp_(mean, self.momentum)
                self.running_var.lerp_(x.var(dim=(0, 1)), self.momentum)
        return self.weight * (x - mean) / (variance + self.eps).sqrt() + self.bias


# wrong: only the first call moves the averages
class BatchNorm(nn.Module):
    def __init__(self, d_model, momentum, eps):
        super().__init__()
        self.momentum, self.eps = momentum, eps
        self.weight = nn.Parameter(torch.ones(d_model))
        self.bias = nn.Parameter(torch.zeros(d_model))
        self.register_buffer("running_mean", torch.zeros(d_model))
        self.register_buffer("running_var", torch.ones(d_model))

    def forward(self, x):
        mean, variance = self.running_mean, self.running_var
        if self.training:
            mean, variance = x.mean(dim=(0, 1)), x.var(dim=(0, 1), correction=0)
            if self.running_mean.abs().sum() == 0:
              with torch.no_grad():
                  self.running_mean.lerp_(mean, self.momentum)
                  self.running_var.lerp_(x.var(dim=(0, 1)), self.momentum)
        return self.weight * (x - mean) / (variance + self.eps).sqrt() + self.bias


# wrong: texts cut in another way
class BatchNorm(nn.Module):
    def __init__(self, d_model, momentum, eps):
        super().__init__()
        self.momentum, self.eps = momentum, eps
        self.weight = nn.Parameter(torch.ones(d_model))
        self.bias = nn.Parameter(torch.zeros(d_model))
        self.register_buffer("running_mean", torch.zeros(d_model))
        self.register_buffer("running_var", torch.ones(d_model))

    def forward(self, x):
        mean, variance = self.running_mean, self.running_var
        if self.training:
            mean, variance = x.reshape(-1, x.shape[1]).mean(dim=0).mean(), x.var(dim=(0, 1), correction=0)
            with torch.no_grad():
                self.running_mean.lerp_(mean, self.momentum)
                self.running_var.lerp_(x.var(dim=(0, 1)), self.momentum)
        return self.weight * (x - mean) / (variance + self.eps).sqrt() + self.bias


# wrong: averages after the result is used in a new array that is no buffer
class BatchNorm(nn.Module):
    def __init__(self, d_model, momentum, eps):
        super().__init__()
        self.momentum, self.eps = momentum, eps
        self.weight = nn.Parameter(torch.ones(d_model))
        self.bias = nn.Parameter(torch.zeros(d_model))
        self.register_buffer("running_mean", torch.zeros(d_model))
        self.register_buffer("running_var", torch.ones(d_model))

    def forward(self, x):
        mean, variance = self.running_mean, self.running_var
        if self.training:
            mean, variance = x.mean(dim=(0, 1)), x.var(dim=(0, 1), correction=0)
            with torch.no_grad():
                self.running_mean.clone().lerp_(mean, self.momentum)
                self.running_var.lerp_(x.var(dim=(0, 1)), self.momentum)
        return self.weight * (x - mean) / (variance + self.eps).sqrt() + self.bias


# wrong: standard deviations in running_var
class BatchNorm(nn.Module):
    def __init__(self, d_model, momentum, eps):
        super().__init__()
        self.momentum, self.eps = momentum, eps
        self.weight = nn.Parameter(torch.ones(d_model))
        self.bias = nn.Parameter(torch.zeros(d_model))
        self.register_buffer("running_mean", torch.zeros(d_model))
        self.register_buffer("running_var", torch.ones(d_model))

    def forward(self, x):
        mean, variance = self.running_mean, self.running_var
        if self.training:
            mean, variance = x.mean(dim=(0, 1)), x.var(dim=(0, 1), correction=0)
            with torch.no_grad():
                self.running_mean.lerp_(mean, self.momentum)
                self.running_var.lerp_(x.std(dim=(0, 1)), self.momentum)
        return self.weight * (x - mean) / (variance + self.eps).sqrt() + self.bias


# wrong: gain and shift in training only
class BatchNorm(nn.Module):
    def __init__(self, d_model, momentum, eps):
        super().__init__()
        self.momentum, self.eps = momentum, eps
        self.weight = nn.Parameter(torch.ones(d_model))
        self.bias = nn.Parameter(torch.zeros(d_model))
        self.register_buffer("running_mean", torch.zeros(d_model))
        self.register_buffer("running_var", torch.ones(d_model))

    def forward(self, x):
        mean, variance = self.running_mean, self.running_var
        if self.training:
            mean, variance = x.mean(dim=(0, 1)), x.var(dim=(0, 1), correction=0)
            with torch.no_grad():
                self.running_mean.lerp_(mean, self.momentum)
                self.running_var.lerp_(x.var(dim=(0, 1)), self.momentum)
        if not self.training:
            return (x - mean) / (variance + self.eps).sqrt()
        return self.weight * (x - mean) / (variance + self.eps).sqrt() + self.bias


# wrong: the gradient of the variance cut off
class BatchNorm(nn.Module):
    def __init__(self, d_model, momentum, eps):
        super().__init__()
        self.momentum, self.eps = momentum, eps
        self.weight = nn.Parameter(torch.ones(d_model))
        self.bias = nn.Parameter(torch.zeros(d_model))
        self.register_buffer("running_mean", torch.zeros(d_model))
        self.register_buffer("running_var", torch.ones(d_model))

    def forward(self, x):
        mean, variance = self.running_mean, self.running_var
        if self.training:
            mean, variance = x.mean(dim=(0, 1)), x.detach().var(dim=(0, 1), correction=0)
            with torch.no_grad():
                self.running_mean.lerp_(mean, self.momentum)
                self.running_var.lerp_(x.var(dim=(0, 1)), self.momentum)
        return self.weight * (x - mean) / (variance + self.eps).sqrt() + self.bias


# wrong: a mean of means moves the average twice
class BatchNorm(nn.Module):
    def __init__(self, d_model, momentum, eps):
        super().__init__()
        self.momentum, self.eps = momentum, eps
        self.weight = nn.Parameter(torch.ones(d_model))
        self.bias = nn.Parameter(torch.zeros(d_model))
        self.register_buffer("running_mean", torch.zeros(d_model))
        self.register_buffer("running_var", torch.ones(d_model))

    def forward(self, x):
        mean, variance = self.running_mean, self.running_var
        if self.training:
            mean, variance = x.mean(dim=(0, 1)), x.var(dim=(0, 1), correction=0)
            with torch.no_grad():
                [self.running_mean.lerp_(text.mean(dim=0), self.momentum) for text in x]
                self.running_var.lerp_(x.var(dim=(0, 1)), self.momentum)
        return self.weight * (x - mean) / (variance + self.eps).sqrt() + self.bias
