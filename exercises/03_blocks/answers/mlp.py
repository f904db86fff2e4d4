import math

import torch
from torch import nn
from torch.nn import functional as F


class Start(nn.Module):
    def __init__(self, d_model, d_ff, gated):
        super().__init__()
        self.up = nn.Linear(d_model, d_ff, bias=False)
        self.down = nn.Linear(d_ff, d_model, bias=False)
        self.gate = nn.Linear(d_model, d_ff, bias=False) if gated else None


# right: linear layers
class MLP(nn.Module):
    def __init__(self, d_model, d_ff, gated):
        super().__init__()
        self.up = nn.Linear(d_model, d_ff, bias=False)
        self.down = nn.Linear(d_ff, d_model, bias=False)
        self.gate = nn.Linear(d_model, d_ff, bias=False) if gated else None

    def forward(self, x):
        if self.gate is None:
            return self.down(F.gelu(self.up(x)))
        return self.down(F.silu(self.gate(x)) * self.up(x))


# right: GELU and SiLU written out
class MLP(nn.Module):
    def __init__(self, d_model, d_ff, gated=False):
        super().__init__()
        if gated:
            self.gate = nn.Linear(d_model, d_ff, bias=False)
        self.down = nn.Linear(d_ff, d_model, bias=False)
        self.up = nn.Linear(d_model, d_ff, bias=False)
        self.gated = gated

    def forward(self, x):
        p = x @ self.up.weight.T
        if self.gated:
            g = x @ self.gate.weight.T
            hidden = g * torch.sigmoid(g) * p
        else:
            hidden = p * 0.5 * (1 + torch.erf(p / math.sqrt(2)))
        return hidden @ self.down.weight.T


# right: GELU by tanh
class MLP(nn.Module):
    def __init__(self, d_model, d_ff, gated):
        super().__init__()
        self.gated = gated
        self.up = nn.Linear(d_model, d_ff, bias=False)
        self.down = nn.Linear(d_ff, d_model, bias=False)
        if gated:
            self.gate, self.bend = nn.Linear(d_model, d_ff, bias=False), nn.SiLU()
        else:
            self.bend = nn.GELU(approximate="tanh")

    def forward(self, x):
        hidden = self.bend(self.gate(x)) * self.up(x) if self.gated else self.bend(self.up(x))
        return self.down(hidden)


# wrong: no bend
class MLP(nn.Module):
    def __init__(self, d_model, d_ff, gated):
        super().__init__()
        self.up = nn.Linear(d_model, d_ff, bias=False)
        self.down = nn.Linear(d_ff, d_model, bias=False)
        if gated:
            self.gate = nn.Linear(d_model, d_ff, bias=False)

    def forward(self, x):
        if hasattr(self, "gate"):
            return self.down(F.silu(self.gate(x)) * self.up(x))
        return self.down(self.up(x))


# wrong: ReLU
class MLP(Start):
    def forward(self, x):
        if self.gate is None:
            return self.down(F.relu(self.up(x)))
        return self.down(F.silu(self.gate(x)) * self.up(x))


# wrong: gate and what passes exchanged
class MLP(Start):
    def forward(self, x):
        if self.gate is None:
            return self.down(F.gelu(self.up(x)))
        return self.down(F.silu(self.up(x)) * self.gate(x))


# wrong: a sigmoid for the gate
class MLP(Start):
    def forward(self, x):
        if self.gate is None:
            return self.down(F.gelu(self.up(x)))
        return self.down(torch.sigmoid(self.gate(x)) * self.up(x))


# wrong: SiLU on the product
class MLP(Start):
    def forward(self, x):
        if self.gate is None:
            return self.down(F.gelu(self.up(x)))
        return self.down(F.silu(self.gate(x) * self.up(x)))


# wrong: with biases
class MLP(nn.Module):
    def __init__(self, d_model, d_ff, gated):
        super().__init__()
        self.up, self.down = nn.Linear(d_model, d_ff), nn.Linear(d_ff, d_model)
        self.gate = nn.Linear(d_model, d_ff) if gated else None

    def forward(self, x):
        if self.gate is None:
            return self.down(F.gelu(self.up(x)))
        return self.down(F.silu(self.gate(x)) * self.up(x))


# wrong: SiLU by exponentials that overflow
class MLP(Start):
    def forward(self, x):
        if self.gate is None:
            return self.down(F.gelu(self.up(x)))
        g = self.gate(x)
        return self.down(g * g.exp() / (1 + g.exp()) * self.up(x))


# wrong: the gate is always there
class MLP(nn.Module):
    def __init__(self, d_model, d_ff, gated):
        super().__init__()
        self.up = nn.Linear(d_model, d_ff, bias=False)
        self.down = nn.Linear(d_ff, d_model, bias=False)
        self.gate, self.gated = nn.Linear(d_model, d_ff, bias=False), gated

    def forward(self, x):
        if self.gated:
            return self.down(F.silu(self.gate(x)) * self.up(x))
        return self.down(F.gelu(self.up(x)))


# wrong: adds x, which the block does
class MLP(Start):
    def forward(self, x):
        if self.gate is None:
            return x + self.down(F.gelu(self.up(x)))
        return x + self.down(F.silu(self.gate(x)) * self.up(x))


# wrong: matrices held as their transposes
class MLP(nn.Module):
    def __init__(self, d_model, d_ff, gated):
        super().__init__()
        self.up = nn.Linear(d_ff, d_model, bias=False)
        self.down = nn.Linear(d_model, d_ff, bias=False)
        self.gate = nn.Linear(d_ff, d_model, bias=False) if gated else None

    def forward(self, x):
        if self.gate is None:
            return F.gelu(x @ self.up.weight) @ self.down.weight
        return (F.silu(x @ self.gate.weight) * (x @ self.up.weight)) @ self.down.weight


# wrong: the weights read without their gradient
class MLP(Start):
    def forward(self, x):
        p = x @ self.up.weight.data.T
        if self.gate is None:
            return self.down(F.gelu(p))
        return self.down(F.silu(self.gate(x)) * p)


# wrong: dropout while training
class MLP(Start):
    def forward(self, x):
        h = F.gelu(self.up(x)) if self.gate is None else F.silu(self.gate(x)) * self.up(x)
        return self.down(F.dropout(h, 0.1, self.training))


# wrong: gated adds to the plain one
class MLP(Start):
    def forward(self, x):
        h = F.gelu(self.up(x))
        if self.gate is not None:
            h = F.silu(self.gate(x)) * h
        return self.down(h)


# wrong: the gate decides over the result
class MLP(nn.Module):
    def __init__(self, d_model, d_ff, gated):
        super().__init__()
        self.up = nn.Linear(d_model, d_ff, bias=False)
        self.down = nn.Linear(d_ff, d_model, bias=False)
        if gated:
            self.gate = nn.Linear(d_model, d_model, bias=False)

    def forward(self, x):
        y = self.down(F.gelu(self.up(x)))
        return F.silu(self.gate(x)) * y if hasattr(self, "gate") else y


# wrong: normed first
class MLP(Start):
    def forward(self, x):
        x = F.layer_norm(x, x.shape[-1:])
        h = F.gelu(self.up(x)) if self.gate is None else F.silu(self.gate(x)) * self.up(x)
        return self.down(h)


# wrong: GELU after the second matrix
class MLP(nn.Module):
    def __init__(self, d_model, d_ff, gated):
        super().__init__()
        self.up = nn.Linear(d_model, d_ff, bias=False)
        self.down = nn.Linear(d_ff, d_model, bias=False)
        if gated:
            self.gate = nn.Linear(d_model, d_ff, bias=False)
        self.gated = gated

    def forward(self, x):
        if self.gated:
            return self.down(F.silu(self.gate(x)) * self.up(x))
        return F.gelu(self.down(self.up(x)))
