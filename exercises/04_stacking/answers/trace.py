import torch
import torch.nn.functional as F


# right: part by part
def trace(model, tokens):
    stack = model.stack
    positions = torch.arange(tokens.shape[1])[None]
    rotate = stack.positions.rotation(positions)
    x = stack.positions(stack.embedding(tokens), positions)
    streams = [x]
    for block in stack.blocks:
        x = block(x, rotate=rotate)
        streams.append(x)
    return streams, model.head(stack.final_norm(x))


# right: the head by its matrix, streams from the list
def trace(model, tokens):
    stack = model.stack
    positions = torch.arange(tokens.shape[1])[None]
    rotate = stack.positions.rotation(positions)
    x = stack.positions(stack.embedding(tokens), positions)
    streams = [x]
    for block in stack.blocks:
        streams += [block(streams[-1], rotate=rotate)]
    return streams, F.linear(stack.final_norm(streams[-1]), model.head.weight, model.head.bias)


# right: branch by branch
def trace(model, tokens):
    stack = model.stack
    positions = torch.arange(tokens.shape[1])[None]
    rotate = stack.positions.rotation(positions)
    x = stack.positions(stack.embedding(tokens), positions)
    streams = [x]
    for block in stack.blocks:
        x = block.attention(x, rotate=rotate)
        x = block.feed_forward(x)
        streams.append(x)
    return streams, model.head(stack.final_norm(x))


# wrong: no rotation
def trace(model, tokens):
    stack = model.stack
    positions = torch.arange(tokens.shape[1])[None]
    x = stack.positions(stack.embedding(tokens), positions)
    streams = [x]
    for block in stack.blocks:
        x = block(x)
        streams.append(x)
    return streams, model.head(stack.final_norm(x))


# wrong: no final norm
def trace(model, tokens):
    stack = model.stack
    positions = torch.arange(tokens.shape[1])[None]
    rotate = stack.positions.rotation(positions)
    x = stack.positions(stack.embedding(tokens), positions)
    streams = [x]
    for block in stack.blocks:
        x = block(x, rotate=rotate)
        streams.append(x)
    return streams, model.head(x)


# wrong: positions left out
def trace(model, tokens):
    stack = model.stack
    positions = torch.arange(tokens.shape[1])[None]
    rotate = stack.positions.rotation(positions)
    x = stack.embedding(tokens)
    streams = [x]
    for block in stack.blocks:
        x = block(x, rotate=rotate)
        streams.append(x)
    return streams, model.head(stack.final_norm(x))


# wrong: the table without √d
def trace(model, tokens):
    stack = model.stack
    positions = torch.arange(tokens.shape[1])[None]
    rotate = stack.positions.rotation(positions)
    x = stack.positions(stack.embedding.weight[tokens], positions)
    streams = [x]
    for block in stack.blocks:
        x = block(x, rotate=rotate)
        streams.append(x)
    return streams, model.head(stack.final_norm(x))


# wrong: the first block again and again
def trace(model, tokens):
    stack = model.stack
    positions = torch.arange(tokens.shape[1])[None]
    rotate = stack.positions.rotation(positions)
    x = stack.positions(stack.embedding(tokens), positions)
    streams = [x]
    for block in stack.blocks:
        x = stack.blocks[0](x, rotate=rotate)
        streams.append(x)
    return streams, model.head(stack.final_norm(x))


# wrong: the last stream normalized
def trace(model, tokens):
    stack = model.stack
    positions = torch.arange(tokens.shape[1])[None]
    rotate = stack.positions.rotation(positions)
    x = stack.positions(stack.embedding(tokens), positions)
    streams = [x]
    for block in stack.blocks:
        x = block(x, rotate=rotate)
        streams.append(x)
    streams[-1] = stack.final_norm(x)
    return streams, model.head(streams[-1])


# wrong: the tied matrix without its bias
def trace(model, tokens):
    stack = model.stack
    positions = torch.arange(tokens.shape[1])[None]
    rotate = stack.positions.rotation(positions)
    x = stack.positions(stack.embedding(tokens), positions)
    streams = [x]
    for block in stack.blocks:
        x = block(x, rotate=rotate)
        streams.append(x)
    return streams, stack.final_norm(x) @ model.head.weight.T


# wrong: the embedding as the head, tied or not
def trace(model, tokens):
    stack = model.stack
    positions = torch.arange(tokens.shape[1])[None]
    rotate = stack.positions.rotation(positions)
    x = stack.positions(stack.embedding(tokens), positions)
    streams = [x]
    for block in stack.blocks:
        x = block(x, rotate=rotate)
        streams.append(x)
    return streams, F.linear(stack.final_norm(x), stack.embedding.weight, model.head.bias)


# wrong: streams after the blocks only
def trace(model, tokens):
    stack = model.stack
    positions = torch.arange(tokens.shape[1])[None]
    rotate = stack.positions.rotation(positions)
    x = stack.positions(stack.embedding(tokens), positions)
    streams = []
    for block in stack.blocks:
        x = block(x, rotate=rotate)
        streams.append(x)
    return streams, model.head(stack.final_norm(x))


# wrong: a sum of stream and block
def trace(model, tokens):
    stack = model.stack
    positions = torch.arange(tokens.shape[1])[None]
    rotate = stack.positions.rotation(positions)
    x = stack.positions(stack.embedding(tokens), positions)
    streams = [x]
    for block in stack.blocks:
        x = x + block(x, rotate=rotate)
        streams.append(x)
    return streams, model.head(stack.final_norm(x))


# wrong: the whole model
def trace(model, tokens):
    x = model.stack(tokens)
    return [x], model.head(x)


# wrong: the blocks in reverse
def trace(model, tokens):
    stack = model.stack
    positions = torch.arange(tokens.shape[1])[None]
    rotate = stack.positions.rotation(positions)
    x = stack.positions(stack.embedding(tokens), positions)
    streams = [x]
    for block in reversed(stack.blocks):
        x = block(x, rotate=rotate)
        streams.append(x)
    return streams, model.head(stack.final_norm(x))


# wrong: each block normalized before it
def trace(model, tokens):
    stack = model.stack
    positions = torch.arange(tokens.shape[1])[None]
    rotate = stack.positions.rotation(positions)
    x = stack.positions(stack.embedding(tokens), positions)
    streams = [x]
    for block in stack.blocks:
        x = block(stack.final_norm(x), rotate=rotate)
        streams.append(x)
    return streams, model.head(stack.final_norm(x))


# wrong: the norm of PyTorch
def trace(model, tokens):
    stack = model.stack
    positions = torch.arange(tokens.shape[1])[None]
    rotate = stack.positions.rotation(positions)
    x = stack.positions(stack.embedding(tokens), positions)
    streams = [x]
    for block in stack.blocks:
        x = block(x, rotate=rotate)
        streams.append(x)
    return streams, model.head(F.layer_norm(x, x.shape[-1:]))


# wrong: positions counted from 1
def trace(model, tokens):
    stack = model.stack
    positions = torch.arange(1, tokens.shape[1] + 1)[None]
    rotate = stack.positions.rotation(positions)
    x = stack.positions(stack.embedding(tokens), positions)
    streams = [x]
    for block in stack.blocks:
        x = block(x, rotate=rotate)
        streams.append(x)
    return streams, model.head(stack.final_norm(x))


# wrong: the logits of the first stream
def trace(model, tokens):
    stack = model.stack
    positions = torch.arange(tokens.shape[1])[None]
    rotate = stack.positions.rotation(positions)
    x = stack.positions(stack.embedding(tokens), positions)
    streams = [x]
    for block in stack.blocks:
        x = block(x, rotate=rotate)
        streams.append(x)
    return streams, model.head(stack.final_norm(streams[0]))


# wrong: logits before streams
def trace(model, tokens):
    stack = model.stack
    positions = torch.arange(tokens.shape[1])[None]
    rotate = stack.positions.rotation(positions)
    x = stack.positions(stack.embedding(tokens), positions)
    streams = [x]
    for block in stack.blocks:
        x = block(x, rotate=rotate)
        streams.append(x)
    return model.head(stack.final_norm(x)), streams


# wrong: attention alone
def trace(model, tokens):
    stack = model.stack
    positions = torch.arange(tokens.shape[1])[None]
    rotate = stack.positions.rotation(positions)
    x = stack.positions(stack.embedding(tokens), positions)
    streams = [x]
    for block in stack.blocks:
        x = block.attention(x, rotate=rotate)
        streams.append(x)
    return streams, model.head(stack.final_norm(x))


# wrong: only the first block gets the rotation
def trace(model, tokens):
    stack = model.stack
    positions = torch.arange(tokens.shape[1], device=tokens.device)[None]
    x = stack.positions(stack.embedding(tokens), positions)
    rotate = stack.positions.rotation(positions)
    streams = [x]
    for block in stack.blocks:
        x = block(x, rotate=rotate)
        rotate = None
        streams.append(x)
    return streams, model.head(stack.final_norm(x))
