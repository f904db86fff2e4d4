import math

import torch
from torch import nn


# right: by the name of each parameter
def draw_weights(model):
    d = model.config.d_model
    std = min(0.02, 2 / d)
    with torch.no_grad():
        for name, p in model.named_parameters():
            if "norm" in name:
                p.fill_(0.0 if name.endswith("bias") else 1.0)
            elif p.ndim == 1:
                p.zero_()
            else:
                table = "embedding" in name or name.startswith("head")
                p.normal_(std=std if table else 0.02)
    return model


# right: by the kind of each module
def draw_weights(model):
    d = model.config.d_model
    for module in model.modules():
        if isinstance(module, nn.Linear):
            nn.init.normal_(module.weight, std=0.02 if module is not model.head else 1 / d)
            if module.bias is not None:
                nn.init.zeros_(module.bias)
        elif isinstance(module, nn.Embedding):
            nn.init.normal_(module.weight, std=1 / d)
        elif hasattr(module, "weight"):
            nn.init.ones_(module.weight)
            if getattr(module, "bias", None) is not None:
                nn.init.zeros_(module.bias)
    nn.init.normal_(model.head.weight, std=1 / d)
    return model


# right: writers to the stream scaled down by depth, a uniform table
def draw_weights(model):
    d, n = model.config.d_model, model.config.n_layers
    for name, p in model.named_parameters():
        if p.ndim == 1:
            nn.init.constant_(p, float("norm" in name and name.endswith("weight")))
        elif name.endswith(("out.weight", "down.weight")):
            nn.init.normal_(p, std=0.02 / math.sqrt(2 * n))
        elif "blocks" in name:
            nn.init.normal_(p, std=0.02)
        else:
            nn.init.uniform_(p, -2.5 / d, 2.5 / d)
    return model


# wrong: 0.02 everywhere
def draw_weights(model):
    for name, p in model.named_parameters():
        if p.ndim == 1:
            nn.init.constant_(p, float("norm" in name and name.endswith("weight")))
        else:
            nn.init.normal_(p, std=0.02)
    return model


# wrong: PyTorch's own way
def draw_weights(model):
    for module in model.modules():
        if hasattr(module, "reset_parameters"):
            module.reset_parameters()
        elif isinstance(getattr(module, "weight", None), nn.Parameter):
            nn.init.ones_(module.weight)
            nn.init.zeros_(module.bias)
    model.head.weight = model.stack.embedding.weight
    nn.init.normal_(model.head.weight)
    return model


# wrong: all zero
def draw_weights(model):
    for p in model.parameters():
        nn.init.zeros_(p)
    return model


# wrong: unties the head
def draw_weights(model):
    d = model.config.d_model
    for name, p in model.named_parameters():
        if p.ndim == 1:
            nn.init.constant_(p, float("norm" in name and name.endswith("weight")))
        else:
            nn.init.normal_(p, std=0.02 if "blocks" in name else 2 / d)
    model.head.weight = nn.Parameter(torch.randn(model.config.vocab_size, d) / d)
    return model


# wrong: the table alone
def draw_weights(model):
    nn.init.normal_(model.stack.embedding.weight, std=2 / model.config.d_model)
    return model


# wrong: small gains in place of small rows
def draw_weights(model):
    for p in model.parameters():
        nn.init.normal_(p, std=0.02)
    nn.init.normal_(model.stack.embedding.weight, std=2 / model.config.d_model)
    return model


# wrong: one seed for every matrix
def draw_weights(model):
    d = model.config.d_model
    for name, p in model.named_parameters():
        if p.ndim == 1:
            nn.init.constant_(p, float("norm" in name and name.endswith("weight")))
        else:
            torch.manual_seed(0)
            nn.init.normal_(p, std=0.02 if "blocks" in name else 2 / d)
    return model


# wrong: the places stay as loud as PyTorch makes them
def draw_weights(model):
    d = model.config.d_model
    for name, p in model.named_parameters():
        if p.ndim == 1:
            nn.init.constant_(p, float("norm" in name and name.endswith("weight")))
        elif "positions" in name:
            nn.init.normal_(p)
        else:
            nn.init.normal_(p, std=0.02 if "blocks" in name else 2 / d)
    return model


# wrong: uniform between 0 and small
def draw_weights(model):
    d = model.config.d_model
    for name, p in model.named_parameters():
        if p.ndim == 1:
            nn.init.constant_(p, float("norm" in name and name.endswith("weight")))
        elif "blocks" in name:
            nn.init.normal_(p, std=0.02)
        else:
            nn.init.uniform_(p, 0, 6 / d)
    return model


# wrong: 1/√d, as for a layer
def draw_weights(model):
    d = model.config.d_model
    for name, p in model.named_parameters():
        if p.ndim == 1:
            nn.init.constant_(p, float("norm" in name and name.endswith("weight")))
        else:
            nn.init.normal_(p, std=0.02 if "blocks" in name else d**-0.5)
    return model


# wrong: biases at random
def draw_weights(model):
    d = model.config.d_model
    for name, p in model.named_parameters():
        if "norm" in name:
            nn.init.constant_(p, float(name.endswith("weight")))
        else:
            nn.init.normal_(p, std=0.02 if "blocks" in name else 2 / d)
    return model


# wrong: gives nothing back
def draw_weights(model):
    d = model.config.d_model
    for name, p in model.named_parameters():
        if p.ndim == 1:
            nn.init.constant_(p, float("norm" in name and name.endswith("weight")))
        else:
            nn.init.normal_(p, std=0.02 if "blocks" in name else 2 / d)


# wrong: Xavier for every matrix
def draw_weights(model):
    for name, p in model.named_parameters():
        if p.ndim == 1:
            nn.init.constant_(p, float("norm" in name and name.endswith("weight")))
        else:
            nn.init.xavier_normal_(p)
    return model


# wrong: 2/√d
def draw_weights(model):
    d = model.config.d_model
    for name, p in model.named_parameters():
        if p.ndim == 1:
            nn.init.constant_(p, float("norm" in name and name.endswith("weight")))
        else:
            nn.init.normal_(p, std=0.02 if "blocks" in name else 2 / d**0.5)
    return model


# wrong: the norms are missed, for they are no nn.LayerNorm
def draw_weights(model):
    for module in model.modules():
        if isinstance(module, nn.Linear):
            nn.init.normal_(module.weight, std=0.02)
            if module.bias is not None:
                nn.init.zeros_(module.bias)
        elif isinstance(module, nn.LayerNorm):
            nn.init.ones_(module.weight)
            nn.init.zeros_(module.bias)
    for module in model.modules():
        if isinstance(module, nn.Embedding):
            nn.init.normal_(module.weight, std=2 / model.config.d_model)
    return model


# wrong: the package's own
def draw_weights(model):
    from tfcourse.stacks import initialize as own

    for name, p in model.named_parameters():
        if p.ndim == 1:
            nn.init.constant_(p, float("norm" in name and name.endswith("weight")))
    own(model.stack)
    return model


# wrong: ties a head that had a matrix of its own
def draw_weights(model):
    model.head.weight = model.stack.embedding.weight
    for name, p in model.named_parameters():
        if p.ndim == 1:
            nn.init.constant_(p, float("norm" in name and name.endswith("weight")))
        else:
            nn.init.normal_(p, std=0.02 if "blocks" in name else 2 / model.config.d_model)
    return model


# wrong: an untied head gets a copy of the table
def draw_weights(model):
    d = model.config.d_model
    with torch.no_grad():
        for name, p in model.named_parameters():
            if "norm" in name:
                p.fill_(1.0 if name.endswith("weight") else 0.0)
            elif p.dim() == 1:
                p.zero_()
            elif "embedding" in name:
                p.normal_(0, 1 / d)
            else:
                p.normal_(0, 0.02)
        model.head.weight.copy_(model.stack.embedding.weight)
    return model


# wrong: an untied head is drawn like a matrix of a block, 0.02
def draw_weights(model):
    d = model.config.d_model
    for name, p in model.named_parameters():
        if "norm" in name:
            nn.init.ones_(p) if name.endswith("weight") else nn.init.zeros_(p)
        elif p.dim() == 1:
            nn.init.zeros_(p)
        elif "embedding" in name:
            nn.init.normal_(p, std=1 / d)
        else:
            nn.init.normal_(p, std=0.02)
    return model


# wrong: returns a copy, the model itself keeps its numbers
def draw_weights(model):
    import copy

    model = copy.deepcopy(model)
    d = model.config.d_model
    tables = {"stack.embedding.weight", "stack.positions.embedding.weight", "head.weight"}
    for name, p in model.named_parameters():
        if "norm" in name:
            nn.init.ones_(p) if name.endswith("weight") else nn.init.zeros_(p)
        elif p.dim() == 1:
            nn.init.zeros_(p)
        else:
            nn.init.normal_(p, std=1 / d if name in tables else 0.02)
    return model
