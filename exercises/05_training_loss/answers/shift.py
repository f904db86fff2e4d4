import torch

from tfcourse.losses import IGNORE


# right: slices and masked_fill
def shift(rows, pad):
    inputs, targets = rows[:, :-1], rows[:, 1:]
    return inputs, targets.masked_fill(targets == pad, IGNORE)


# right: a loop over rows and positions
def shift(rows, pad):
    inputs, targets = [], []
    for row in rows.tolist():
        inputs.append(row[:-1])
        targets.append([IGNORE if token == pad else token for token in row[1:]])
    return torch.tensor(inputs), torch.tensor(targets)


# right: on a copy, with an index
def shift(rows, pad):
    targets = rows[:, 1:].clone()
    targets[targets == pad] = IGNORE
    return rows.narrow(1, 0, rows.shape[1] - 1), targets


# wrong: not shifted
def shift(rows, pad):
    inputs = rows[:, :-1]
    return inputs, inputs.masked_fill(inputs == pad, IGNORE)


# wrong: PAD stays a target
def shift(rows, pad):
    return rows[:, :-1], rows[:, 1:]


# wrong: ignored where the input is PAD
def shift(rows, pad):
    inputs, targets = rows[:, :-1], rows[:, 1:].clone()
    targets[inputs == pad] = IGNORE
    return inputs, targets


# wrong: writes into the rows
def shift(rows, pad):
    inputs, targets = rows[:, :-1], rows[:, 1:]
    targets[targets == pad] = IGNORE
    return inputs, targets


# wrong: rolled round, the first token is the last target
def shift(rows, pad):
    targets = torch.roll(rows, -1, dims=1)
    return rows, targets.masked_fill(targets == pad, IGNORE)


# wrong: PAD is always id 0
def shift(rows, pad):
    inputs, targets = rows[:, :-1], rows[:, 1:]
    return inputs, targets.masked_fill(targets == 0, IGNORE)


# wrong: the end of the text is no question
def shift(rows, pad):
    inputs, targets = rows[:, :-1], rows[:, 1:].clone()
    for i, row in enumerate(rows):
        length = int((row != pad).sum())
        targets[i, length - 2 :] = IGNORE
    return inputs, targets


# wrong: shifted by rows and not by positions
def shift(rows, pad):
    targets = rows[1:]
    return rows[:-1], targets.masked_fill(targets == pad, IGNORE)


# wrong: targets on the left, inputs on the right
def shift(rows, pad):
    inputs, targets = rows[:, 1:], rows[:, :-1]
    return inputs, targets.masked_fill(targets == pad, IGNORE)


# wrong: the inputs are ignored, too
def shift(rows, pad):
    x, y = rows[:, :-1], rows[:, 1:]
    return x.masked_fill(x == pad, IGNORE), y.masked_fill(y == pad, IGNORE)


# wrong: shifted by two
def shift(rows, pad):
    x, y = rows[:, :-1], torch.cat([rows[:, 2:], rows[:, -1:]], 1)
    return x, y.masked_fill(y == pad, IGNORE)


# wrong: cut after the longest text, the width is no longer L
def shift(rows, pad):
    longest = int((rows != pad).sum(dim=1).max())
    rows = rows[:, :longest]
    inputs, targets = rows[:, :-1], rows[:, 1:]
    return inputs, targets.masked_fill(targets == pad, IGNORE)
