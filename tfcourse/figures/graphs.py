"""Read who depends on whom out of autograd's own graph, and draw it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import pairwise
from typing import Any

import torch
from matplotlib.axes import Axes
from torch import Tensor
from torch.autograd.graph import get_gradient_edge

from tfcourse.figures import COLORS

Edge = tuple[str, str]


def direct_edges(tensors: Mapping[str, Tensor]) -> list[Edge]:
    """List the pairs (a, b) where `b` is computed from `a` and no other given tensor lies between.

    Autograd's graph is walked back from each tensor until another of them is met. A pair counts
    only if the derivative is not zero: a masked attention score is part of the graph, but passes
    nothing on.
    """
    owner = {get_gradient_edge(tensor).node: name for name, tensor in tensors.items()}
    edges = []
    for name, tensor in tensors.items():
        met: set[str] = set()
        seen: set[Any] = set()
        todo = _inputs(get_gradient_edge(tensor).node)
        while todo:
            node = todo.pop()
            if node in owner:
                met.add(owner[node])
            elif node not in seen:
                seen.add(node)
                todo += _inputs(node)
        edges += [(a, name) for a in tensors if a in met and depends(tensor, tensors[a])]
    return edges


def depends(output: Tensor, source: Tensor) -> bool:
    """Say whether some number of `output` changes with some number of `source`."""
    for row in torch.eye(output.numel()):
        (gradient,) = torch.autograd.grad(
            output, source, row.view_as(output), retain_graph=True, allow_unused=True
        )
        if gradient is not None and gradient.count_nonzero():
            return True
    return False


def longest_path(output: Tensor) -> int:
    """Count the operations on the longest way back from `output` to a leaf.

    Work along such a path cannot be shared between processors: each step waits for the one before.
    """
    length: dict[Any, int] = {}
    stack = [get_gradient_edge(output).node]
    while stack:
        node = stack[-1]
        waiting = [n for n in _inputs(node) if n not in length]
        if waiting:
            stack += waiting
        else:
            length[node] = 1 + max((length[n] for n in _inputs(node)), default=-1)
            stack.pop()
    return length[get_gradient_edge(output).node]


def shortest_chain(edges: Iterable[Edge], start: str, end: str) -> list[str]:
    """Return the shortest chain of edges from `start` to `end`, as the names along it."""
    edges = list(edges)
    paths = [[start]]
    while paths:
        path = paths.pop(0)
        if path[-1] == end:
            return path
        paths += [[*path, b] for a, b in edges if a == path[-1]]
    raise ValueError(f"no path leads from {start} to {end}")


def draw_graph(axes: Axes, edges: Iterable[Edge], path: list[str], backward: bool = False) -> None:
    """Draw inputs x0, x1, … below, results above, and an arrow per edge.

    The arrows of `path` stand out. `backward` turns all arrows round: the way of the gradient.
    """
    edges = list(edges)
    names = sorted({name for edge in edges for name in edge})
    place = {name: (int(name[1:]), 0 if name[0] == "x" else 1) for name in names}
    bold = set(pairwise(path))
    for a, b in sorted(edges, key=lambda edge: edge in bold):
        on_path = (a, b) in bold
        tail, head = (b, a) if backward else (a, b)
        axes.annotate(
            "",
            place[head],
            place[tail],
            arrowprops={
                "arrowstyle": "-|>",
                "color": COLORS["without" if backward else "stream"] if on_path else "#BBBBBB",
                "linewidth": 2.4 if on_path else 1.0,
                "shrinkA": 12,
                "shrinkB": 12,
            },
        )
    for name, (x, y) in place.items():
        axes.text(
            x,
            y,
            f"${name[0]}_{name[1:]}$",
            ha="center",
            va="center",
            bbox={"boxstyle": "circle", "facecolor": "white", "edgecolor": "#444444"},
        )
    n = 1 + max(x for x, _ in place.values())
    axes.set(xlim=(-0.5, n - 0.5), ylim=(-0.35, 1.35))
    axes.axis("off")


def _inputs(node: Any) -> list[Any]:
    return [node for node, _ in node.next_functions if node is not None]
