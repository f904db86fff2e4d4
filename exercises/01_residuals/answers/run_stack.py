import torch


# right: a list, stacked at the end
def run_stack(x, functions, residual):
    streams = [x]
    for f in functions:
        x = x + f(x) if residual else f(x)
        streams.append(x)
    return torch.stack(streams)


# right: by recursion
def run_stack(x, functions, residual):
    if not functions:
        return x.unsqueeze(0)
    f, *others = functions
    after = f(x)
    if residual:
        after = after + x
    return torch.cat([x.unsqueeze(0), run_stack(after, others, residual)])


# right: the residual as a factor
def run_stack(x, functions, residual):
    keep = 1.0 if residual else 0.0
    streams = x[None]
    for f in functions:
        streams = torch.cat([streams, (keep * streams[-1] + f(streams[-1]))[None]])
    return streams


# wrong: adds in place to what it recorded
def run_stack(x, functions, residual):
    x = x.clone()
    streams = [x]
    for f in functions:
        if residual:
            x += f(x)
        else:
            x = f(x)
        streams.append(x)
    return torch.stack(streams)


# wrong: in place, on the caller's x
def run_stack(x, functions, residual):
    streams = [x.clone()]
    for f in functions:
        if residual:
            x += f(x)
        else:
            x.copy_(f(x))
        streams.append(x.clone())
    return torch.stack(streams)


# wrong: leaves the first stream out
def run_stack(x, functions, residual):
    streams = []
    for f in functions:
        x = x + f(x) if residual else f(x)
        streams.append(x)
    return torch.stack(streams) if streams else x[None]


# wrong: leaves the last stream out
def run_stack(x, functions, residual):
    streams = []
    for f in functions:
        streams.append(x)
        x = x + f(x) if residual else f(x)
    return torch.stack(streams or [x])


# wrong: the last stream alone
def run_stack(x, functions, residual):
    for f in functions:
        x = x + f(x) if residual else f(x)
    return x


# wrong: the switch has no effect
def run_stack(x, functions, residual):
    streams = [x]
    for f in functions:
        streams.append(streams[-1] + f(streams[-1]))
    return torch.stack(streams)


# wrong: adds every update to the first x
def run_stack(x, functions, residual):
    streams = [x]
    for f in functions:
        update = f(streams[-1])
        streams.append(x + update if residual else update)
    return torch.stack(streams)


# wrong: all branches read the first x
def run_stack(x, functions, residual):
    streams = [x] + [x + f(x) if residual else f(x) for f in functions]
    return torch.stack(streams)


# wrong: a residual around the whole stack
def run_stack(x, functions, residual):
    streams, stream = [x], x
    for f in functions:
        stream = f(stream)
        streams.append(stream)
    if residual:
        streams[-1] = streams[-1] + x
    return torch.stack(streams)


# wrong: a list of tensors
def run_stack(x, functions, residual):
    streams = [x]
    for f in functions:
        streams.append(streams[-1] + f(streams[-1]) if residual else f(streams[-1]))
    return streams


# wrong: records without the gradient
def run_stack(x, functions, residual):
    streams = [x.detach()]
    for f in functions:
        x = x + f(x) if residual else f(x)
        streams.append(x.detach())
    return torch.stack(streams)


# wrong: with the residual off, the function is left out
def run_stack(x, functions, residual):
    streams = [x]
    for f in functions:
        x = x + f(x) if residual else x
        streams.append(x)
    return torch.stack(streams)


# wrong: stacked along the batch
def run_stack(x, functions, residual):
    streams = [x]
    for f in functions:
        x = x + f(x) if residual else f(x)
        streams.append(x)
    return torch.cat(streams)


# wrong: every stream goes to all later ones
def run_stack(x, functions, residual):
    streams = [x]
    for f in functions:
        update = f(streams[-1])
        streams.append(sum(streams) + update if residual else update)
    return torch.stack(streams)


# wrong: skips over two functions at a time
def run_stack(x, functions, residual):
    streams = [x]
    for i, f in enumerate(functions):
        update = f(streams[-1])
        streams.append(streams[max(0, i - 1)] + update if residual else update)
    return torch.stack(streams)


# wrong: the number of the stream as the second axis
def run_stack(x, functions, residual):
    streams = [x]
    for f in functions:
        x = x + f(x) if residual else f(x)
        streams.append(x)
    return torch.stack(streams, dim=1)


# wrong: updates on top of the start
def run_stack(x, functions, residual):
    streams = [x]
    for f in functions:
        update = f(x)
        streams.append(update)
        x = x + update if residual else update
    return torch.stack(streams)


# wrong: room for the streams is made in float32, whatever comes in
def run_stack(x, functions, residual):
    streams = torch.empty(len(functions) + 1, *x.shape)
    streams[0] = x
    for k, f in enumerate(functions):
        x = x + f(x) if residual else f(x)
        streams[k + 1] = x
    return streams
