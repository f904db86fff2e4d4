"""The next-token loss, a chunk of positions at a time: the logits of all are never held."""

from __future__ import annotations

from typing import Any, Literal

import torch
import torch.nn.functional as F
from jaxtyping import Float, Int
from torch import Tensor, nn

IGNORE = -100
"""The target at positions where nothing is to be predicted (padding)."""

CHUNK_LOGITS = 2**24
"""Logits held at a time: 64 MiB in float32."""


@torch.compiler.disable  # the compiler would build it anew for each number of chunks
def token_loss(
    hidden: Float[Tensor, "B L d"],
    head: nn.Linear,
    targets: Int[Tensor, "B L"],
    reduction: Literal["mean", "sum", "none"] = "mean",
) -> Float[Tensor, ""] | Float[Tensor, "B L"]:
    """Compute −log softmax(head(hidden))[target] in nats.

    The targets are the inputs shifted by one; the caller has shifted them. "mean" divides by the
    number of targets that count, and is 0 where there is none; "none" gives 0 at ignored positions.
    With "mean" and "sum" the B·L·vocab_size logits are never held together: each chunk of rows
    leaves its part of the gradient behind and is forgotten.

    Raises:
        ValueError: an unknown reduction, shapes that do not match, or a target outside the
            vocabulary.
    """
    if reduction not in ("mean", "sum", "none"):
        raise ValueError(f"reduction={reduction!r} is unknown; choose 'mean', 'sum' or 'none'")
    if hidden.shape[:-1] != targets.shape:
        raise ValueError(
            f"targets have shape {tuple(targets.shape)}, but hidden has {tuple(hidden.shape[:-1])} "
            "rows; give one target per position"
        )
    if not targets.is_floating_point():
        targets = targets.long()  # PyTorch's own losses refuse int32
    if targets.device.type == "cpu" and not torch.compiler.is_compiling():
        _check_targets(targets, head.out_features)
    rows, flat = hidden.flatten(0, -2), targets.flatten()
    if reduction == "none":
        return _per_row(rows, head, flat).view(targets.shape)
    # Within the function itself gradients always count as disabled, so it is asked here.
    wants_grad = torch.is_grad_enabled()
    total = _ChunkedCrossEntropy.apply(rows, head.weight, head.bias, flat, wants_grad)
    if reduction == "sum":
        return total
    return total / (flat != IGNORE).sum().clamp(min=1)


def _check_targets(targets: Tensor, vocab_size: int) -> None:
    wrong = targets[((targets < 0) | (targets >= vocab_size)) & (targets != IGNORE)]
    if wrong.numel():
        raise ValueError(
            f"target {int(wrong[0])} is outside the vocabulary; use 0 to {vocab_size - 1}, "
            f"or {IGNORE} where nothing is to be predicted"
        )


def _chunks(n_rows: int, vocab_size: int) -> list[slice]:
    # A chunk's share of the head's gradient is summed in the products' precision: keep it short.
    size = max(1, min(4096, CHUNK_LOGITS // vocab_size))
    return [slice(start, start + size) for start in range(0, n_rows, size)]


def _per_row(hidden: Tensor, head: nn.Linear, targets: Tensor) -> Tensor:
    parts = [
        F.cross_entropy(
            head(hidden[rows]).float(), targets[rows], ignore_index=IGNORE, reduction="none"
        )
        for rows in _chunks(len(hidden), head.out_features)
    ]
    return torch.cat(parts) if parts else hidden.new_zeros(0)


class _ChunkedCrossEntropy(torch.autograd.Function):
    """Sum the losses of all rows, and form the gradient on the way forward.

    The gradient of −log softmax(z)[t] with respect to z is softmax(z) − onehot(t): it needs nothing
    that a later layer could change, so each chunk of logits is turned into its gradient at once.
    """

    @staticmethod
    def forward(
        ctx: Any,
        hidden: Float[Tensor, "N d"],
        weight: Float[Tensor, "V d"],
        bias: Float[Tensor, "V"] | None,
        targets: Int[Tensor, "N"],
        wants_grad: bool,
    ) -> Float[Tensor, ""]:
        device = hidden.device.type
        autocast = torch.is_autocast_enabled(device)
        dtype = torch.get_autocast_dtype(device) if autocast else hidden.dtype
        with torch.autocast(device, enabled=False):
            # A zero in place of each row that does not count: its gradient then adds nothing to
            # that of the weight, and no pass over the logits is needed to clear it.
            counts = targets != IGNORE
            ignored = ~counts.unsqueeze(1)
            h, w = hidden.to(dtype).masked_fill(ignored, 0.0), weight.to(dtype)
            b = bias.float() if bias is not None else None
            needs_h, needs_w, needs_b = (wants_grad and needs for needs in ctx.needs_input_grad[:3])
            grad_h = torch.empty_like(h) if needs_h else None
            grad_w = torch.zeros_like(weight, dtype=torch.float32) if needs_w else None
            grad_b = torch.zeros_like(b) if b is not None and needs_b else None
            total = torch.zeros((), device=hidden.device)
            for rows in _chunks(len(h), len(weight)):
                logits = (h[rows] @ w.T).float()
                if b is not None:
                    logits += b
                log_p = logits.log_softmax(dim=1)
                total += F.nll_loss(log_p, targets[rows], ignore_index=IGNORE, reduction="sum")
                if not (needs_h or needs_w or needs_b):
                    continue
                grad = log_p.exp_()  # softmax, in the memory of its logarithm
                target = targets[rows].clamp(min=0).unsqueeze(1)
                grad.scatter_add_(1, target, grad.new_full(target.shape, -1.0))
                if grad_b is not None:
                    grad_b += counts[rows].float() @ grad
                grad = grad.to(dtype)
                if grad_h is not None:
                    torch.mm(grad, w, out=grad_h[rows])
                if grad_w is not None:
                    grad_w += grad.T @ h[rows]
            if grad_h is not None:
                grad_h.masked_fill_(ignored, 0.0)
        ctx.grads = (grad_h, grad_w, grad_b)
        ctx.dtypes = (hidden.dtype, weight.dtype)
        return total

    @staticmethod
    def backward(ctx: Any, grad_total: Tensor) -> tuple[Tensor | None, ...]:
        if torch.is_grad_enabled():  # create_graph=True: what is returned here would be a constant
            raise RuntimeError("the chunked loss has no second derivative; use reduction='none'")
        if ctx.grads is None:
            raise RuntimeError("the chunked loss can be differentiated once; compute it again")
        grad_h, grad_w, grad_b = ctx.grads
        ctx.grads = None  # scaled in place below, so a second use would be wrong
        hidden_dtype, weight_dtype = ctx.dtypes
        if grad_h is not None:
            grad_h = grad_h.to(hidden_dtype).mul_(grad_total)
        if grad_w is not None:
            grad_w = grad_w.mul_(grad_total).to(weight_dtype)
        if grad_b is not None:
            grad_b = grad_b.mul_(grad_total).to(weight_dtype)
        return grad_h, grad_w, grad_b, None, None
