import torch


# right: by broadcasting
def fold(gain, shift, weight, bias):
    new_bias = weight @ shift
    return weight * gain, new_bias if bias is None else bias + new_bias


# right: with the diagonal matrix
def fold(gain, shift, weight, bias):
    if bias is None:
        bias = torch.zeros(weight.shape[0])
    return weight @ torch.diag(gain), shift @ weight.T + bias


# right: read off from what the layer does to zero and to the unit vectors
def fold(gain, shift, weight, bias):
    def both(x):
        y = (gain * x + shift) @ weight.mT
        return y if bias is None else y + bias

    zero = both(torch.zeros(len(gain)))
    return (both(torch.eye(len(gain))) - zero).mT, zero


# wrong: γ on the rows
def fold(gain, shift, weight, bias):
    new_bias = weight @ shift
    return gain[:, None] * weight, new_bias if bias is None else bias + new_bias


# wrong: β through the folded weight
def fold(gain, shift, weight, bias):
    new_weight = weight * gain
    new_bias = new_weight @ shift
    return new_weight, new_bias if bias is None else bias + new_bias


# wrong: the old bias forgotten
def fold(gain, shift, weight, bias):
    return weight * gain, weight @ shift


# wrong: β forgotten
def fold(gain, shift, weight, bias):
    return weight * gain, torch.zeros(len(weight)) if bias is None else bias


# wrong: divides by γ
def fold(gain, shift, weight, bias):
    new_bias = weight @ shift
    return weight / gain, new_bias if bias is None else bias + new_bias


# wrong: changes the weight and bias that it is given
def fold(gain, shift, weight, bias):
    new_bias = weight @ shift
    weight *= gain
    if bias is not None:
        new_bias = bias.add_(new_bias)
    return weight, new_bias


# wrong: no bias stays no bias
def fold(gain, shift, weight, bias):
    return weight * gain, bias if bias is None else bias + weight @ shift


# wrong: only the weight
def fold(gain, shift, weight, bias):
    return weight * gain


# wrong: γ on the old bias too
def fold(gain, shift, weight, bias):
    new_bias = weight @ shift
    if bias is not None:
        new_bias = new_bias + (bias * gain if len(bias) == len(gain) else bias)
    return weight * gain, new_bias


# wrong: γ folded in without its sign
def fold(gain, shift, weight, bias):
    new_bias = weight @ shift
    return weight * gain.abs(), new_bias if bias is None else bias + new_bias


# wrong: a layer in place of its two tensors
def fold(gain, shift, weight, bias):
    layer = torch.nn.Linear(weight.shape[1], weight.shape[0])
    layer.weight.data = weight * gain
    layer.bias.data = weight @ shift + (0 if bias is None else bias)
    return layer


# wrong: γ times β before the layer
def fold(gain, shift, weight, bias):
    return weight * gain, (0 if bias is None else bias) + (gain * shift) @ weight.T


# wrong: the bias first
def fold(gain, shift, weight, bias):
    new_bias = weight @ shift
    return new_bias if bias is None else bias + new_bias, weight * gain


# wrong: β taken away, as if to undo it
def fold(gain, shift, weight, bias):
    new_bias = -(weight @ shift)
    return weight * gain, new_bias if bias is None else bias + new_bias


# wrong: a mean over inputs for β
def fold(gain, shift, weight, bias):
    new_bias = (weight * shift).mean(dim=-1)
    return weight * gain, new_bias if bias is None else bias + new_bias
