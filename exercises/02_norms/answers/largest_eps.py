import torch


# right: solved for ε
def largest_eps(x, share):
    variance = x.float().var(dim=-1, correction=0)
    return float(variance.min()) * (1 / share**2 - 1)


# right: each vector's own ε, then the smallest
def largest_eps(x, share):
    smallest = float("inf")
    for row in x.double().reshape(-1, x.shape[-1]):
        sigma = float((row - row.mean()).square().mean().sqrt())
        smallest = min(smallest, (sigma / share) ** 2 - sigma**2)
    return smallest


# right: halved until it fits
def largest_eps(x, share):
    variance = x.double().var(dim=-1, correction=0)
    low, high = 0.0, 1e6 * float(variance.max())
    for _ in range(200):
        middle = (low + high) / 2
        size = (variance / (variance + middle)).sqrt().min()
        low, high = (middle, high) if size >= share else (low, middle)
    return low


# wrong: the largest vector
def largest_eps(x, share):
    return float(x.float().var(dim=-1, correction=0).max()) * (1 / share**2 - 1)


# wrong: the average vector
def largest_eps(x, share):
    return float(x.float().var(dim=-1, correction=0).mean()) * (1 / share**2 - 1)


# wrong: the mean is in the size
def largest_eps(x, share):
    return float(x.float().square().mean(dim=-1).min()) * (1 / share**2 - 1)


# wrong: ε beside the standard deviation
def largest_eps(x, share):
    sigma = float(x.float().std(dim=-1, correction=0).min())
    return sigma / share - sigma


# wrong: share not squared
def largest_eps(x, share):
    variance = float(x.float().var(dim=-1, correction=0).min())
    return variance / share - variance


# wrong: the root of ε
def largest_eps(x, share):
    variance = float(x.float().var(dim=-1, correction=0).min())
    return (variance * (1 / share**2 - 1)) ** 0.5


# wrong: where ε takes over
def largest_eps(x, share):
    return float(x.float().var(dim=-1, correction=0).min())


# wrong: the default
def largest_eps(x, share):
    return 1e-5


# wrong: in the dtype of the input
def largest_eps(x, share):
    centred = x - x.mean(dim=-1, keepdim=True)
    return float(centred.square().mean(dim=-1).min()) * (1 / share**2 - 1)


# wrong: the variance with d − 1
def largest_eps(x, share):
    return float(x.float().var(dim=-1).min()) * (1 / share**2 - 1)


# wrong: the fraction upside down
def largest_eps(x, share):
    return float(x.float().var(dim=-1, correction=0).min()) / (1 / share**2 - 1)


# wrong: what is missing from the size, squared
def largest_eps(x, share):
    return float(x.float().var(dim=-1, correction=0).min()) * (1 - share) ** 2


# wrong: one for each vector
def largest_eps(x, share):
    return x.float().var(dim=-1, correction=0) * (1 / share**2 - 1)


# wrong: the share of the variance
def largest_eps(x, share):
    return float(x.float().var(dim=-1, correction=0).min()) * (1 - share**2)


# wrong: widened after the variance
def largest_eps(x, share):
    return float(x.var(dim=-1, correction=0).float().min()) * (1 / share**2 - 1)


# wrong: a tensor instead of a float
def largest_eps(x, share):
    return x.double().var(dim=-1, correction=0).min() * (1 / share**2 - 1)
