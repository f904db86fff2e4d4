import torch

from tfcourse.losses import IGNORE


# right: where, sum, and a count of at least 1
def mean_loss(losses, targets):
    counts = targets != IGNORE
    kept = torch.where(counts, losses.float(), 0.0)
    return kept.sum() / counts.sum().clamp(min=1)


# right: an index, and a case for none
def mean_loss(losses, targets):
    kept = losses[targets != IGNORE].float()
    return kept.mean() if len(kept) else kept.sum()


# right: a loop over rows
def mean_loss(losses, targets):
    total, n = torch.zeros(()), 0
    for row, of_row in zip(losses, targets):
        keep = (of_row != IGNORE).nonzero()[:, 0]
        total = total + row[keep].double().sum()
        n += len(keep)
    return (total / max(n, 1)).float()


# wrong: the mean over all positions
def mean_loss(losses, targets):
    return losses.float().mean()


# wrong: NaN where no target counts
def mean_loss(losses, targets):
    return losses[targets != IGNORE].float().mean()


# wrong: divided by all positions
def mean_loss(losses, targets):
    return losses.float().masked_fill(targets == IGNORE, 0).sum() / targets.numel()


# wrong: the mean of the rows' means
def mean_loss(losses, targets):
    counts = targets != IGNORE
    rows = torch.where(counts, losses.float(), 0.0).sum(1) / counts.sum(1).clamp(min=1)
    return rows.mean()


# wrong: times the mask, so that infinity stays
def mean_loss(losses, targets):
    counts = (targets != IGNORE).float()
    return (losses.float() * counts).sum() / counts.sum().clamp(min=1)


# wrong: counts the losses that are not 0
def mean_loss(losses, targets):
    kept = torch.where(targets != IGNORE, losses.float(), 0.0)
    return kept.sum() / (kept != 0).sum().clamp(min=1)


# wrong: id 0 is taken for padding
def mean_loss(losses, targets):
    counts = targets > 0
    return torch.where(counts, losses.float(), 0.0).sum() / counts.sum().clamp(min=1)


# wrong: sets the ignored losses to 0 in the input
def mean_loss(losses, targets):
    counts = targets != IGNORE
    losses[~counts] = 0
    return losses.float().sum() / counts.sum().clamp(min=1)


# wrong: detached, so that nothing can learn from it
def mean_loss(losses, targets):
    kept = [x for x, t in zip(losses.flatten().tolist(), targets.flatten().tolist()) if t != IGNORE]
    return torch.tensor(sum(kept) / max(1, len(kept)))


# wrong: the sum
def mean_loss(losses, targets):
    return losses[targets != IGNORE].float().sum()


# right: where before and after the division
def mean_loss(losses, targets):
    m = targets != IGNORE
    kept = torch.where(m, losses.float(), 0.0)
    n = m.sum()
    return torch.where(n > 0, kept.sum() / n, 0.0)


# wrong: makes finite what is not, also where it counts
def mean_loss(losses, targets):
    m = (targets != IGNORE).float()
    return (losses.float().nan_to_num() * m).sum() / m.sum().clamp(min=1)


# wrong: sum in half
def mean_loss(losses, targets):
    m = targets != IGNORE
    return torch.where(m, losses, 0.0).sum() / m.sum().clamp(min=1)


# wrong: one more in the count
def mean_loss(losses, targets):
    m = targets != IGNORE
    return torch.where(m, losses.float(), 0.0).sum() / (m.sum() + 1)


# wrong: a Python number where no target counts
def mean_loss(losses, targets):
    m = targets != IGNORE
    if not m.any():
        return 0.0
    return losses[m].float().mean()


# wrong: the mean in half, widened afterwards
def mean_loss(losses, targets):
    m = targets != IGNORE
    return losses[m].mean().float() if m.any() else losses.float().sum() * 0


# wrong: .item() of the sum
def mean_loss(losses, targets):
    m = targets != IGNORE
    return torch.tensor(losses[m].float().sum().item() / max(1, int(m.sum())))
