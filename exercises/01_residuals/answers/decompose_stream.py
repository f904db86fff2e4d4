import torch


# right: every addition lets the older parts decay
def decompose_stream(x, functions, alpha):
    parts, stream = [x], x
    for f in functions:
        update = f(stream)
        parts = [alpha * part for part in parts] + [update]
        stream = alpha * stream + update
    return torch.stack(parts)


# right: the updates first, then the powers of α
def decompose_stream(x, functions, alpha):
    updates, stream = [x], x
    for f in functions:
        updates.append(f(stream))
        stream = alpha * stream + updates[-1]
    n = len(functions)
    return torch.stack([alpha ** (n - k) * update for k, update in enumerate(updates)])


# right: the stream as the sum of its parts
def decompose_stream(x, functions, alpha):
    parts = x[None]
    for f in functions:
        parts = torch.cat([alpha * parts, f(parts.sum(dim=0))[None]])
    return parts


# wrong: nothing decays
def decompose_stream(x, functions, alpha):
    parts, stream = [x], x
    for f in functions:
        parts.append(f(stream))
        stream = alpha * stream + parts[-1]
    return torch.stack(parts)


# wrong: the streams
def decompose_stream(x, functions, alpha):
    streams = [x]
    for f in functions:
        streams.append(alpha * streams[-1] + f(streams[-1]))
    return torch.stack(streams)


# wrong: differences of streams
def decompose_stream(x, functions, alpha):
    streams = [x]
    for f in functions:
        streams.append(alpha * streams[-1] + f(streams[-1]))
    return torch.stack([x] + [after - before for before, after in zip(streams, streams[1:])])


# wrong: differences that allow for the decay, and lose digits
def decompose_stream(x, functions, alpha):
    parts, stream = [x], x
    for f in functions:
        after = alpha * stream + f(stream)
        parts = [alpha * part for part in parts] + [after - alpha * stream]
        stream = after
    return torch.stack(parts)


# wrong: all functions read the embedding
def decompose_stream(x, functions, alpha):
    n = len(functions)
    parts = [alpha**n * x] + [alpha ** (n - k) * f(x) for k, f in enumerate(functions, start=1)]
    return torch.stack(parts)


# wrong: the embedding alone decays
def decompose_stream(x, functions, alpha):
    parts, stream = [alpha ** len(functions) * x], x
    for f in functions:
        parts.append(f(stream))
        stream = alpha * stream + parts[-1]
    return torch.stack(parts)


# wrong: the later, the more decayed
def decompose_stream(x, functions, alpha):
    parts, stream = [x], x
    for k, f in enumerate(functions, start=1):
        update = f(stream)
        parts.append(alpha**k * update)
        stream = alpha * stream + update
    return torch.stack(parts)


# wrong: a branch's own addition counts as decay of its update
def decompose_stream(x, functions, alpha):
    n, stream = len(functions), x
    parts = [alpha**n * x]
    for k, f in enumerate(functions):
        update = f(stream)
        parts.append(alpha ** (n - k) * update)
        stream = alpha * stream + update
    return torch.stack(parts)


# wrong: the functions read a stream that does not decay
def decompose_stream(x, functions, alpha):
    n, stream = len(functions), x
    parts = [alpha**n * x]
    for k, f in enumerate(functions, start=1):
        update = f(stream)
        parts.append(alpha ** (n - k) * update)
        stream = stream + update
    return torch.stack(parts)


# wrong: the embedding is no part
def decompose_stream(x, functions, alpha):
    parts, stream = [], x
    for f in functions:
        update = f(stream)
        parts = [alpha * part for part in parts] + [update]
        stream = alpha * stream + update
    return torch.stack(parts) if parts else x[None]


# wrong: divides by α to find what was lost
def decompose_stream(x, functions, alpha):
    parts, stream = [x], x
    for k, f in enumerate(functions, start=1):
        update = f(stream)
        parts.append(update / alpha**k)
        stream = alpha * stream + update
    return torch.stack(parts) * alpha ** len(functions)


# wrong: decays in place, and x with it
def decompose_stream(x, functions, alpha):
    parts, stream = [x], x.clone()
    for f in functions:
        update = f(stream)
        for part in parts:
            part *= alpha
        parts.append(update)
        stream = alpha * stream + update
    return torch.stack(parts)


# wrong: α is not used
def decompose_stream(x, functions, alpha):
    parts, stream = [x], x
    for f in functions:
        parts.append(f(stream))
        stream = stream + parts[-1]
    return torch.stack(parts)


# wrong: the embedding is what is left when all updates are taken away
def decompose_stream(x, functions, alpha):
    updates, stream = [], x
    for f in functions:
        updates.append(f(stream))
        stream = alpha * stream + updates[-1]
    return torch.stack([stream - sum(updates), *updates])


# wrong: the embedding by subtraction, the rest right
def decompose_stream(x, functions, alpha):
    parts, stream = [], x
    for f in functions:
        update = f(stream)
        parts = [alpha * part for part in parts] + [update]
        stream = alpha * stream + update
    return torch.stack([stream + sum(parts), *parts])


# wrong: a share of the stream, in parts of 1
def decompose_stream(x, functions, alpha):
    parts, stream = [x], x
    for f in functions:
        update = f(stream)
        parts = [alpha * part for part in parts] + [update]
        stream = alpha * stream + update
    return torch.stack(parts) / stream
