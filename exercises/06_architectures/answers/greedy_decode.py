import math

import torch


# right: a batch, padded on the right
def greedy_decode(model, sources, bos_id, eos_id, pad_id, max_new):
    longest = max(map(len, sources))
    source = torch.tensor([row + [pad_id] * (longest - len(row)) for row in sources])
    real = torch.tensor([[i < len(row) for i in range(longest)] for row in sources])
    tokens = torch.full((len(sources), 1), bos_id)
    with torch.no_grad():
        for _ in range(max_new):
            logits = model(tokens, source, source_mask=real)
            tokens = torch.cat([tokens, logits[:, -1].argmax(dim=-1, keepdim=True)], dim=1)
    written = []
    for row in tokens[:, 1:].tolist():
        written.append(row[: row.index(eos_id) + 1] if eos_id in row else row)
    return written


# right: row by row, so that nothing is padded
def greedy_decode(model, sources, bos_id, eos_id, pad_id, max_new):
    written = []
    for source in sources:
        row = [bos_id]
        while len(row) <= max_new and row[-1] != eos_id:
            with torch.no_grad():
                row.append(int(model(torch.tensor([row]), torch.tensor([source]))[0, -1].argmax()))
            if row[-1] == eos_id:
                break
        written.append(row[1:])
    return written


# right: reads the source once, stops when all have ended, padded on the left
@torch.no_grad()
def greedy_decode(model, sources, bos_id, eos_id, pad_id, max_new):
    longest = max(len(row) for row in sources)
    source = torch.tensor([[pad_id] * (longest - len(row)) + row for row in sources])
    real = source != pad_id
    encoded = model.encode(source, real)
    tokens, ended = torch.full((len(sources), 1), bos_id), torch.zeros(len(sources)).bool()
    written = [[] for _ in sources]
    for _ in range(max_new):
        best = model.head(model.hidden(tokens, encoded, real))[:, -1].argmax(dim=-1)
        for row, token, done in zip(written, best.tolist(), ended.tolist()):
            if not done:
                row.append(token)
        ended = ended | (best == eos_id)
        if ended.all():
            break
        tokens = torch.cat([tokens, best[:, None]], dim=1)
    return written


# wrong: no mask for the source
def greedy_decode(model, sources, bos_id, eos_id, pad_id, max_new):
    longest = max(map(len, sources))
    source = torch.tensor([row + [pad_id] * (longest - len(row)) for row in sources])
    tokens = torch.full((len(sources), 1), bos_id)
    with torch.no_grad():
        for _ in range(max_new):
            logits = model(tokens, source)
            tokens = torch.cat([tokens, logits[:, -1].argmax(dim=-1, keepdim=True)], dim=1)
    rows = tokens[:, 1:].tolist()
    return [row[: row.index(eos_id) + 1] if eos_id in row else row for row in rows]


# wrong: goes on after EOS until all rows have ended
def greedy_decode(model, sources, bos_id, eos_id, pad_id, max_new):
    longest = max(map(len, sources))
    source = torch.tensor([row + [pad_id] * (longest - len(row)) for row in sources])
    tokens, ended = torch.full((len(sources), 1), bos_id), torch.zeros(len(sources)).bool()
    with torch.no_grad():
        for _ in range(max_new):
            best = model(tokens, source, source_mask=source != pad_id)[:, -1].argmax(dim=-1)
            tokens = torch.cat([tokens, best[:, None]], dim=1)
            ended |= best == eos_id
            if ended.all():
                break
    return tokens[:, 1:].tolist()


# wrong: stops all rows when the first one ends
def greedy_decode(model, sources, bos_id, eos_id, pad_id, max_new):
    longest = max(map(len, sources))
    source = torch.tensor([row + [pad_id] * (longest - len(row)) for row in sources])
    tokens = torch.full((len(sources), 1), bos_id)
    with torch.no_grad():
        for _ in range(max_new):
            best = model(tokens, source, source_mask=source != pad_id)[:, -1].argmax(dim=-1)
            tokens = torch.cat([tokens, best[:, None]], dim=1)
            if (best == eos_id).any():
                break
    return tokens[:, 1:].tolist()


# wrong: keeps BOS
def greedy_decode(model, sources, bos_id, eos_id, pad_id, max_new):
    written = []
    for source in sources:
        row = [bos_id]
        for _ in range(max_new):
            row.append(int(model(torch.tensor([row]), torch.tensor([source]))[0, -1].argmax()))
            if row[-1] == eos_id:
                break
        written.append(row)
    return written


# wrong: drops EOS
def greedy_decode(model, sources, bos_id, eos_id, pad_id, max_new):
    written = []
    for source in sources:
        row = [bos_id]
        for _ in range(max_new):
            token = int(model(torch.tensor([row]), torch.tensor([source]))[0, -1].argmax())
            if token == eos_id:
                break
            row.append(token)
        written.append(row[1:])
    return written


# wrong: reads the logits of the first position
def greedy_decode(model, sources, bos_id, eos_id, pad_id, max_new):
    written = []
    for source in sources:
        row = [bos_id]
        for _ in range(max_new):
            row.append(int(model(torch.tensor([row]), torch.tensor([source]))[0, 0].argmax()))
            if row[-1] == eos_id:
                break
        written.append(row[1:])
    return written


# wrong: forgets what it has written
def greedy_decode(model, sources, bos_id, eos_id, pad_id, max_new):
    written = []
    for source in sources:
        row = [bos_id]
        for _ in range(max_new):
            last = torch.tensor([row[-1:]])
            row.append(int(model(last, torch.tensor([source]))[0, -1].argmax()))
            if row[-1] == eos_id:
                break
        written.append(row[1:])
    return written


# wrong: one token short
def greedy_decode(model, sources, bos_id, eos_id, pad_id, max_new):
    written = []
    for source in sources:
        row = [bos_id]
        while len(row) < max_new and (row[-1] != eos_id or len(row) == 1):
            row.append(int(model(torch.tensor([row]), torch.tensor([source]))[0, -1].argmax()))
        written.append(row[1:])
    return written


# wrong: draws instead of taking the likeliest
def greedy_decode(model, sources, bos_id, eos_id, pad_id, max_new):
    written = []
    for source in sources:
        row = [bos_id]
        for _ in range(max_new):
            p = model(torch.tensor([row]), torch.tensor([source]))[0, -1].softmax(dim=-1)
            row.append(int(torch.multinomial(p, 1)))
            if row[-1] == eos_id:
                break
        written.append(row[1:])
    return written


# wrong: cuts all sources to the shortest
def greedy_decode(model, sources, bos_id, eos_id, pad_id, max_new):
    shortest = min(map(len, sources))
    source = torch.tensor([row[:shortest] for row in sources])
    tokens = torch.full((len(sources), 1), bos_id)
    with torch.no_grad():
        for _ in range(max_new):
            logits = model(tokens, source)
            tokens = torch.cat([tokens, logits[:, -1].argmax(dim=-1, keepdim=True)], dim=1)
    rows = tokens[:, 1:].tolist()
    return [row[: row.index(eos_id) + 1] if eos_id in row else row for row in rows]


# wrong: the package's own
def greedy_decode(model, sources, bos_id, eos_id, pad_id, max_new):
    from tfcourse.generation import generate

    prompts = [[bos_id]] * len(sources)
    options = dict(sources=sources, temperature=0.0, stop_tokens=[eos_id])
    return generate(model, prompts, max_new, **options)


# wrong: sorted by length, and returned so
def greedy_decode(model, sources, bos_id, eos_id, pad_id, max_new):
    written = []
    for source in sorted(sources, key=len):
        row = [bos_id]
        for _ in range(max_new):
            row.append(int(model(torch.tensor([row]), torch.tensor([source]))[0, -1].argmax()))
            if row[-1] == eos_id:
                break
        written.append(row[1:])
    return written


# wrong: the mask inverted
def greedy_decode(model, sources, bos_id, eos_id, pad_id, max_new):
    longest = max(map(len, sources))
    source = torch.tensor([row + [pad_id] * (longest - len(row)) for row in sources])
    tokens = torch.full((len(sources), 1), bos_id)
    with torch.no_grad():
        for _ in range(max_new):
            logits = model(tokens, source, source_mask=source == pad_id)
            tokens = torch.cat([tokens, logits[:, -1].argmax(dim=-1, keepdim=True)], dim=1)
    rows = tokens[:, 1:].tolist()
    return [row[: row.index(eos_id) + 1] if eos_id in row else row for row in rows]


# wrong: PADs after EOS
def greedy_decode(model, sources, bos_id, eos_id, pad_id, max_new):
    longest = max(map(len, sources))
    source = torch.tensor([row + [pad_id] * (longest - len(row)) for row in sources])
    tokens, ended = torch.full((len(sources), 1), bos_id), torch.zeros(len(sources)).bool()
    with torch.no_grad():
        for _ in range(max_new):
            best = model(tokens, source, source_mask=source != pad_id)[:, -1].argmax(dim=-1)
            best = torch.where(ended, pad_id, best)
            tokens = torch.cat([tokens, best[:, None]], dim=1)
            ended = ended | (best == eos_id)
    return tokens[:, 1:].tolist()


# wrong: EOS at the end of every row
def greedy_decode(model, sources, bos_id, eos_id, pad_id, max_new):
    written = []
    for source in sources:
        row = [bos_id]
        while len(row) <= max_new and eos_id not in row:
            row.append(int(model(torch.tensor([row]), torch.tensor([source]))[0, -1].argmax()))
        written.append(row[1:] if row[-1] == eos_id else [*row[1:], eos_id])
    return written


# wrong: finished rows go on with PAD and all PADs at the end are cut, also one that the model wrote
@torch.no_grad()
def greedy_decode(model, sources, bos_id, eos_id, pad_id, max_new_tokens):
    device = next(model.parameters()).device
    longest = max(len(source) for source in sources)
    source = torch.tensor([s + [pad_id] * (longest - len(s)) for s in sources], device=device)
    real = source != pad_id
    tokens = torch.full((len(sources), 1), bos_id, dtype=torch.long, device=device)
    done = torch.zeros(len(sources), dtype=torch.bool, device=device)
    for _ in range(max_new_tokens):
        logits = model(tokens, source, source_mask=real)
        following = logits[:, -1].argmax(dim=-1)
        following = torch.where(done, pad_id, following)
        tokens = torch.cat([tokens, following[:, None]], dim=1)
        done |= following == eos_id
        if done.all():
            break
    written = []
    for row in tokens[:, 1:].tolist():
        while row and row[-1] == pad_id:
            row = row[:-1]
        written.append(row)
    return written


# wrong: EOS written at the last step is forgotten: rows are cut only if they ended earlier
@torch.no_grad()
def greedy_decode(model, sources, bos_id, eos_id, pad_id, max_new_tokens):
    device = next(model.parameters()).device
    longest = max(len(source) for source in sources)
    source = torch.tensor([s + [pad_id] * (longest - len(s)) for s in sources], device=device)
    real = source != pad_id
    tokens = torch.full((len(sources), 1), bos_id, dtype=torch.long, device=device)
    done = torch.zeros(len(sources), dtype=torch.bool, device=device)
    for _ in range(max_new_tokens):
        logits = model(tokens, source, source_mask=real)
        following = logits[:, -1].argmax(dim=-1)
        tokens = torch.cat([tokens, following[:, None]], dim=1)
        done |= following == eos_id
        if done.all():
            break
    written = []
    for row in tokens[:, 1:].tolist():
        if eos_id in row[:-1]:
            row = row[: row.index(eos_id) + 1]
        elif row and row[-1] == eos_id:
            row = row[:-1]
        written.append(row)
    return written


# wrong: word 0 is taken for padding instead of pad_id
@torch.no_grad()
def greedy_decode(model, sources, bos_id, eos_id, pad_id, max_new_tokens):
    device = next(model.parameters()).device
    longest = max(len(source) for source in sources)
    source = torch.tensor([s + [pad_id] * (longest - len(s)) for s in sources], device=device)
    real = source != 0
    tokens = torch.full((len(sources), 1), bos_id, dtype=torch.long, device=device)
    done = torch.zeros(len(sources), dtype=torch.bool, device=device)
    for _ in range(max_new_tokens):
        logits = model(tokens, source, source_mask=real)
        following = logits[:, -1].argmax(dim=-1)
        tokens = torch.cat([tokens, following[:, None]], dim=1)
        done |= following == eos_id
        if done.all():
            break
    written = []
    for row in tokens[:, 1:].tolist():
        if eos_id in row:
            row = row[: row.index(eos_id) + 1]
        written.append(row)
    return written


# wrong: never BOS or PAD: these logits are ruled out
@torch.no_grad()
def greedy_decode(model, sources, bos_id, eos_id, pad_id, max_new_tokens):
    device = next(model.parameters()).device
    longest = max(len(source) for source in sources)
    source = torch.tensor([s + [pad_id] * (longest - len(s)) for s in sources], device=device)
    real = source != pad_id
    tokens = torch.full((len(sources), 1), bos_id, dtype=torch.long, device=device)
    done = torch.zeros(len(sources), dtype=torch.bool, device=device)
    for _ in range(max_new_tokens):
        logits = model(tokens, source, source_mask=real)
        logits[..., [bos_id, pad_id]] = -math.inf
        following = logits[:, -1].argmax(dim=-1)
        tokens = torch.cat([tokens, following[:, None]], dim=1)
        done |= following == eos_id
        if done.all():
            break
    written = []
    for row in tokens[:, 1:].tolist():
        if eos_id in row:
            row = row[: row.index(eos_id) + 1]
        written.append(row)
    return written


# right: padded in front
@torch.no_grad()
def greedy_decode(model, sources, bos_id, eos_id, pad_id, max_new_tokens):
    device = next(model.parameters()).device
    longest = max(len(source) for source in sources)
    source = torch.tensor([[pad_id] * (longest - len(s)) + s for s in sources], device=device)
    real = source != pad_id
    tokens = torch.full((len(sources), 1), bos_id, dtype=torch.long, device=device)
    done = torch.zeros(len(sources), dtype=torch.bool, device=device)
    for _ in range(max_new_tokens):
        logits = model(tokens, source, source_mask=real)
        following = logits[:, -1].argmax(dim=-1)
        tokens = torch.cat([tokens, following[:, None]], dim=1)
        done |= following == eos_id
        if done.all():
            break
    written = []
    for row in tokens[:, 1:].tolist():
        if eos_id in row:
            row = row[: row.index(eos_id) + 1]
        written.append(row)
    return written


# right: filled up, stopped when all rows have ended
def greedy_decode(model, sources, bos_id, eos_id, pad_id, max_new_tokens):
    longest = max(map(len, sources))
    source = torch.tensor([row + [pad_id] * (longest - len(row)) for row in sources])
    tokens = torch.full((len(sources), 1), bos_id)
    with torch.no_grad():
        for _ in range(max_new_tokens):
            logits = model(tokens, source, source_mask=source != pad_id)
            tokens = torch.cat([tokens, logits[:, -1].argmax(dim=-1, keepdim=True)], dim=1)
            if (tokens[:, 1:] == eos_id).any(dim=1).all():
                break
    rows = tokens[:, 1:].tolist()
    return [row[: row.index(eos_id) + 1] if eos_id in row else row for row in rows]


# wrong: the package's own, a step at a time
def greedy_decode(model, sources, bos_id, eos_id, pad_id, max_new_tokens):
    from tfcourse import generation

    starts, rows = [[bos_id]] * len(sources), [[] for _ in sources]
    options = dict(sources=sources, temperature=0.0, stop_tokens=[eos_id])
    for step in generation.stream(model, starts, max_new_tokens, **options):
        for row, token in zip(rows, step):
            row += [] if token is None else [token]
    return rows


# wrong: all PADs left out, also those that the model wrote
def greedy_decode(model, sources, bos_id, eos_id, pad_id, max_new_tokens):
    longest = max(map(len, sources))
    source = torch.tensor([row + [pad_id] * (longest - len(row)) for row in sources])
    tokens, ended = torch.full((len(sources), 1), bos_id), torch.zeros(len(sources)).bool()
    with torch.no_grad():
        for _ in range(max_new_tokens):
            best = model(tokens, source, source_mask=source != pad_id)[:, -1].argmax(dim=-1)
            best = torch.where(ended, pad_id, best)
            tokens = torch.cat([tokens, best[:, None]], dim=1)
            ended = ended | (best == eos_id)
    return [[t for t in row if t != pad_id] for row in tokens[:, 1:].tolist()]
