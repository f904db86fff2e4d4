import copy
import math

import torch
import torch.nn.functional as F
from torch import nn

from tfcourse.config import TrainConfig
from tfcourse.data.tokenizers import PAD
from tfcourse.losses import IGNORE
from tfcourse.optimizers import make_optimizers, schedule, set_learning_rate


# right: AdamW with warm-up and cosine
def train_lm(model, sample):
    n_steps, warmup, peak = 200, 20, 1e-2
    optimizer = torch.optim.AdamW(model.parameters(), lr=peak, betas=(0.9, 0.99))
    for step in range(n_steps):
        rise = min(1, (step + 1) / warmup)
        for group in optimizer.param_groups:
            group["lr"] = peak * rise * (1 + math.cos(math.pi * step / n_steps)) / 2
        rows = sample(32)
        inputs, targets = rows[:, :-1], rows[:, 1:]
        loss = F.cross_entropy(model(inputs).flatten(0, 1), targets.flatten(), ignore_index=PAD)
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
    return model


# right: the course's Muon and schedule, loss from the model
def train_lm(model, sample):
    config = TrainConfig(steps=200, optimizer="muon", lr=6e-3, warmup=20)
    optimizers = make_optimizers(model, config)
    model.train()
    for step in range(config.steps):
        set_learning_rate(optimizers, schedule(step, config))
        rows = sample(32)
        targets = rows[:, 1:].masked_fill(rows[:, 1:] == PAD, IGNORE)
        model.zero_grad()
        model.loss(rows[:, :-1], targets).backward()
        for optimizer in optimizers:
            optimizer.step()
    return model.eval()


# wrong: inputs are the targets
def train_lm(model, sample):
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
    for step in range(40):
        inputs = sample(32)[:, :-1]
        loss = F.cross_entropy(model(inputs).flatten(0, 1), inputs.flatten(), ignore_index=PAD)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    return model


# wrong: shifted the other way
def train_lm(model, sample):
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
    for step in range(60):
        rows = sample(32)
        loss = F.cross_entropy(
            model(rows[:, 1:]).flatten(0, 1), rows[:, :-1].flatten(), ignore_index=PAD
        )
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    return model


# wrong: the same few texts at each step
def train_lm(model, sample):
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
    rows = sample(16)
    for step in range(60):
        loss = F.cross_entropy(
            model(rows[:, :-1]).flatten(0, 1), rows[:, 1:].flatten(), ignore_index=PAD
        )
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    return model


# wrong: padding counts
def train_lm(model, sample):
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2, betas=(0.9, 0.99))
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, 200)
    for step in range(200):
        rows = sample(32)
        loss = F.cross_entropy(model(rows[:, :-1]).flatten(0, 1), rows[:, 1:].flatten())
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        schedule.step()
    return model


# wrong: trains a copy
def train_lm(model, sample):
    trained = copy.deepcopy(model)
    optimizer = torch.optim.AdamW(trained.parameters(), lr=1e-2)
    for step in range(5):
        rows = sample(32)
        loss = F.cross_entropy(
            trained(rows[:, :-1]).flatten(0, 1), rows[:, 1:].flatten(), ignore_index=PAD
        )
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    return model


# wrong: never steps
def train_lm(model, sample):
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
    for step in range(5):
        rows = sample(32)
        loss = F.cross_entropy(
            model(rows[:, :-1]).flatten(0, 1), rows[:, 1:].flatten(), ignore_index=PAD
        )
        optimizer.zero_grad()
        loss.backward()
    return model


# wrong: stops too early
def train_lm(model, sample):
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
    for step in range(30):
        rows = sample(32)
        loss = F.cross_entropy(
            model(rows[:, :-1]).flatten(0, 1), rows[:, 1:].flatten(), ignore_index=PAD
        )
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    return model


# wrong: a rate at which it flies apart
def train_lm(model, sample):
    optimizer = torch.optim.SGD(model.parameters(), lr=30.0)
    for step in range(20):
        rows = sample(32)
        loss = F.cross_entropy(
            model(rows[:, :-1]).flatten(0, 1), rows[:, 1:].flatten(), ignore_index=PAD
        )
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    return model


# wrong: cross-entropy of probabilities
def train_lm(model, sample):
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
    for step in range(60):
        rows = sample(32)
        p = model(rows[:, :-1]).softmax(dim=-1)
        loss = F.cross_entropy(p.flatten(0, 1), rows[:, 1:].flatten(), ignore_index=PAD)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    return model


# wrong: the mask is off
def train_lm(model, sample):
    from tfcourse.architectures import DecoderLM
    import dataclasses

    model = DecoderLM(dataclasses.replace(model.config, causal=False))
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
    for step in range(5):
        rows = sample(32)
        loss = F.cross_entropy(
            model(rows[:, :-1]).flatten(0, 1), rows[:, 1:].flatten(), ignore_index=PAD
        )
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    return model


# wrong: returns the last loss
def train_lm(model, sample):
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
    for step in range(5):
        rows = sample(32)
        loss = F.cross_entropy(
            model(rows[:, :-1]).flatten(0, 1), rows[:, 1:].flatten(), ignore_index=PAD
        )
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    return loss


# wrong: gradients are never emptied
def train_lm(model, sample):
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
    for step in range(100):
        rows = sample(32)
        loss = F.cross_entropy(
            model(rows[:, :-1]).flatten(0, 1), rows[:, 1:].flatten(), ignore_index=PAD
        )
        loss.backward()
        optimizer.step()
    return model


# wrong: only the last question
def train_lm(model, sample):
    o = torch.optim.AdamW(model.parameters(), lr=5e-3)
    for _ in range(50):
        r = sample(32)
        l = F.cross_entropy(model(r[:, :-1])[:, -1], r[:, -1], ignore_index=PAD)
        o.zero_grad(); l.backward(); o.step()
    return model


# wrong: EOS and PAD ignored
def train_lm(model, sample):
    o = torch.optim.AdamW(model.parameters(), lr=1e-2)
    for _ in range(80):
        r = sample(32)
        y = r[:, 1:].clone()
        y[y <= 2] = -100
        l = F.cross_entropy(model(r[:, :-1]).flatten(0, 1), y.flatten())
        o.zero_grad(); l.backward(); o.step()
    return model


# wrong: gradient ascent
def train_lm(model, sample):
    o = torch.optim.AdamW(model.parameters(), lr=5e-3)
    for _ in range(20):
        r = sample(32)
        l = -F.cross_entropy(model(r[:, :-1]).flatten(0, 1), r[:, 1:].flatten(), ignore_index=PAD)
        o.zero_grad(); l.backward(); o.step()
    return model


# wrong: shifted by two
def train_lm(model, sample):
    n_steps, warmup, peak = 400, 20, 3e-3
    optimizer = torch.optim.AdamW(model.parameters(), lr=peak, weight_decay=0.01)
    model.train()
    for step in range(n_steps):
        rate = min((step + 1) / warmup, (1 + math.cos(math.pi * step / n_steps)) / 2)
        for group in optimizer.param_groups:
            group["lr"] = peak * rate
        rows = sample(32)
        inputs, targets = rows[:, :-2], rows[:, 2:]
        loss = model.loss(inputs, targets.masked_fill(targets == PAD, IGNORE))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    return model


# wrong: only the first two targets of each text are asked for
def train_lm(model, sample):
    n_steps, warmup, peak = 400, 20, 3e-3
    optimizer = torch.optim.AdamW(model.parameters(), lr=peak, weight_decay=0.01)
    model.train()
    for step in range(n_steps):
        rate = min((step + 1) / warmup, (1 + math.cos(math.pi * step / n_steps)) / 2)
        for group in optimizer.param_groups:
            group["lr"] = peak * rate
        rows = sample(32)
        inputs, targets = rows[:, :-1], rows[:, 1:]
        loss = model.loss(inputs, targets.masked_fill((targets == PAD) | (torch.arange(targets.shape[1]) > 1), IGNORE))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    return model
