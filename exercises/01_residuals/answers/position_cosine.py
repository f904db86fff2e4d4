import torch
from torch.nn import functional as F


# right: unit vectors, all products, without the diagonal
def position_cosine(x):
    B, L, _ = x.shape
    if L < 2:
        raise ValueError("no pair")
    unit = F.normalize(x, dim=-1)
    cosines = unit @ unit.transpose(1, 2)
    off = ~torch.eye(L, dtype=torch.bool)
    return cosines[:, off].mean().item()


# right: loops over pairs
def position_cosine(x):
    values = []
    for row in x:
        for i in range(len(row)):
            for j in range(i):
                values.append(F.cosine_similarity(row[i], row[j], dim=0))
    if not values:
        raise ValueError("x has no two positions")
    return float(torch.stack(values).mean())


# right: the length of the sum, by einsum
def position_cosine(x):
    L = x.shape[1]
    if L == 1:
        raise ValueError("a single position")
    length = x.square().sum(-1, keepdim=True).sqrt()
    unit = torch.where(length > 0, x / length, 0.0)
    total = torch.einsum("bid,bjd->b", unit, unit) - torch.einsum("bid,bid->b", unit, unit)
    return float((total / (L * (L - 1))).mean())


# right: upper triangle
def position_cosine(x):
    if x.size(1) < 2:
        raise ValueError("no pair")
    i, j = torch.triu_indices(x.size(1), x.size(1), offset=1)
    return F.cosine_similarity(x[:, i], x[:, j], dim=-1).mean().item()


# wrong: each position with itself
def position_cosine(x):
    if x.shape[1] < 2:
        raise ValueError("no pair")
    unit = F.normalize(x, dim=-1)
    return float((unit @ unit.mT).mean())


# wrong: without the diagonal, but divided by L²
def position_cosine(x):
    if x.shape[1] < 2:
        raise ValueError("no pair")
    unit = F.normalize(x, dim=-1)
    cosines = unit @ unit.mT * (1 - torch.eye(x.shape[1]))
    return float(cosines.mean())


# wrong: dot products
def position_cosine(x):
    L = x.shape[1]
    if L < 2:
        raise ValueError("no pair")
    products = x @ x.mT * (1 - torch.eye(L))
    return float(products.sum() / (len(x) * L * (L - 1)))


# wrong: neighbours alone
def position_cosine(x):
    if x.shape[1] < 2:
        raise ValueError("no pair")
    return float(F.cosine_similarity(x[:, 1:], x[:, :-1], dim=-1).mean())


# wrong: positions of all rows together
def position_cosine(x):
    if x.shape[1] < 2:
        raise ValueError("no pair")
    unit = F.normalize(x, dim=-1).flatten(0, 1)
    n = len(unit)
    cosines = unit @ unit.mT
    return float((cosines.sum() - cosines.trace()) / (n * (n - 1)))


# wrong: half a sum, divided by all pairs
def position_cosine(x):
    L = x.shape[1]
    if L < 2:
        raise ValueError("no pair")
    unit = F.normalize(x, dim=-1)
    above = torch.triu(unit @ unit.mT, diagonal=1)
    return float(above.sum(dim=(1, 2)).mean() / (L * (L - 1)))


# wrong: normalizes each feature over the positions
def position_cosine(x):
    L = x.shape[1]
    if L < 2:
        raise ValueError("no pair")
    unit = F.normalize(x, dim=1)
    cosines = unit @ unit.mT * (1 - torch.eye(L))
    return float(cosines.sum() / (len(x) * L * (L - 1)))


# wrong: NaN for a vector of zeros
def position_cosine(x):
    L = x.shape[1]
    if L < 2:
        raise ValueError("no pair")
    unit = x / x.norm(dim=-1, keepdim=True)
    cosines = unit @ unit.mT
    off = ~torch.eye(L, dtype=torch.bool)
    return float(cosines[:, off].mean())


# wrong: a tensor
def position_cosine(x):
    if x.shape[1] < 2:
        raise ValueError("no pair")
    unit = F.normalize(x, dim=-1)
    off = ~torch.eye(x.shape[1], dtype=torch.bool)
    return (unit @ unit.mT)[:, off].mean()


# wrong: NaN for a single position
def position_cosine(x):
    unit = F.normalize(x, dim=-1)
    off = ~torch.eye(x.shape[1], dtype=torch.bool)
    return float((unit @ unit.mT)[:, off].mean())


# wrong: a large ε in the length
def position_cosine(x):
    L = x.shape[1]
    if L < 2:
        raise ValueError("no pair")
    unit = x / (x.norm(dim=-1, keepdim=True) + 1e-5)
    off = ~torch.eye(L, dtype=torch.bool)
    return float((unit @ unit.mT)[:, off].mean())


# wrong: cosine with the mean vector
def position_cosine(x):
    if x.shape[1] < 2:
        raise ValueError("no pair")
    return float(F.cosine_similarity(x, x.mean(dim=1, keepdim=True), dim=-1).mean())


# wrong: the absolute value
def position_cosine(x):
    if x.shape[1] < 2:
        raise ValueError("no pair")
    unit = F.normalize(x, dim=-1)
    off = ~torch.eye(x.shape[1], dtype=torch.bool)
    return float((unit @ unit.mT)[:, off].abs().mean())


# wrong: takes away 1 for each position, a vector of zeros among them
def position_cosine(x):
    L = x.shape[1]
    if L < 2:
        raise ValueError("no pair")
    unit = F.normalize(x, dim=-1)
    total = (unit @ unit.mT).sum(dim=(1, 2)) - L
    return float((total / (L * (L - 1))).mean())


# wrong: the package's own
def position_cosine(x):
    from tfcourse.probes import mean_cosine

    return mean_cosine(x)


# wrong: the first row alone
def position_cosine(x):
    if x.shape[1] < 2:
        raise ValueError("no pair")
    unit = F.normalize(x[0], dim=-1)
    off = ~torch.eye(len(unit), dtype=torch.bool)
    return float((unit @ unit.T)[off].mean())


# wrong: takes the mean vector away first
def position_cosine(x):
    if x.shape[1] < 2:
        raise ValueError("no pair")
    unit = F.normalize(x - x.mean(dim=1, keepdim=True), dim=-1)
    off = ~torch.eye(x.shape[1], dtype=torch.bool)
    return float((unit @ unit.mT)[:, off].mean())


# wrong: leaves pairs with a vector of zeros out
def position_cosine(x):
    if x.shape[1] < 2:
        raise ValueError("no pair")
    unit = x / x.norm(dim=-1, keepdim=True)
    off = ~torch.eye(x.shape[1], dtype=torch.bool)
    return float((unit @ unit.mT)[:, off].nanmean())


# wrong: leaves out what is 1, to be rid of the diagonal
def position_cosine(x):
    if x.shape[1] < 2:
        raise ValueError("no pair")
    unit = F.normalize(x, dim=-1)
    cosines = unit @ unit.mT
    return float(cosines[cosines < 1 - 1e-5].mean())


# wrong: 0 for a single position
def position_cosine(x):
    L = x.shape[1]
    unit = F.normalize(x, dim=-1)
    total = (unit @ unit.mT).sum(dim=(1, 2)) - unit.square().sum(dim=(1, 2))
    return float((total / max(1, L * (L - 1))).mean())
