import torch


# right: the shares of time as the solution of linear equations
def entropy_rate(table):
    P = table.double()
    n = len(P)
    A = torch.cat([P.T - torch.eye(n), torch.ones(1, n)])
    b = torch.cat([torch.zeros(n), torch.ones(1)]).double()
    share = torch.linalg.lstsq(A.double(), b[:, None]).solution[:, 0]
    return (share * torch.special.entr(P).sum(dim=1)).sum()


# right: the left eigenvector of 1
def entropy_rate(table):
    values, vectors = torch.linalg.eig(table.double().T)
    share = vectors[:, (values - 1).abs().argmin()].real
    share = share / share.sum()
    nats = -(table.double() * table.double().clamp(min=1e-300).log()).sum(1)
    return float(share @ nats)


# right: a lazy chain, squared again and again; logarithms only of what is not 0
def entropy_rate(table):
    n = len(table)
    lazy = (table.double() + torch.eye(n, dtype=torch.float64)) / 2
    for _ in range(40):
        lazy = lazy @ lazy
        lazy = lazy / lazy.sum(1, keepdim=True)
    total = 0.0
    for share, row in zip(lazy[0].tolist(), table.double()):
        kept = row[row > 0]
        total -= share * float((kept * kept.log()).sum())
    return total


# wrong: all states weigh alike
def entropy_rate(table):
    return torch.special.entr(table).sum(dim=1).mean()


# wrong: 0 · log 0 is NaN
def entropy_rate(table):
    P = table.double()
    n = len(P)
    A = torch.cat([P.T - torch.eye(n), torch.ones(1, n)])
    b = torch.cat([torch.zeros(n), torch.ones(1)]).double()
    share = torch.linalg.lstsq(A.double(), b[:, None]).solution[:, 0]
    return -(share * (P * P.log()).sum(dim=1)).sum()


# wrong: the entropy of how often each word is written
def entropy_rate(table):
    values, vectors = torch.linalg.eig(table.double().T)
    share = vectors[:, (values - 1).abs().argmin()].real
    return torch.special.entr(share / share.sum()).sum()


# wrong: in bits
def entropy_rate(table):
    values, vectors = torch.linalg.eig(table.double().T)
    share = vectors[:, (values - 1).abs().argmin()].real
    share = share / share.sum()
    return (share * torch.special.entr(table.double()).sum(1)).sum() / torch.tensor(2.0).log()


# wrong: the right eigenvector, which is the same everywhere
def entropy_rate(table):
    values, vectors = torch.linalg.eig(table.double())
    share = vectors[:, (values - 1).abs().argmin()].real
    share = share / share.sum()
    return (share * torch.special.entr(table.double()).sum(1)).sum()


# wrong: one step from equal shares
def entropy_rate(table):
    share = table.mean(dim=0)
    return (share * torch.special.entr(table).sum(dim=1)).sum()


# wrong: powers of the table, which do not settle where a source alternates
def entropy_rate(table):
    share = torch.full((len(table),), 1 / len(table), dtype=torch.float64)
    for _ in range(1000):
        share = share @ table.double()
    return (share * torch.special.entr(table.double()).sum(dim=1)).sum()


# wrong: too few steps for a source that seldom changes
def entropy_rate(table):
    lazy = (table + torch.eye(len(table))) / 2
    share = torch.full((len(table),), 1 / len(table))
    for _ in range(200):
        share = share @ lazy
    return (share * torch.special.entr(table).sum(dim=1)).sum()


# wrong: the sum of all entries
def entropy_rate(table):
    return torch.special.entr(table).sum()


# wrong: a uniform guess over the words
def entropy_rate(table):
    return torch.tensor(float(len(table))).log()


# wrong: columns
def entropy_rate(table):
    w, v = torch.linalg.eig(table.double().T)
    pi = v[:, (w - 1).abs().argmin()].real
    pi = pi / pi.sum()
    return (pi * torch.special.entr(table.double()).sum(0)).sum()


# wrong: the mean over a thousand steps
def entropy_rate(table):
    p = torch.full((len(table),), 1 / len(table)).double()
    s = torch.zeros_like(p)
    for _ in range(1000):
        p = p @ table.double(); s += p
    return (s / 1000 * torch.special.entr(table.double()).sum(1)).sum()


# wrong: the eigenvector of largest absolute eigenvalue, which may be that of -1
def entropy_rate(table):
    p = table.double()
    values, vectors = torch.linalg.eig(p.T)
    pi = vectors[:, values.abs().argmax()].real
    pi = pi / pi.sum()
    return (pi @ torch.special.entr(p).sum(dim=1)).item()
