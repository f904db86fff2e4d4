import torch
from torch.nn import functional as F


# right: two projections
def layer_norm_gradient(x, g, eps):
    centred = x - x.mean(dim=-1, keepdim=True)
    root = (centred.square().mean(dim=-1, keepdim=True) + eps).sqrt()
    normed = centred / root
    along = (g * normed).mean(dim=-1, keepdim=True)
    return (g - g.mean(dim=-1, keepdim=True) - normed * along) / root


# right: with the Jacobian of each position as a matrix
def layer_norm_gradient(x, g, eps):
    d = x.shape[-1]
    variance, mean = torch.var_mean(x, dim=-1, correction=0, keepdim=True)
    root = (variance + eps).sqrt()
    normed = (x - mean) / root
    outer = torch.einsum("...i,...j->...ij", normed, normed)
    jacobian = (torch.eye(d) - 1 / d - outer / d) / root[..., None]
    return torch.einsum("...i,...ij->...j", g, jacobian)


# right: the chain rule, step by step
def layer_norm_gradient(x, g, eps):
    d = x.shape[-1]
    centred = x - x.mean(dim=-1, keepdim=True)
    variance = centred.pow(2).sum(dim=-1, keepdim=True) / d
    to_root = -(g * centred).sum(dim=-1, keepdim=True) / (variance + eps)
    to_variance = to_root / (2 * (variance + eps).sqrt())
    to_centred = g / (variance + eps).sqrt() + to_variance * 2 * centred / d
    return to_centred - to_centred.sum(dim=-1, keepdim=True) / d


# wrong: statistics as constants
def layer_norm_gradient(x, g, eps):
    return g / (x.var(dim=-1, correction=0, keepdim=True) + eps).sqrt()


# wrong: without the variance's path
def layer_norm_gradient(x, g, eps):
    root = (x.var(dim=-1, correction=0, keepdim=True) + eps).sqrt()
    return (g - g.mean(dim=-1, keepdim=True)) / root


# wrong: without the mean's path
def layer_norm_gradient(x, g, eps):
    variance, mean = torch.var_mean(x, dim=-1, correction=0, keepdim=True)
    root = (variance + eps).sqrt()
    normed = (x - mean) / root
    return (g - normed * (g * normed).mean(dim=-1, keepdim=True)) / root


# wrong: the division forgotten
def layer_norm_gradient(x, g, eps):
    variance, mean = torch.var_mean(x, dim=-1, correction=0, keepdim=True)
    normed = (x - mean) / (variance + eps).sqrt()
    along = (g * normed).mean(dim=-1, keepdim=True)
    return g - g.mean(dim=-1, keepdim=True) - normed * along


# wrong: by autograd
def layer_norm_gradient(x, g, eps):
    x = x.detach().clone().requires_grad_()
    y = (x - x.mean(-1, keepdim=True)) / (x.var(-1, correction=0, keepdim=True) + eps).sqrt()
    y.backward(g)
    return x.grad


# wrong: projects with ε left out of the normed vector
def layer_norm_gradient(x, g, eps):
    variance, mean = torch.var_mean(x, dim=-1, correction=0, keepdim=True)
    unit = (x - mean) / variance.sqrt()
    along = (g * unit).mean(dim=-1, keepdim=True)
    return (g - g.mean(dim=-1, keepdim=True) - unit * along) / (variance + eps).sqrt()


# wrong: a sum in place of a mean
def layer_norm_gradient(x, g, eps):
    variance, mean = torch.var_mean(x, dim=-1, correction=0, keepdim=True)
    root = (variance + eps).sqrt()
    normed = (x - mean) / root
    along = (g * normed).sum(dim=-1, keepdim=True)
    return (g - g.mean(dim=-1, keepdim=True) - normed * along) / root


# wrong: centres g in place
def layer_norm_gradient(x, g, eps):
    variance, mean = torch.var_mean(x, dim=-1, correction=0, keepdim=True)
    root = (variance + eps).sqrt()
    normed = (x - mean) / root
    g -= g.mean(dim=-1, keepdim=True)
    return (g - normed * (g * normed).mean(dim=-1, keepdim=True)) / root


# wrong: zeros, which are orthogonal to everything
def layer_norm_gradient(x, g, eps):
    return torch.zeros_like(x)


# wrong: unbiased variance
def layer_norm_gradient(x, g, eps):
    root = (x.var(dim=-1, keepdim=True) + eps).sqrt()
    normed = (x - x.mean(dim=-1, keepdim=True)) / root
    along = (g * normed).mean(dim=-1, keepdim=True)
    return (g - g.mean(dim=-1, keepdim=True) - normed * along) / root


# wrong: by torch.func
def layer_norm_gradient(x, g, eps):
    from torch.func import grad

    def weighted(x):
        centred = x - x.mean(-1, keepdim=True)
        return (g * centred / (centred.square().mean(-1, keepdim=True) + eps).sqrt()).sum()

    return grad(weighted)(x)


# wrong: by forward differentiation, which a symmetric Jacobian allows
def layer_norm_gradient(x, g, eps):
    import torch.func as library

    def norm(x):
        centred = x - x.mean(-1, keepdim=True)
        return centred / (centred.square().mean(-1, keepdim=True) + eps).sqrt()

    return getattr(library, "j" + "vp")(norm, (x,), (g,))[1]


# wrong: x where the normed vector belongs
def layer_norm_gradient(x, g, eps):
    variance, mean = torch.var_mean(x, dim=-1, correction=0, keepdim=True)
    root = (variance + eps).sqrt()
    normed = (x - mean) / root
    return (g - g.mean(-1, keepdim=True) - x * (g * x).mean(-1, keepdim=True)) / root


# wrong: one mean for all positions
def layer_norm_gradient(x, g, eps):
    variance, mean = torch.var_mean(x, dim=-1, correction=0, keepdim=True)
    root = (variance + eps).sqrt()
    normed = (x - mean) / root
    return (g - g.mean() - normed * (g * normed).mean()) / root


# wrong: ε left out of the root
def layer_norm_gradient(x, g, eps):
    variance, mean = torch.var_mean(x, dim=-1, correction=0, keepdim=True)
    root = variance.sqrt()
    normed = (x - mean) / root
    return (g - g.mean(-1, keepdim=True) - normed * (g * normed).mean(-1, keepdim=True)) / root


# wrong: finite differences
def layer_norm_gradient(x, g, eps):
    def loss(x):
        centred = x - x.mean(-1, keepdim=True)
        return (g * centred / (centred.square().mean(-1, keepdim=True) + eps).sqrt()).sum(-1)

    x, h, parts = x.double(), 1e-5, []
    for step in h * torch.eye(x.shape[-1], dtype=x.dtype):
        parts.append((loss(x + step) - loss(x - step)) / (2 * h))
    return torch.stack(parts, dim=-1).float()


# wrong: divided by the root twice
def layer_norm_gradient(x, g, eps):
    variance, mean = torch.var_mean(x, dim=-1, correction=0, keepdim=True)
    root = (variance + eps).sqrt()
    normed = (x - mean) / root
    return (g - g.mean(-1, keepdim=True) - normed * (g * normed).mean(-1, keepdim=True)) / (variance + eps)


# wrong: the wrong sign
def layer_norm_gradient(x, g, eps):
    variance, mean = torch.var_mean(x, dim=-1, correction=0, keepdim=True)
    root = (variance + eps).sqrt()
    normed = (x - mean) / root
    return (g - g.mean(-1, keepdim=True) + normed * (g * normed).mean(-1, keepdim=True)) / root


# wrong: LayerNorm of g
def layer_norm_gradient(x, g, eps):
    variance, mean = torch.var_mean(g, dim=-1, correction=0, keepdim=True)
    return (g - mean) / (variance + eps).sqrt()


# wrong: the gradient of RMSNorm
def layer_norm_gradient(x, g, eps):
    root = (x.square().mean(-1, keepdim=True) + eps).sqrt()
    normed = x / root
    return (g - normed * (g * normed).mean(-1, keepdim=True)) / root


# wrong: ε outside of the root
def layer_norm_gradient(x, g, eps):
    variance, mean = torch.var_mean(x, dim=-1, correction=0, keepdim=True)
    root = variance.sqrt() + eps
    normed = (x - mean) / root
    return (g - g.mean(-1, keepdim=True) - normed * (g * normed).mean(-1, keepdim=True)) / root


# wrong: the gradient of a norm whose ε stands outside of the root
def layer_norm_gradient(x, g, eps):
    centred = x - x.mean(-1, keepdim=True)
    sigma = centred.square().mean(-1, keepdim=True).sqrt()
    through_sigma = centred / sigma * (g * centred).mean(-1, keepdim=True) / (sigma + eps) ** 2
    return (g - g.mean(-1, keepdim=True)) / (sigma + eps) - through_sigma


# wrong: calls the package's own for the normed vector
def layer_norm_gradient(x, g, eps):
    from tfcourse.norms import LayerNorm

    normed = LayerNorm(x.shape[-1], eps)(x)
    root = (x.var(dim=-1, correction=0, keepdim=True) + eps).sqrt()
    return (g - g.mean(-1, keepdim=True) - normed * (g * normed).mean(-1, keepdim=True)) / root
