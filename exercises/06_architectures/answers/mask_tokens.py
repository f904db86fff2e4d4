import torch


# right: where, twice
def mask_tokens(tokens, real, chance, lot, other, mask_id):
    chosen = (chance < 0.15) & real
    inputs = torch.where(chosen & (lot < 0.8), mask_id, tokens)
    inputs = torch.where(chosen & (lot > 0.9), other, inputs)
    return inputs, torch.where(chosen, tokens, -100)


# right: token by token, on copies
def mask_tokens(tokens, real, chance, lot, other, mask_id):
    inputs, targets = tokens.clone(), torch.full_like(tokens, -100)
    for i in range(tokens.shape[0]):
        for j in range(tokens.shape[1]):
            if real[i, j] and chance[i, j] < 0.15:
                targets[i, j] = tokens[i, j]
                if lot[i, j] < 0.8:
                    inputs[i, j] = mask_id
                elif lot[i, j] > 0.9:
                    inputs[i, j] = other[i, j]
    return inputs, targets


# right: indexed assignment on a copy
def mask_tokens(tokens, real, chance, lot, other, mask_id):
    chosen = real.logical_and(chance < 0.15)
    inputs = tokens.clone()
    inputs[chosen & (lot < 0.8)] = mask_id
    swap = chosen & (lot > 0.9)
    inputs[swap] = other[swap]
    return inputs, tokens.masked_fill(~chosen, -100)


# wrong: all chosen tokens become MASK
def mask_tokens(tokens, real, chance, lot, other, mask_id):
    chosen = (chance < 0.15) & real
    return torch.where(chosen, mask_id, tokens), torch.where(chosen, tokens, -100)


# wrong: changes the tokens in place
def mask_tokens(tokens, real, chance, lot, other, mask_id):
    chosen = (chance < 0.15) & real
    targets = torch.where(chosen, tokens, -100)
    swap = chosen & (lot > 0.9)
    tokens[swap] = other[swap]
    tokens[chosen & (lot < 0.8)] = mask_id
    return tokens, targets


# wrong: asks only behind a MASK
def mask_tokens(tokens, real, chance, lot, other, mask_id):
    chosen = (chance < 0.15) & real
    hidden = chosen & (lot < 0.8)
    inputs = torch.where(hidden, mask_id, tokens)
    inputs = torch.where(chosen & (lot > 0.9), other, inputs)
    return inputs, torch.where(hidden, tokens, -100)


# wrong: asks for every token
def mask_tokens(tokens, real, chance, lot, other, mask_id):
    chosen = (chance < 0.15) & real
    inputs = torch.where(chosen & (lot < 0.8), mask_id, tokens)
    inputs = torch.where(chosen & (lot > 0.9), other, inputs)
    return inputs, tokens


# wrong: answers taken from the changed inputs
def mask_tokens(tokens, real, chance, lot, other, mask_id):
    chosen = (chance < 0.15) & real
    inputs = torch.where(chosen & (lot < 0.8), mask_id, tokens)
    inputs = torch.where(chosen & (lot > 0.9), other, inputs)
    return inputs, torch.where(chosen, inputs, -100)


# wrong: PADs are chosen, too
def mask_tokens(tokens, real, chance, lot, other, mask_id):
    chosen = chance < 0.15
    inputs = torch.where(chosen & (lot < 0.8), mask_id, tokens)
    inputs = torch.where(chosen & (lot > 0.9), other, inputs)
    return inputs, torch.where(chosen, tokens, -100)


# wrong: 20 % become another word, none stays
def mask_tokens(tokens, real, chance, lot, other, mask_id):
    chosen = (chance < 0.15) & real
    inputs = torch.where(chosen, other, tokens)
    inputs = torch.where(chosen & (lot < 0.8), mask_id, inputs)
    return inputs, torch.where(chosen, tokens, -100)


# wrong: 0 where nothing is asked
def mask_tokens(tokens, real, chance, lot, other, mask_id):
    chosen = (chance < 0.15) & real
    inputs = torch.where(chosen & (lot < 0.8), mask_id, tokens)
    inputs = torch.where(chosen & (lot > 0.9), other, inputs)
    return inputs, tokens * chosen


# wrong: draws numbers of its own
def mask_tokens(tokens, real, chance, lot, other, mask_id):
    chosen = (torch.rand(tokens.shape) < 0.15) & real
    inputs = torch.where(chosen & (lot < 0.8), mask_id, tokens)
    inputs = torch.where(chosen & (lot > 0.9), other, inputs)
    return inputs, torch.where(chosen, tokens, -100)


# wrong: the borders belong to the other side
def mask_tokens(tokens, real, chance, lot, other, mask_id):
    chosen = (chance <= 0.15) & real
    inputs = torch.where(chosen & (lot <= 0.8), mask_id, tokens)
    inputs = torch.where(chosen & (lot >= 0.9), other, inputs)
    return inputs, torch.where(chosen, tokens, -100)


# wrong: one number decides all, 80 % of 15 % are 12 %
def mask_tokens(tokens, real, chance, lot, other, mask_id):
    inputs = torch.where(real & (chance < 0.12), mask_id, tokens)
    inputs = torch.where(real & (chance > 0.135) & (chance < 0.15), other, inputs)
    return inputs, torch.where(real & (chance < 0.15), tokens, -100)


# wrong: the lowest tenth of the lot is replaced, after the masks
def mask_tokens(tokens, real, chance, lot, other, mask_id):
    chosen = (chance < 0.15) & real
    inputs = torch.where(chosen & (lot < 0.8), mask_id, tokens)
    inputs = torch.where(chosen & (lot < 0.1), other, inputs)
    return inputs, torch.where(chosen, tokens, -100)


# wrong: asks for what was changed alone
def mask_tokens(tokens, real, chance, lot, other, mask_id):
    chosen = (chance < 0.15) & real
    inputs = torch.where(chosen & (lot < 0.8), mask_id, tokens)
    inputs = torch.where(chosen & (lot > 0.9), other, inputs)
    return inputs, torch.where(inputs != tokens, tokens, -100)


# wrong: a chance of 0.15 is chosen, too
def mask_tokens(tokens, real, chance, lot, other, mask_id):
    chosen = (chance <= 0.15) & real
    inputs = torch.where(chosen & (lot < 0.8), mask_id, tokens)
    inputs = torch.where(chosen & (lot > 0.9), other, inputs)
    return inputs, torch.where(chosen, tokens, -100)


# wrong: from 0.8 to 0.9 another token, and above the token as it was
def mask_tokens(tokens, real, chance, lot, other, mask_id):
    chosen = (chance < 0.15) & real
    inputs = torch.where(chosen & (lot < 0.8), mask_id, tokens)
    inputs = torch.where(chosen & (lot >= 0.8) & (lot <= 0.9), other, inputs)
    return inputs, torch.where(chosen, tokens, -100)


# wrong: a lot of 0.9 gets another token, too
def mask_tokens(tokens, real, chance, lot, other, mask_id):
    chosen = (chance < 0.15) & real
    inputs = torch.where(chosen & (lot < 0.8), mask_id, tokens)
    inputs = torch.where(chosen & (lot >= 0.9), other, inputs)
    return inputs, torch.where(chosen, tokens, -100)


# wrong: nothing stays: below 0.9 MASK, and another token above
def mask_tokens(tokens, real, chance, lot, other, mask_id):
    chosen = (chance < 0.15) & real
    inputs = torch.where(chosen & (lot < 0.9), mask_id, tokens)
    inputs = torch.where(chosen & (lot > 0.9), other, inputs)
    return inputs, torch.where(chosen, tokens, -100)
