import torch


# right: from the equation
def decaying_branch(x, f, alpha):
    update = f(x)
    if update.shape != x.shape:
        raise ValueError(f"f returned {tuple(update.shape)} for {tuple(x.shape)}")
    return alpha * x + update


# right: torch.add with its factor
def decaying_branch(x, f, alpha):
    update = f(x)
    if list(update.shape) != list(x.shape):
        raise ValueError("shapes differ")
    return torch.add(update, x, alpha=alpha)


# right: in a copy
def decaying_branch(x, f, alpha):
    y = f(x)
    if y.dim() != x.dim() or any(a != b for a, b in zip(y.shape, x.shape)):
        raise ValueError("the update has another shape than x")
    y = y.clone()
    y += x * alpha
    return y


# wrong: lets broadcasting stretch the update
def decaying_branch(x, f, alpha):
    return alpha * x + f(x)


# wrong: α on the update
def decaying_branch(x, f, alpha):
    update = f(x)
    if update.shape != x.shape:
        raise ValueError("shapes differ")
    return x + alpha * update


# wrong: α on both
def decaying_branch(x, f, alpha):
    update = f(x)
    if update.shape != x.shape:
        raise ValueError("shapes differ")
    return alpha * (x + update)


# wrong: a moving average
def decaying_branch(x, f, alpha):
    update = f(x)
    if update.shape != x.shape:
        raise ValueError("shapes differ")
    return alpha * x + (1 - alpha) * update


# wrong: the update reads what has decayed
def decaying_branch(x, f, alpha):
    x = alpha * x
    update = f(x)
    if update.shape != x.shape:
        raise ValueError("shapes differ")
    return x + update


# wrong: takes α = 0 for “not given”
def decaying_branch(x, f, alpha):
    update = f(x)
    if update.shape != x.shape:
        raise ValueError("shapes differ")
    return (alpha or 1.0) * x + update


# wrong: looks at the last axis alone
def decaying_branch(x, f, alpha):
    update = f(x)
    if update.shape[-1] != x.shape[-1]:
        raise ValueError("the last axes differ")
    return alpha * x + update


# wrong: an assertion
def decaying_branch(x, f, alpha):
    update = f(x)
    assert update.shape == x.shape
    return alpha * x + update


# wrong: compares the result's shape
def decaying_branch(x, f, alpha):
    y = alpha * x + f(x)
    if y.shape != x.shape:
        raise ValueError("shapes differ")
    return y


# wrong: decays in place
def decaying_branch(x, f, alpha):
    update = f(x)
    if update.shape != x.shape:
        raise ValueError("shapes differ")
    x.mul_(alpha)
    return x + update


# wrong: α is what is lost
def decaying_branch(x, f, alpha):
    update = f(x)
    if update.shape != x.shape:
        raise ValueError("shapes differ")
    return (1 - alpha) * x + update


# wrong: counts the numbers
def decaying_branch(x, f, alpha):
    update = f(x)
    if update.numel() != x.numel():
        raise ValueError("another size")
    return alpha * x + update


# wrong: counts the axes
def decaying_branch(x, f, alpha):
    update = f(x)
    if update.dim() != x.dim() or update.shape[-1] != x.shape[-1]:
        raise ValueError("other axes")
    return alpha * x + update


# wrong: waits for PyTorch's error
def decaying_branch(x, f, alpha):
    try:
        return alpha * x + f(x)
    except RuntimeError as error:
        raise ValueError("shapes differ") from error


# wrong: a short cut past the comparison
def decaying_branch(x, f, alpha):
    update = f(x)
    if alpha == 0:
        return update
    if update.shape != x.shape:
        raise ValueError("shapes differ")
    return alpha * x + update


# wrong: lerp
def decaying_branch(x, f, alpha):
    update = f(x)
    if update.shape != x.shape:
        raise ValueError("shapes differ")
    return torch.lerp(update, x, alpha)
