import math

import torch
import torch.nn.functional as F
from torch import nn

from tfcourse.losses import IGNORE


# right: backward on sums over the count of the whole batch
def step_gradient(model, parts, limit):
    n = max(1, sum(int((targets != IGNORE).sum()) for _, targets in parts))
    model.zero_grad()
    for inputs, targets in parts:
        (model.loss(inputs, targets, reduction="sum") / n).backward()
    gradients = [p.grad for p in model.parameters()]
    norm = torch.sqrt(sum(g.square().sum() for g in gradients))
    if norm > limit:
        gradients = [g * (limit / norm) for g in gradients]
    return gradients, norm


# right: autograd.grad, cross-entropy on logits, divided at the end
def step_gradient(model, parts, limit):
    weights = list(model.parameters())
    totals, n = [torch.zeros_like(w) for w in weights], 0
    for inputs, targets in parts:
        losses = F.cross_entropy(model(inputs).flatten(0, 1), targets.flatten(), reduction="none")
        grads = torch.autograd.grad(losses.sum(), weights)
        totals = [total + g for total, g in zip(totals, grads)]
        n += int((targets != IGNORE).sum())
    flat = torch.cat([t.flatten() for t in totals]) / max(n, 1)
    norm = torch.linalg.vector_norm(flat).item()
    flat = flat * min(1.0, limit / (norm + 1e-12))
    pieces = flat.split([w.numel() for w in weights])
    return [p.view_as(w) for p, w in zip(pieces, weights)], norm


# right: means weighted by their share of the targets
def step_gradient(model, parts, limit):
    counts = [int((targets != IGNORE).sum()) for _, targets in parts]
    model.zero_grad(set_to_none=True)
    loss = 0.0
    for (inputs, targets), count in zip(parts, counts):
        loss = loss + model.loss(inputs, targets) * count / max(1, sum(counts))
    loss.backward()
    norm = math.sqrt(sum(float(p.grad.norm()) ** 2 for p in model.parameters()))
    share = 1.0 if norm <= limit else limit / norm
    return [share * p.grad for p in model.parameters()], norm


# wrong: the mean of the parts' means
def step_gradient(model, parts, limit):
    model.zero_grad()
    for inputs, targets in parts:
        (model.loss(inputs, targets) / len(parts)).backward()
    gradients = [p.grad for p in model.parameters()]
    norm = torch.sqrt(sum(g.square().sum() for g in gradients))
    return [g * torch.clamp(limit / (norm + 1e-12), max=1) for g in gradients], norm


# wrong: the means are added and never divided
def step_gradient(model, parts, limit):
    model.zero_grad()
    for inputs, targets in parts:
        model.loss(inputs, targets).backward()
    gradients = [p.grad for p in model.parameters()]
    norm = torch.sqrt(sum(g.square().sum() for g in gradients))
    return [g * torch.clamp(limit / (norm + 1e-12), max=1) for g in gradients], norm


# wrong: the sums are never divided
def step_gradient(model, parts, limit):
    model.zero_grad()
    for inputs, targets in parts:
        model.loss(inputs, targets, reduction="sum").backward()
    gradients = [p.grad for p in model.parameters()]
    norm = torch.sqrt(sum(g.square().sum() for g in gradients))
    return [g * torch.clamp(limit / (norm + 1e-12), max=1) for g in gradients], norm


# wrong: old gradients stay
def step_gradient(model, parts, limit):
    n = max(1, sum(int((targets != IGNORE).sum()) for _, targets in parts))
    for inputs, targets in parts:
        (model.loss(inputs, targets, reduction="sum") / n).backward()
    gradients = [p.grad for p in model.parameters()]
    norm = torch.sqrt(sum(g.square().sum() for g in gradients))
    return [g * torch.clamp(limit / (norm + 1e-12), max=1) for g in gradients], norm


# wrong: the gradient is emptied before each part
def step_gradient(model, parts, limit):
    n = max(1, sum(int((targets != IGNORE).sum()) for _, targets in parts))
    for inputs, targets in parts:
        model.zero_grad()
        (model.loss(inputs, targets, reduction="sum") / n).backward()
    gradients = [p.grad for p in model.parameters()]
    norm = torch.sqrt(sum(g.square().sum() for g in gradients))
    return [g * torch.clamp(limit / (norm + 1e-12), max=1) for g in gradients], norm


# wrong: each weight clipped by its own norm
def step_gradient(model, parts, limit):
    n = max(1, sum(int((targets != IGNORE).sum()) for _, targets in parts))
    model.zero_grad()
    for inputs, targets in parts:
        (model.loss(inputs, targets, reduction="sum") / n).backward()
    gradients = [p.grad for p in model.parameters()]
    norm = torch.sqrt(sum(g.square().sum() for g in gradients))
    return [g * torch.clamp(limit / (g.norm() + 1e-12), max=1) for g in gradients], norm


# wrong: always scaled to the limit
def step_gradient(model, parts, limit):
    n = max(1, sum(int((targets != IGNORE).sum()) for _, targets in parts))
    model.zero_grad()
    for inputs, targets in parts:
        (model.loss(inputs, targets, reduction="sum") / n).backward()
    gradients = [p.grad for p in model.parameters()]
    norm = torch.sqrt(sum(g.square().sum() for g in gradients))
    return [g * limit / (norm + 1e-12) for g in gradients], norm


# wrong: each number is limited
def step_gradient(model, parts, limit):
    n = max(1, sum(int((targets != IGNORE).sum()) for _, targets in parts))
    model.zero_grad()
    for inputs, targets in parts:
        (model.loss(inputs, targets, reduction="sum") / n).backward()
    gradients = [p.grad for p in model.parameters()]
    norm = torch.sqrt(sum(g.square().sum() for g in gradients))
    return [g.clamp(-limit, limit) for g in gradients], norm


# wrong: the norm after clipping
def step_gradient(model, parts, limit):
    n = max(1, sum(int((targets != IGNORE).sum()) for _, targets in parts))
    model.zero_grad()
    for inputs, targets in parts:
        (model.loss(inputs, targets, reduction="sum") / n).backward()
    gradients = [p.grad for p in model.parameters()]
    norm = torch.sqrt(sum(g.square().sum() for g in gradients))
    gradients = [g * torch.clamp(limit / (norm + 1e-12), max=1) for g in gradients]
    return gradients, torch.cat([g.flatten() for g in gradients]).norm()


# wrong: the library's own clipping
def step_gradient(model, parts, limit):
    n = max(1, sum(int((targets != IGNORE).sum()) for _, targets in parts))
    model.zero_grad()
    for inputs, targets in parts:
        (model.loss(inputs, targets, reduction="sum") / n).backward()
    norm = nn.utils.clip_grad_norm_(model.parameters(), limit)
    return [p.grad for p in model.parameters()], norm


# wrong: divides by no targets
def step_gradient(model, parts, limit):
    n = sum(int((targets != IGNORE).sum()) for _, targets in parts)
    model.zero_grad()
    for inputs, targets in parts:
        (model.loss(inputs, targets, reduction="sum") / n).backward()
    gradients = [p.grad for p in model.parameters()]
    norm = torch.sqrt(sum(g.square().sum() for g in gradients))
    return [g * min(1.0, limit / max(float(norm), 1e-12)) for g in gradients], norm


# wrong: parts clipped one by one
def step_gradient(model, parts, limit):
    n = max(1, sum(int((targets != IGNORE).sum()) for _, targets in parts))
    weights = list(model.parameters())
    totals, squares = [torch.zeros_like(w) for w in weights], 0
    for inputs, targets in parts:
        grads = torch.autograd.grad(model.loss(inputs, targets, reduction="sum") / n, weights)
        norm = torch.sqrt(sum(g.square().sum() for g in grads))
        totals = [t + g * torch.clamp(limit / (norm + 1e-12), max=1) for t, g in zip(totals, grads)]
    return totals, torch.sqrt(sum(t.square().sum() for t in totals))


# wrong: the squared norm
def step_gradient(model, parts, limit):
    n = max(1, sum(int((targets != IGNORE).sum()) for _, targets in parts))
    model.zero_grad()
    for inputs, targets in parts:
        (model.loss(inputs, targets, reduction="sum") / n).backward()
    g = [p.grad for p in model.parameters()]
    norm = sum(p.square().sum() for p in g)
    return [p * min(1.0, limit / max(norm, 1e-9)) for p in g], norm


# wrong: weights of rows
def step_gradient(model, parts, limit):
    n = sum(len(y) for _, y in parts)
    model.zero_grad()
    for x, y in parts:
        (model.loss(x, y) * len(y) / n).backward()
    g = [p.grad for p in model.parameters()]
    norm = torch.stack([p.norm() for p in g]).norm()
    return [p * min(1.0, limit / max(norm, 1e-9)) for p in g], norm


# wrong: nan when all is zero
def step_gradient(model, parts, limit):
    n = max(1, sum(int((targets != IGNORE).sum()) for _, targets in parts))
    model.zero_grad()
    for inputs, targets in parts:
        (model.loss(inputs, targets, reduction="sum") / n).backward()
    g = [p.grad for p in model.parameters()]
    norm = torch.stack([p.norm() for p in g]).norm()
    return [p / norm * torch.minimum(norm, torch.tensor(limit)) for p in g], norm


# wrong: word 0 is not counted as a target
def step_gradient(model, parts, limit):
    weights = list(model.parameters())
    for p in weights:
        p.grad = None
    total = sum(int((targets > 0).sum()) for _, targets in parts)
    for inputs, targets in parts:
        loss = model.loss(inputs, targets, reduction="sum") / max(total, 1)
        loss.backward()
    grads = [torch.zeros_like(p) if p.grad is None else p.grad.clone() for p in weights]
    norm = math.sqrt(sum(g.square().sum().item() for g in grads))
    factor = limit / norm if norm > limit else 1.0
    return [g * factor for g in grads], norm


# wrong: clips after each part
def step_gradient(model, parts, limit):
    weights = list(model.parameters())
    for p in weights:
        p.grad = None
    total = sum(int((targets != IGNORE).sum()) for _, targets in parts)
    for inputs, targets in parts:
        loss = model.loss(inputs, targets, reduction="sum") / max(total, 1)
        loss.backward()
        so_far = math.sqrt(sum(p.grad.square().sum().item() for p in weights if p.grad is not None))
        if so_far > limit:
            for p in weights:
                if p.grad is not None:
                    p.grad.mul_(limit / so_far)
    grads = [torch.zeros_like(p) if p.grad is None else p.grad.clone() for p in weights]
    norm = math.sqrt(sum(g.square().sum().item() for g in grads))
    factor = limit / norm if norm > limit else 1.0
    return [g * factor for g in grads], norm


# wrong: the running total of each part instead of the total of all
def step_gradient(model, parts, limit):
    weights = list(model.parameters())
    for p in weights:
        p.grad = None
    total = 0
    for inputs, targets in parts:
        total += int((targets != IGNORE).sum())
        loss = model.loss(inputs, targets, reduction="sum") / max(total, 1)
        loss.backward()
    grads = [torch.zeros_like(p) if p.grad is None else p.grad.clone() for p in weights]
    norm = math.sqrt(sum(g.square().sum().item() for g in grads))
    factor = limit / norm if norm > limit else 1.0
    return [g * factor for g in grads], norm


# wrong: the norms of the parts added
def step_gradient(model, parts, limit):
    n = max(1, sum(int((y != IGNORE).sum()) for _, y in parts))
    total, norms = [torch.zeros_like(p) for p in model.parameters()], []
    for x, y in parts:
        model.zero_grad()
        (model.loss(x, y, reduction="sum") / n).backward()
        total = [t + p.grad for t, p in zip(total, model.parameters())]
        norms.append(torch.sqrt(sum(p.grad.square().sum() for p in model.parameters())))
    scale = min(1.0, limit / max(float(sum(norms)), 1e-12))
    return [t * scale for t in total], sum(norms)


# wrong: clipped to a norm of 1, whatever the limit
def step_gradient(model, parts, limit):
    n = max(1, sum(int((targets != IGNORE).sum()) for _, targets in parts))
    model.zero_grad()
    for inputs, targets in parts:
        (model.loss(inputs, targets, reduction="sum") / n).backward()
    gradients = [p.grad for p in model.parameters()]
    norm = torch.sqrt(sum(g.square().sum() for g in gradients))
    if norm > limit:
        gradients = [g / norm for g in gradients]
    return gradients, norm


# wrong: divided by one more than the number of targets
def step_gradient(model, parts, limit):
    n = 1 + sum(int((targets != IGNORE).sum()) for _, targets in parts)
    model.zero_grad()
    for inputs, targets in parts:
        (model.loss(inputs, targets, reduction="sum") / n).backward()
    gradients = [p.grad for p in model.parameters()]
    norm = torch.sqrt(sum(g.square().sum() for g in gradients))
    return [g * torch.clamp(limit / (norm + 1e-12), max=1) for g in gradients], norm
