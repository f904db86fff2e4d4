import torch


# right: from the definition
def rms(x):
    return x.pow(2).mean(dim=-1).sqrt()


# right: by the length
def rms(x):
    return torch.linalg.vector_norm(x, dim=-1) / x.shape[-1] ** 0.5


# right: by einsum
def rms(x):
    return (torch.einsum("...d,...d->...", x, x) / x.shape[-1]).sqrt()


# wrong: the length
def rms(x):
    return x.norm(dim=-1)


# wrong: the root left out
def rms(x):
    return (x * x).mean(dim=-1)


# wrong: the standard deviation
def rms(x):
    return x.std(dim=-1, correction=0)


# wrong: the mean of the absolute values
def rms(x):
    return x.abs().mean(dim=-1)


# wrong: one number for all vectors
def rms(x):
    return x.square().mean().sqrt()


# wrong: over the first axis
def rms(x):
    return x.square().mean(dim=0).sqrt()


# wrong: squares in place
def rms(x):
    return x.square_().mean(dim=-1).sqrt()


# wrong: axis 1 in place of the last
def rms(x):
    return x.square().mean(dim=1).sqrt()


# wrong: keeps the axis
def rms(x):
    return x.square().mean(dim=-1, keepdim=True).sqrt()


# wrong: the root before the mean
def rms(x):
    return x.square().sqrt().mean(dim=-1)


# wrong: one over it
def rms(x):
    return x.pow(2).mean(-1).pow(-0.5)


# wrong: divides by the number of rows
def rms(x):
    return x.norm(dim=-1) / x.shape[0] ** 0.5


# wrong: divides by d − 1
def rms(x):
    return (x.square().sum(-1) / (x.shape[-1] - 1)).sqrt()


# wrong: for a table alone
def rms(x):
    return torch.stack([row.square().mean().sqrt() for row in x])


# wrong: a floor for safety that is far too high
def rms(x):
    return (x.square().mean(dim=-1) + 1e-5).sqrt()


# wrong: a small floor under the root
def rms(x):
    return (x.square().mean(dim=-1) + 1e-8).sqrt()


# wrong: the standard deviation as PyTorch has it
def rms(x):
    return x.std(dim=-1)
