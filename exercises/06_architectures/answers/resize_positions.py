import math

import torch
from einops import rearrange
from torch.nn import functional as F


# right: to channels first, interpolate, and back
def resize_positions(positions, old, new):
    first, learned = positions[:, :1], positions[:, 1:]
    grid = rearrange(learned, "1 (h w) d -> 1 d h w", h=old[0])
    grid = F.interpolate(grid, size=new, mode="bicubic", align_corners=False)
    return torch.cat([first, rearrange(grid, "1 d h w -> 1 (h w) d")], dim=1)


# right: by permute, leaving the native grid alone
def resize_positions(positions, old, new):
    if tuple(old) == tuple(new):
        return positions
    d = positions.shape[-1]
    grid = positions[0, 1:].view(old[0], old[1], d).permute(2, 0, 1)[None]
    grid = F.interpolate(grid, size=tuple(new), mode="bicubic")
    return torch.cat([positions[:, :1], grid.permute(0, 2, 3, 1).reshape(1, -1, d)], dim=1)


# right: one feature at a time
def resize_positions(positions, old, new):
    planes = []
    for feature in positions[0, 1:].unbind(dim=-1):
        plane = F.interpolate(feature.reshape(1, 1, *old), size=new, mode="bicubic")
        planes.append(plane.flatten())
    return torch.cat([positions[:, :1], torch.stack(planes, dim=-1)[None]], dim=1)


# wrong: bilinear
def resize_positions(positions, old, new):
    grid = rearrange(positions[:, 1:], "1 (h w) d -> 1 d h w", h=old[0])
    grid = F.interpolate(grid, size=new, mode="bilinear", align_corners=False)
    return torch.cat([positions[:, :1], rearrange(grid, "1 d h w -> 1 (h w) d")], dim=1)


# wrong: corners aligned
def resize_positions(positions, old, new):
    grid = rearrange(positions[:, 1:], "1 (h w) d -> 1 d h w", h=old[0])
    grid = F.interpolate(grid, size=new, mode="bicubic", align_corners=True)
    return torch.cat([positions[:, :1], rearrange(grid, "1 d h w -> 1 (h w) d")], dim=1)


# wrong: a reshape that takes features for places
def resize_positions(positions, old, new):
    grid = positions[:, 1:].reshape(1, -1, *old)
    grid = F.interpolate(grid, size=new, mode="bicubic", align_corners=False)
    return torch.cat([positions[:, :1], rearrange(grid, "1 d h w -> 1 (h w) d")], dim=1)


# wrong: rows taken for columns
def resize_positions(positions, old, new):
    grid = rearrange(positions[:, 1:], "1 (w h) d -> 1 d h w", h=old[0])
    grid = F.interpolate(grid, size=new, mode="bicubic", align_corners=False)
    return torch.cat([positions[:, :1], rearrange(grid, "1 d h w -> 1 (w h) d")], dim=1)


# wrong: a square grid
def resize_positions(positions, old, new):
    n = int((positions.shape[1] - 1) ** 0.5)
    grid = rearrange(positions[:, 1 : 1 + n * n], "1 (h w) d -> 1 d h w", h=n)
    grid = F.interpolate(grid, size=new, mode="bicubic", align_corners=False)
    return torch.cat([positions[:, :1], rearrange(grid, "1 d h w -> 1 (h w) d")], dim=1)


# wrong: along the row, CLS with it
def resize_positions(positions, old, new):
    n = 1 + new[0] * new[1]
    return F.interpolate(positions.mT, size=n, mode="linear", align_corners=False).mT


# wrong: CLS dropped
def resize_positions(positions, old, new):
    grid = rearrange(positions[:, 1:], "1 (h w) d -> 1 d h w", h=old[0])
    grid = F.interpolate(grid, size=new, mode="bicubic", align_corners=False)
    return rearrange(grid, "1 d h w -> 1 (h w) d")


# wrong: cut off, or filled with the last position
def resize_positions(positions, old, new):
    n = 1 + new[0] * new[1]
    last = positions[:, -1:].expand(1, n, -1)
    return torch.cat([positions, last], dim=1)[:, :n]


# wrong: no gradient reaches what is learned
def resize_positions(positions, old, new):
    first, learned = positions[:, :1], positions[:, 1:].detach()
    grid = rearrange(learned, "1 (h w) d -> 1 d h w", h=old[0])
    grid = F.interpolate(grid, size=new, mode="bicubic", align_corners=False)
    return torch.cat([first, rearrange(grid, "1 d h w -> 1 (h w) d")], dim=1)


# wrong: smoothed
def resize_positions(positions, old, new):
    grid = rearrange(positions[:, 1:], "1 (h w) d -> 1 d h w", h=old[0])
    grid = F.interpolate(grid, size=new, mode="bicubic", antialias=True)
    return torch.cat([positions[:, :1], rearrange(grid, "1 d h w -> 1 (h w) d")], dim=1)


# wrong: features and columns interpolated
def resize_positions(positions, old, new):
    d = positions.shape[-1]
    grid = positions[:, 1:].reshape(1, old[0], old[1], d)
    grid = F.interpolate(grid.transpose(1, 2), size=(new[0], d), mode="bicubic")
    grid = F.interpolate(grid.permute(0, 2, 1, 3), size=(new[1], d), mode="bicubic")
    return torch.cat([positions[:, :1], grid.reshape(1, -1, d)], dim=1).roll(1, dims=2)


# wrong: width and height exchanged in the size
def resize_positions(positions, old, new):
    grid = rearrange(positions[:, 1:], "1 (h w) d -> 1 d h w", h=old[0])
    grid = F.interpolate(grid, size=new[::-1], mode="bicubic", align_corners=False)
    return torch.cat([positions[:, :1], rearrange(grid, "1 d h w -> 1 (h w) d")], dim=1)


# wrong: the same number of rows counts as the same grid
def resize_positions(positions, old, new):
    if old[0] == new[0]:
        return positions
    first, patches = positions[:, :1], positions[:, 1:]
    grid = rearrange(patches, "1 (h w) d -> 1 d h w", h=old[0], w=old[1])
    grid = F.interpolate(grid, size=tuple(new), mode="bicubic", align_corners=False)
    return torch.cat([first, rearrange(grid, "1 d h w -> 1 (h w) d")], dim=1)


# wrong: a square grid is assumed
def resize_positions(positions, old, new):
    first, patches = positions[:, :1], positions[:, 1:]
    grid = rearrange(patches, "1 (h w) d -> 1 d h w", h=math.isqrt(patches.shape[1]))
    grid = F.interpolate(grid, size=tuple(new), mode="bicubic", align_corners=False)
    return torch.cat([first, rearrange(grid, "1 d h w -> 1 (h w) d")], dim=1)
