import torch


# right: the sum
def residual_branch(x, f):
    return x + f(x)


# right: torch.add, over the update
def residual_branch(x, f):
    update = f(x)
    return torch.add(update, x)


# right: a copy of x, written over
def residual_branch(x, f):
    y = x.clone()
    y += f(x)
    return y


# wrong: replaces the stream
def residual_branch(x, f):
    return f(x)


# wrong: adds in place
def residual_branch(x, f):
    x += f(x)
    return x


# wrong: forgets to use the update
def residual_branch(x, f):
    f(x)
    return x


# wrong: multiplies, as a gate does
def residual_branch(x, f):
    return x * f(x)


# wrong: averages, so that the size stays
def residual_branch(x, f):
    return (x + f(x)) / 2


# wrong: the residual as what is left over, x − f(x)
def residual_branch(x, f):
    return x - f(x)


# wrong: calls f on its own answer
def residual_branch(x, f):
    update = f(x)
    return x + f(update)


# wrong: cuts the way around f off the gradient
def residual_branch(x, f):
    return x.detach() + f(x)


# wrong: no gradient at all
@torch.no_grad()
def residual_branch(x, f):
    return x + f(x)


# wrong: joins instead of adding
def residual_branch(x, f):
    return torch.cat([x, f(x)], dim=-1)


# wrong: hard-coded for doubling
def residual_branch(x, f):
    return 3 * x


# wrong: always float32
def residual_branch(x, f):
    return x.float() + f(x).float()


# wrong: an activation after the sum
def residual_branch(x, f):
    return torch.relu(x + f(x))


# wrong: cuts the way through f off the gradient
def residual_branch(x, f):
    return x + f(x.detach())


# wrong: scales the update down for safety
def residual_branch(x, f):
    return x + 0.5 * f(x)


# wrong: norms what it read
def residual_branch(x, f):
    x = torch.nn.functional.normalize(x, dim=-1)
    return x + f(x)
