import math

import torch

from tfcourse import optimizers
from tfcourse.config import TrainConfig


# right: three cases
def learning_rate(step, n_steps, warmup, peak, lowest):
    if step < warmup:
        return peak * (step + 1) / warmup
    if step >= n_steps:
        return lowest
    done = (step - warmup) / (n_steps - warmup)
    return lowest + (peak - lowest) * (1 + math.cos(math.pi * done)) / 2


# right: the squared cosine of the half angle, as a tensor
def learning_rate(step, n_steps, warmup, peak, lowest):
    if step < warmup:
        return torch.tensor(peak * (step + 1) / warmup)
    left = max(0, n_steps - step)
    angle = torch.tensor(math.pi / 2 * (1 - left / max(1, n_steps - warmup)))
    return lowest + (peak - lowest) * torch.cos(angle) ** 2


# wrong: starts at 0
def learning_rate(step, n_steps, warmup, peak, lowest):
    if step < warmup:
        return peak * step / warmup
    if step >= n_steps:
        return lowest
    done = (step - warmup) / (n_steps - warmup)
    return lowest + (peak - lowest) * (1 + math.cos(math.pi * done)) / 2


# wrong: the cosine starts at step 0
def learning_rate(step, n_steps, warmup, peak, lowest):
    if step < warmup:
        return peak * (step + 1) / warmup
    if step >= n_steps:
        return lowest
    return lowest + (peak - lowest) * (1 + math.cos(math.pi * step / n_steps)) / 2


# wrong: warm-up times cosine
def learning_rate(step, n_steps, warmup, peak, lowest):
    rise = min(1, (step + 1) / warmup) if warmup else 1
    share = (1 + math.cos(math.pi * min(step, n_steps) / n_steps)) / 2
    return rise * (lowest + (peak - lowest) * share)


# wrong: rises again after the end
def learning_rate(step, n_steps, warmup, peak, lowest):
    if step < warmup:
        return peak * (step + 1) / warmup
    done = (step - warmup) / max(1, n_steps - warmup)
    return lowest + (peak - lowest) * (1 + math.cos(math.pi * done)) / 2


# wrong: the lowest rate is added
def learning_rate(step, n_steps, warmup, peak, lowest):
    if step < warmup:
        return peak * (step + 1) / warmup
    if step >= n_steps:
        return lowest
    done = (step - warmup) / (n_steps - warmup)
    return lowest + peak * (1 + math.cos(math.pi * done)) / 2


# wrong: falls in a line
def learning_rate(step, n_steps, warmup, peak, lowest):
    if step < warmup:
        return peak * (step + 1) / warmup
    if step >= n_steps:
        return lowest
    return peak + (lowest - peak) * (step - warmup) / (n_steps - warmup)


# wrong: divides by a warm-up of 0
def learning_rate(step, n_steps, warmup, peak, lowest):
    rise = peak * (step + 1) / warmup
    if step >= n_steps:
        return lowest
    done = max(0, step - warmup) / max(1, n_steps - warmup)
    return min(rise, lowest + (peak - lowest) * (1 + math.cos(math.pi * done)) / 2)


# wrong: divides by 0 after a run that is all warm-up
def learning_rate(step, n_steps, warmup, peak, lowest):
    if step < warmup:
        return peak * (step + 1) / warmup
    done = min(1, (step - warmup) / (n_steps - warmup))
    return lowest + (peak - lowest) * (1 + math.cos(math.pi * done)) / 2


# wrong: the cosine of degrees
def learning_rate(step, n_steps, warmup, peak, lowest):
    if step < warmup:
        return peak * (step + 1) / warmup
    if step >= n_steps:
        return lowest
    done = (step - warmup) / (n_steps - warmup)
    return lowest + (peak - lowest) * (1 + math.cos(180 * done)) / 2


# wrong: the warm-up is a step too long
def learning_rate(step, n_steps, warmup, peak, lowest):
    if step <= warmup:
        return peak * (step + 1) / (warmup + 1)
    if step >= n_steps:
        return lowest
    done = (step - warmup) / (n_steps - warmup)
    return lowest + (peak - lowest) * (1 + math.cos(math.pi * done)) / 2


# wrong: reaches lowest one step early
def learning_rate(step, n_steps, warmup, peak, lowest):
    if step < warmup:
        return peak * (step + 1) / warmup
    u = min(1, (step - warmup) / max(1, n_steps - warmup - 1))
    return lowest + (peak - lowest) * (1 + math.cos(math.pi * u)) / 2


# wrong: the fall counted without the warm-up
def learning_rate(step, n_steps, warmup, peak, lowest):
    if step < warmup:
        return peak * (step + 1) / warmup
    if step >= n_steps:
        return lowest
    u = (step - warmup) / n_steps
    return lowest + (peak - lowest) * (1 + math.cos(math.pi * u)) / 2


# wrong: a whole cosine
def learning_rate(step, n_steps, warmup, peak, lowest):
    if step < warmup:
        return peak * (step + 1) / warmup
    if step >= n_steps:
        return lowest
    done = (step - warmup) / (n_steps - warmup)
    return lowest + (peak - lowest) * (1 + math.cos(2 * math.pi * done)) / 2


# wrong: calls the package's own schedule
def learning_rate(step, n_steps, warmup, peak, lowest):
    config = TrainConfig(steps=n_steps, warmup=warmup, min_lr_ratio=lowest / peak)
    return peak * optimizers.schedule(step, config)


# wrong: rises from the lowest rate, one step late
def learning_rate(step, n_steps, warmup, peak, lowest):
    if step < warmup:
        return lowest + (peak - lowest) * step / warmup
    if step >= n_steps:
        return lowest
    done = (step - warmup) / (n_steps - warmup)
    return lowest + (peak - lowest) * (1 + math.cos(math.pi * done)) / 2
