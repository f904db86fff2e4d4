import torch
from torch.func import jacfwd, jacrev


# right: reverse mode over the branch
def branch_jacobian(f, x):
    return jacrev(lambda x: x + f(x))(x)


# right: the identity and forward mode
def branch_jacobian(f, x):
    return torch.eye(len(x)) + jacfwd(f)(x)


# right: row by row
def branch_jacobian(f, x):
    x = x.clone().requires_grad_(True)
    y = x + f(x)
    rows = []
    for i in range(len(x)):
        rows.append(torch.autograd.grad(y[i], x, retain_graph=True)[0])
    return torch.stack(rows)


# right: column by column, moving one input feature
def branch_jacobian(f, x):
    columns = [torch.func.jvp(lambda x: x + f(x), (x,), (e,))[1] for e in torch.eye(len(x))]
    return torch.stack(columns, dim=1)


# right: the older function
def branch_jacobian(f, x):
    return torch.autograd.functional.jacobian(lambda x: f(x) + x, x)


# wrong: of f alone
def branch_jacobian(f, x):
    return jacrev(f)(x)


# wrong: one added to every entry
def branch_jacobian(f, x):
    return jacrev(f)(x) + 1


# wrong: rows and columns swapped
def branch_jacobian(f, x):
    rows = [torch.func.jvp(lambda x: x + f(x), (x,), (e,))[1] for e in torch.eye(len(x))]
    return torch.stack(rows)


# wrong: the identity twice
def branch_jacobian(f, x):
    return torch.eye(len(x)) + jacrev(lambda x: x + f(x))(x)


# wrong: the gradient of the sum of all features
def branch_jacobian(f, x):
    x = x.clone().requires_grad_(True)
    return torch.autograd.grad((x + f(x)).sum(), x)[0]


# wrong: that gradient on the diagonal
def branch_jacobian(f, x):
    x = x.clone().requires_grad_(True)
    return torch.diag(torch.autograd.grad((x + f(x)).sum(), x)[0])


# wrong: small differences
def branch_jacobian(f, x):
    h, columns = 1e-3, []
    for e in torch.eye(len(x)):
        columns.append((x + h * e + f(x + h * e) - x - f(x)) / h)
    return torch.stack(columns, dim=1)


# wrong: as a batch of one
def branch_jacobian(f, x):
    x = x[None]
    return jacrev(lambda x: x + f(x))(x)


# wrong: the identity alone
def branch_jacobian(f, x):
    return torch.eye(len(x))


# wrong: at the origin
def branch_jacobian(f, x):
    return torch.eye(len(x)) + jacrev(f)(torch.zeros_like(x))


# wrong: the way around is cut
def branch_jacobian(f, x):
    around = x.detach()
    return jacrev(lambda x: around + f(x))(x)


# wrong: the matrix of f read off at the unit vectors, as if f were linear
def branch_jacobian(f, x):
    return torch.eye(len(x)) + torch.stack([f(e) for e in torch.eye(len(x))], dim=1)


# wrong: adds the point instead of the identity
def branch_jacobian(f, x):
    return jacrev(f)(x) + x


# wrong: two branches in a row
def branch_jacobian(f, x):
    j = jacrev(lambda x: x + f(x))(x)
    return j @ j


# wrong: the gradient of the sum in every row
def branch_jacobian(f, x):
    x = x.clone().requires_grad_(True)
    return torch.autograd.grad((x + f(x)).sum(), x)[0].repeat(len(x), 1)


# wrong: each feature of f by itself
def branch_jacobian(f, x):
    return torch.eye(len(x)) * (1 + jacrev(f)(x))
