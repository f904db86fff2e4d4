import torch


# right: fills in zeros, then divides by the count
def mean_pool(x, real):
    total = x.masked_fill(~real.unsqueeze(-1), 0.0).sum(dim=1)
    return total / real.sum(dim=1, keepdim=True).clamp(min=1)


# right: row by row
def mean_pool(x, real):
    rows = [row[r].mean(dim=0) if r.any() else torch.zeros_like(row[0]) for row, r in zip(x, real)]
    return torch.stack(rows)


# right: weights and einsum
def mean_pool(x, real):
    x = torch.where(real[:, :, None], x, torch.zeros(()))
    weights = real.float() / real.float().sum(dim=1, keepdim=True).clamp(min=1)
    return torch.einsum("bl,bld->bd", weights, x)


# wrong: averages the PADs along
def mean_pool(x, real):
    return x.mean(dim=1)


# wrong: divides by the filled length
def mean_pool(x, real):
    return (x * real.unsqueeze(-1)).mean(dim=1)


# wrong: 0 / 0 for a row without tokens
def mean_pool(x, real):
    total = x.masked_fill(~real.unsqueeze(-1), 0.0).sum(dim=1)
    return total / real.sum(dim=1, keepdim=True)


# wrong: multiplies NaN by 0
def mean_pool(x, real):
    total = (x * real.unsqueeze(-1)).sum(dim=1)
    return total / real.sum(dim=1, keepdim=True).clamp(min=1)


# wrong: takes True for a PAD
def mean_pool(x, real):
    total = x.masked_fill(real.unsqueeze(-1), 0.0).sum(dim=1)
    return total / (~real).sum(dim=1, keepdim=True).clamp(min=1)


# wrong: one mean for the whole batch
def mean_pool(x, real):
    return x[real].mean(dim=0).expand(len(x), -1)


# wrong: reads the first position
def mean_pool(x, real):
    return x[:, 0]


# wrong: clears the PADs in place
def mean_pool(x, real):
    x[~real] = 0
    return x.sum(dim=1) / real.sum(dim=1, keepdim=True).clamp(min=1)


# wrong: divides by the count of the batch
def mean_pool(x, real):
    return x.masked_fill(~real.unsqueeze(-1), 0.0).sum(dim=1) / real.sum().clamp(min=1)


# wrong: takes the first so many, as if PADs stood at the end alone
def mean_pool(x, real):
    lengths = real.sum(dim=1).tolist()
    return torch.stack([row[:n].sum(dim=0) / max(n, 1) for row, n in zip(x, lengths)])


# wrong: nanmean
def mean_pool(x, real):
    return x.masked_fill(~real.unsqueeze(-1), torch.nan).nanmean(dim=1)


# wrong: skips rows of zeros in place of PADs
def mean_pool(x, real):
    x = x.masked_fill(~real.unsqueeze(-1), 0.0)
    return x.sum(dim=1) / (x != 0).any(dim=0).sum(dim=0).clamp(min=1)


# wrong: NaN is put to 0 everywhere, also at real tokens
def mean_pool(x, real):
    total = (torch.nan_to_num(x) * real[..., None]).sum(dim=1)
    return total / real.sum(dim=1, keepdim=True).clamp(min=1)
