import torch


# right: with two masks
def leaks(layer, x, row, position, other):
    changed = x.clone()
    changed[row, position] = other
    moves = (layer(changed) - layer(x)).abs().amax(dim=-1) > 1e-5
    moves[row, position:] = False
    return moves


# right: place by place
def leaks(layer, x, row, position, other):
    mask = torch.zeros(*x.shape[:2], 1, dtype=torch.bool)
    mask[row, position] = True
    before, after = layer(x), layer(torch.where(mask, other, x))
    found = torch.zeros(x.shape[0], x.shape[1], dtype=torch.bool)
    for b in range(x.shape[0]):
        for i in range(x.shape[1]):
            if b != row or i < position:
                found[b, i] = bool(((before[b, i] - after[b, i]).abs() > 1e-5).any())
    return found


# wrong: changes x itself
def leaks(layer, x, row, position, other):
    before = layer(x)
    x[row, position] = other
    moves = (layer(x) - before).abs().amax(dim=-1) > 1e-5
    moves[row, position:] = False
    return moves


# wrong: a second name is no copy
def leaks(layer, x, row, position, other):
    changed = x
    changed[row, position] = other
    moves = (layer(changed) - layer(x)).abs().amax(dim=-1) > 1e-5
    moves[row, position:] = False
    return moves


# wrong: all that moves
def leaks(layer, x, row, position, other):
    changed = x.clone()
    changed[row, position] = other
    return (layer(changed) - layer(x)).abs().amax(dim=-1) > 1e-5


# wrong: the changed position itself too
def leaks(layer, x, row, position, other):
    changed = x.clone()
    changed[row, position] = other
    moves = (layer(changed) - layer(x)).abs().amax(dim=-1) > 1e-5
    moves[row, position + 1 :] = False
    return moves


# wrong: only in the same text
def leaks(layer, x, row, position, other):
    changed = x.clone()
    changed[row, position] = other
    moves = (layer(changed) - layer(x)).abs().amax(dim=-1) > 1e-5
    found = torch.zeros_like(moves)
    found[row, :position] = moves[row, :position]
    return found


# wrong: earlier positions of all texts
def leaks(layer, x, row, position, other):
    changed = x.clone()
    changed[row, position] = other
    moves = (layer(changed) - layer(x)).abs().amax(dim=-1) > 1e-5
    moves[:, position:] = False
    return moves


# wrong: without measuring
def leaks(layer, x, row, position, other):
    found = torch.ones(x.shape[:2], dtype=torch.bool)
    found[row, position:] = False
    return found


# wrong: the changes of features cancel
def leaks(layer, x, row, position, other):
    changed = x.clone()
    changed[row, position] = other
    moves = (layer(changed) - layer(x)).sum(dim=-1).abs() > 1e-5
    moves[row, position:] = False
    return moves


# wrong: without the absolute value
def leaks(layer, x, row, position, other):
    changed = x.clone()
    changed[row, position] = other
    moves = (layer(changed) - layer(x)).amax(dim=-1) > 1e-5
    moves[row, position:] = False
    return moves


# wrong: any difference, rounding too
def leaks(layer, x, row, position, other):
    changed = x.clone()
    changed[row, position] = other
    moves = (layer(changed) != layer(x)).any(dim=-1)
    moves[row, position:] = False
    return moves


# wrong: only where all features move
def leaks(layer, x, row, position, other):
    changed = x.clone()
    changed[row, position] = other
    moves = ((layer(changed) - layer(x)).abs() > 1e-5).all(dim=-1)
    moves[row, position:] = False
    return moves


# wrong: changes the whole row
def leaks(layer, x, row, position, other):
    changed = x.clone()
    changed[row] = other
    moves = (layer(changed) - layer(x)).abs().amax(dim=-1) > 1e-5
    moves[row, position:] = False
    return moves


# wrong: changes the position in all rows
def leaks(layer, x, row, position, other):
    changed = x.clone()
    changed[:, position] = other
    moves = (layer(changed) - layer(x)).abs().amax(dim=-1) > 1e-5
    moves[row, position:] = False
    return moves


# wrong: zeros in place of the given vector
def leaks(layer, x, row, position, other):
    changed = x.clone()
    changed[row, position] = 0
    moves = (layer(changed) - layer(x)).abs().amax(dim=-1) > 1e-5
    moves[row, position:] = False
    return moves


# wrong: a coarse limit
def leaks(layer, x, row, position, other):
    changed = x.clone()
    changed[row, position] = other
    moves = (layer(changed) - layer(x)).abs().amax(dim=-1) > 1e-2
    moves[row, position:] = False
    return moves


# wrong: a limit that is too fine
def leaks(layer, x, row, position, other):
    changed = x.clone()
    changed[row, position] = other
    moves = (layer(changed) - layer(x)).abs().amax(dim=-1) > 1e-6
    moves[row, position:] = False
    return moves


# wrong: the mean change of the features
def leaks(layer, x, row, position, other):
    changed = x.clone()
    changed[row, position] = other
    moves = (layer(changed) - layer(x)).abs().mean(dim=-1) > 1e-5
    moves[row, position:] = False
    return moves


# wrong: adds the vector
def leaks(layer, x, row, position, other):
    changed = x.clone()
    changed[row, position] += other
    moves = (layer(changed) - layer(x)).abs().amax(dim=-1) > 1e-5
    moves[row, position:] = False
    return moves


# wrong: zeros and ones
def leaks(layer, x, row, position, other):
    changed = x.clone()
    changed[row, position] = other
    moves = ((layer(changed) - layer(x)).abs().amax(dim=-1) > 1e-5).float()
    moves[row, position:] = 0
    return moves


# wrong: earlier positions may move
def leaks(layer, x, row, position, other):
    changed = x.clone()
    changed[row, position] = other
    moves = (layer(changed) - layer(x)).abs().amax(dim=-1) > 1e-5
    moves[row, : position + 1] = False
    return moves


# wrong: the root mean square of the change
def leaks(layer, x, row, position, other):
    changed = x.clone()
    changed[row, position] = other
    moves = (layer(changed) - layer(x)).square().mean(dim=-1) > 1e-5
    moves[row, position:] = False
    return moves
