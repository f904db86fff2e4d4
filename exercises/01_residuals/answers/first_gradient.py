import math

import torch


# right: autograd.grad for the first layer alone
def first_gradient(x, layers, residual):
    for layer in layers:
        x = x + layer(x) if residual else layer(x)
    found = torch.autograd.grad(x.square().mean(), list(layers[0].parameters()))
    return math.sqrt(sum(float(g.square().sum()) for g in found))


# right: backward, after clearing what was there
def first_gradient(x, layers, residual):
    for layer in layers:
        layer.zero_grad()
    stream = x
    for layer in layers:
        update = layer(stream)
        stream = stream + update if residual else update
    (stream**2).mean().backward()
    return torch.cat([p.grad.flatten() for p in layers[0].parameters()]).norm().item()


# right: the difference that a backward pass makes
def first_gradient(x, layers, residual):
    weights = list(layers[0].parameters())
    before = [0 if w.grad is None else w.grad.clone() for w in weights]
    for layer in layers:
        x = x * residual + layer(x)
    torch.mean(x * x).backward()
    return math.hypot(*[(w.grad - old).norm().item() for w, old in zip(weights, before)])


# wrong: adds to an earlier pass
def first_gradient(x, layers, residual):
    for layer in layers:
        x = x + layer(x) if residual else layer(x)
    x.square().mean().backward()
    return math.hypot(*[float(p.grad.norm()) for p in layers[0].parameters()])


# wrong: the last layer
def first_gradient(x, layers, residual):
    for layer in layers:
        x = x + layer(x) if residual else layer(x)
    found = torch.autograd.grad(x.square().mean(), list(layers[-1].parameters()))
    return math.hypot(*[float(g.norm()) for g in found])


# wrong: all layers
def first_gradient(x, layers, residual):
    for layer in layers:
        x = x + layer(x) if residual else layer(x)
    weights = [p for layer in layers for p in layer.parameters()]
    found = torch.autograd.grad(x.square().mean(), weights)
    return math.hypot(*[float(g.norm()) for g in found])


# wrong: the matrix alone
def first_gradient(x, layers, residual):
    for layer in layers:
        x = x + layer(x) if residual else layer(x)
    weight = next(layers[0].parameters())
    return float(torch.autograd.grad(x.square().mean(), weight)[0].norm())


# wrong: adds the norms
def first_gradient(x, layers, residual):
    for layer in layers:
        x = x + layer(x) if residual else layer(x)
    found = torch.autograd.grad(x.square().mean(), list(layers[0].parameters()))
    return float(sum(g.norm() for g in found))


# wrong: no root
def first_gradient(x, layers, residual):
    for layer in layers:
        x = x + layer(x) if residual else layer(x)
    found = torch.autograd.grad(x.square().mean(), list(layers[0].parameters()))
    return float(sum(g.square().sum() for g in found))


# wrong: the gradient at x
def first_gradient(x, layers, residual):
    x = start = x.clone().requires_grad_(True)
    for layer in layers:
        x = x + layer(x) if residual else layer(x)
    return float(torch.autograd.grad(x.square().mean(), start)[0].norm())


# wrong: a sum of squares
def first_gradient(x, layers, residual):
    for layer in layers:
        x = x + layer(x) if residual else layer(x)
    found = torch.autograd.grad(x.square().sum(), list(layers[0].parameters()))
    return math.hypot(*[float(g.norm()) for g in found])


# wrong: the residual always on
def first_gradient(x, layers, residual):
    for layer in layers:
        x = x + layer(x)
    found = torch.autograd.grad(x.square().mean(), list(layers[0].parameters()))
    return math.hypot(*[float(g.norm()) for g in found])


# wrong: clears the gradients after the backward pass
def first_gradient(x, layers, residual):
    for layer in layers:
        x = x + layer(x) if residual else layer(x)
    x.square().mean().backward()
    for layer in layers:
        layer.zero_grad(set_to_none=False)
    return math.hypot(*[float(p.grad.norm()) for p in layers[0].parameters()])


# wrong: clears the first layer, but its weight alone
def first_gradient(x, layers, residual):
    layers[0].weight.grad = None
    for layer in layers:
        x = x + layer(x) if residual else layer(x)
    x.square().mean().backward()
    return math.hypot(*[float(p.grad.norm()) for p in layers[0].parameters()])


# wrong: knows linear layers alone
def first_gradient(x, layers, residual):
    for layer in layers:
        x = x + layer(x) if residual else layer(x)
    weights = [w for w in (layers[0].weight, layers[0].bias) if w is not None]
    found = torch.autograd.grad(x.square().mean(), weights)
    return math.hypot(*[float(g.norm()) for g in found])


# wrong: detaches the stream, so that each layer learns by itself
def first_gradient(x, layers, residual):
    for layer in layers[:-1]:
        x = (x + layer(x) if residual else layer(x))
    loss = (x.detach() + layers[-1](x) if residual else layers[-1](x)).square().mean()
    found = torch.autograd.grad(loss, list(layers[0].parameters()), allow_unused=True)
    return math.hypot(*[0.0 if g is None else float(g.norm()) for g in found])


# wrong: the largest entry
def first_gradient(x, layers, residual):
    for layer in layers:
        x = x + layer(x) if residual else layer(x)
    found = torch.autograd.grad(x.square().mean(), list(layers[0].parameters()))
    return max(float(g.abs().max()) for g in found)


# wrong: clips on the way, as a training loop does
def first_gradient(x, layers, residual):
    for layer in layers:
        layer.zero_grad()
    for layer in layers:
        x = x + layer(x) if residual else layer(x)
    x.square().mean().backward()
    weights = [p for layer in layers for p in layer.parameters()]
    torch.nn.utils.clip_grad_norm_(weights, 1.0)
    return math.hypot(*[float(p.grad.norm()) for p in layers[0].parameters()])


# wrong: the loss over the last position alone
def first_gradient(x, layers, residual):
    for layer in layers:
        x = x + layer(x) if residual else layer(x)
    found = torch.autograd.grad(x[:, -1].square().mean(), list(layers[0].parameters()))
    return math.hypot(*[float(g.norm()) for g in found])


# wrong: the mean of the numbers as the loss
def first_gradient(x, layers, residual):
    for layer in layers:
        x = x + layer(x) if residual else layer(x)
    found = torch.autograd.grad(x.mean(), list(layers[0].parameters()))
    return math.hypot(*[float(g.norm()) for g in found])


# wrong: the mean of the norms
def first_gradient(x, layers, residual):
    for layer in layers:
        x = x + layer(x) if residual else layer(x)
    found = torch.autograd.grad(x.square().mean(), list(layers[0].parameters()))
    return sum(float(g.norm()) for g in found) / len(found)


# wrong: leaves it a tensor
def first_gradient(x, layers, residual):
    for layer in layers:
        x = x + layer(x) if residual else layer(x)
    found = torch.autograd.grad(x.square().mean(), list(layers[0].parameters()))
    return torch.cat([g.flatten() for g in found]).norm()


# wrong: the root of the mean square
def first_gradient(x, layers, residual):
    for layer in layers:
        x = x + layer(x) if residual else layer(x)
    found = torch.autograd.grad(x.square().mean(), list(layers[0].parameters()))
    return float(torch.cat([g.flatten() for g in found]).square().mean().sqrt())


# wrong: the first layer replaces the stream even with the residual
def first_gradient(x, layers, residual):
    x = layers[0](x)
    for layer in layers[1:]:
        x = x + layer(x) if residual else layer(x)
    found = torch.autograd.grad(x.square().mean(), list(layers[0].parameters()))
    return math.hypot(*[float(g.norm()) for g in found])
