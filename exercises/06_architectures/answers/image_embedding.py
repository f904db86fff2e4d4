import torch
from einops import rearrange
from torch import nn
from torch.nn import functional as F


# right: cuts by rearrange
class ImageEmbedding(nn.Module):
    def __init__(self, height, width, channels, patch_size, d_model):
        super().__init__()
        self.p = patch_size
        n = (height // patch_size) * (width // patch_size)
        self.project = nn.Linear(channels * patch_size**2, d_model)
        self.first = nn.Parameter(torch.zeros(1, 1, d_model))
        self.positions = nn.Parameter(0.02 * torch.randn(1, 1 + n, d_model))

    def forward(self, images):
        patches = rearrange(images, "b c (h p) (w q) -> b (h w) (c p q)", p=self.p, q=self.p)
        first = self.first.expand(len(images), -1, -1)
        return torch.cat([first, self.project(patches)], dim=1) + self.positions


# right: by unfold
class ImageEmbedding(nn.Module):
    def __init__(self, height, width, channels, patch_size, d_model):
        super().__init__()
        self.p = patch_size
        n = height * width // patch_size**2
        self.project = nn.Linear(channels * patch_size**2, d_model)
        self.first = nn.Parameter(torch.randn(1, 1, d_model))
        self.positions = nn.Parameter(torch.randn(1, 1 + n, d_model))

    def forward(self, images):
        x = self.project(F.unfold(images, self.p, stride=self.p).transpose(1, 2))
        x = x + self.positions[:, 1:]
        first = self.first + self.positions[:, :1]
        return torch.cat([first.repeat(len(x), 1, 1), x], dim=1)


# right: as a convolution with the same weights
class ImageEmbedding(nn.Module):
    def __init__(self, height, width, channels, patch_size, d_model):
        super().__init__()
        self.shape = (d_model, channels, patch_size, patch_size)
        n = (height // patch_size) * (width // patch_size)
        self.project = nn.Linear(channels * patch_size * patch_size, d_model)
        self.first = nn.Parameter(torch.zeros(1, 1, d_model))
        self.positions = nn.Parameter(torch.zeros(1, n + 1, d_model))

    def forward(self, images):
        kernel = self.project.weight.view(self.shape)
        x = F.conv2d(images, kernel, self.project.bias, stride=self.shape[-1])
        x = x.flatten(2).transpose(1, 2)
        return torch.cat([self.first.expand(x.shape[0], 1, -1), x], 1) + self.positions


# wrong: one position for all patches
class ImageEmbedding(nn.Module):
    def __init__(self, height, width, channels, patch_size, d_model):
        super().__init__()
        self.p = patch_size
        self.project = nn.Linear(channels * patch_size**2, d_model)
        self.first = nn.Parameter(torch.zeros(1, 1, d_model))
        self.positions = nn.Parameter(torch.zeros(1, 1, d_model))

    def forward(self, images):
        patches = rearrange(images, "b c (h p) (w q) -> b (h w) (c p q)", p=self.p, q=self.p)
        first = self.first.expand(len(images), -1, -1)
        return torch.cat([first, self.project(patches)], dim=1) + self.positions


# wrong: no place for CLS
class ImageEmbedding(nn.Module):
    def __init__(self, height, width, channels, patch_size, d_model):
        super().__init__()
        self.p = patch_size
        n = (height // patch_size) * (width // patch_size)
        self.project = nn.Linear(channels * patch_size**2, d_model)
        self.first = nn.Parameter(torch.zeros(1, 1, d_model))
        self.positions = nn.Parameter(torch.zeros(1, n, d_model))

    def forward(self, images):
        patches = rearrange(images, "b c (h p) (w q) -> b (h w) (c p q)", p=self.p, q=self.p)
        x = self.project(patches) + self.positions
        return torch.cat([self.first.expand(len(x), -1, -1), x], dim=1)


# wrong: column by column
class ImageEmbedding(nn.Module):
    def __init__(self, height, width, channels, patch_size, d_model):
        super().__init__()
        self.p = patch_size
        n = (height // patch_size) * (width // patch_size)
        self.project = nn.Linear(channels * patch_size**2, d_model)
        self.first = nn.Parameter(torch.zeros(1, 1, d_model))
        self.positions = nn.Parameter(torch.zeros(1, n + 1, d_model))

    def forward(self, images):
        patches = rearrange(images, "b c (h p) (w q) -> b (w h) (c p q)", p=self.p, q=self.p)
        first = self.first.expand(len(images), -1, -1)
        return torch.cat([first, self.project(patches)], dim=1) + self.positions


# wrong: channels last within a patch
class ImageEmbedding(nn.Module):
    def __init__(self, height, width, channels, patch_size, d_model):
        super().__init__()
        self.p = patch_size
        n = (height // patch_size) * (width // patch_size)
        self.project = nn.Linear(channels * patch_size**2, d_model)
        self.first = nn.Parameter(torch.zeros(1, 1, d_model))
        self.positions = nn.Parameter(torch.zeros(1, n + 1, d_model))

    def forward(self, images):
        patches = rearrange(images, "b c (h p) (w q) -> b (h w) (p q c)", p=self.p, q=self.p)
        first = self.first.expand(len(images), -1, -1)
        return torch.cat([first, self.project(patches)], dim=1) + self.positions


# wrong: a reshape without moving axes
class ImageEmbedding(nn.Module):
    def __init__(self, height, width, channels, patch_size, d_model):
        super().__init__()
        self.n = (height // patch_size) * (width // patch_size)
        self.project = nn.Linear(channels * patch_size**2, d_model)
        self.first = nn.Parameter(torch.zeros(1, 1, d_model))
        self.positions = nn.Parameter(torch.zeros(1, self.n + 1, d_model))

    def forward(self, images):
        patches = images.reshape(len(images), self.n, -1)
        first = self.first.expand(len(images), -1, -1)
        return torch.cat([first, self.project(patches)], dim=1) + self.positions


# wrong: the image is taken for a square
class ImageEmbedding(nn.Module):
    def __init__(self, height, width, channels, patch_size, d_model):
        super().__init__()
        self.p = patch_size
        n = (height // patch_size) ** 2
        self.project = nn.Linear(channels * patch_size**2, d_model)
        self.first = nn.Parameter(torch.zeros(1, 1, d_model))
        self.positions = nn.Parameter(torch.zeros(1, n + 1, d_model))

    def forward(self, images):
        patches = rearrange(images, "b c (h p) (w q) -> b (h w) (c p q)", p=self.p, q=self.p)
        first = self.first.expand(len(images), -1, -1)
        return torch.cat([first, self.project(patches)], dim=1) + self.positions


# wrong: CLS at the end
class ImageEmbedding(nn.Module):
    def __init__(self, height, width, channels, patch_size, d_model):
        super().__init__()
        self.p = patch_size
        n = (height // patch_size) * (width // patch_size)
        self.project = nn.Linear(channels * patch_size**2, d_model)
        self.first = nn.Parameter(torch.zeros(1, 1, d_model))
        self.positions = nn.Parameter(torch.zeros(1, n + 1, d_model))

    def forward(self, images):
        patches = rearrange(images, "b c (h p) (w q) -> b (h w) (c p q)", p=self.p, q=self.p)
        first = self.first.expand(len(images), -1, -1)
        return torch.cat([self.project(patches), first], dim=1) + self.positions


# wrong: CLS does not learn
class ImageEmbedding(nn.Module):
    def __init__(self, height, width, channels, patch_size, d_model):
        super().__init__()
        self.p = patch_size
        n = (height // patch_size) * (width // patch_size)
        self.project = nn.Linear(channels * patch_size**2, d_model)
        self.register_buffer("first", torch.zeros(1, 1, d_model))
        self.positions = nn.Parameter(torch.zeros(1, n + 1, d_model))

    def forward(self, images):
        patches = rearrange(images, "b c (h p) (w q) -> b (h w) (c p q)", p=self.p, q=self.p)
        first = self.first.expand(len(images), -1, -1)
        return torch.cat([first, self.project(patches)], dim=1) + self.positions


# wrong: weights in a plain tensor
class ImageEmbedding(nn.Module):
    def __init__(self, height, width, channels, patch_size, d_model):
        super().__init__()
        self.p = patch_size
        n = (height // patch_size) * (width // patch_size)
        self.project = nn.Linear(channels * patch_size**2, d_model)
        self.first = torch.zeros(1, 1, d_model)
        self.positions = torch.zeros(1, n + 1, d_model)

    def forward(self, images):
        patches = rearrange(images, "b c (h p) (w q) -> b (h w) (c p q)", p=self.p, q=self.p)
        first = self.first.expand(len(images), -1, -1)
        return torch.cat([first, self.project(patches)], dim=1) + self.positions


# wrong: the package's own
class ImageEmbedding(nn.Module):
    def __new__(cls, height, width, channels, patch_size, d_model):
        from tfcourse.config import ModelConfig
        from tfcourse.embeddings import PatchEmbedding

        sizes = dict(image_height=height, image_width=width, image_channels=channels, n_heads=1)
        return PatchEmbedding(ModelConfig(**sizes, patch_size=patch_size, d_model=d_model))


# wrong: unfolds, but leaves the channels outside of the patches
class ImageEmbedding(nn.Module):
    def __init__(self, height, width, channels, patch_size, d_model):
        super().__init__()
        self.p, self.n = patch_size, (height // patch_size) * (width // patch_size)
        self.project = nn.Linear(channels * patch_size**2, d_model)
        self.first = nn.Parameter(torch.zeros(1, 1, d_model))
        self.positions = nn.Parameter(torch.zeros(1, self.n + 1, d_model))

    def forward(self, images):
        cut = images.unfold(2, self.p, self.p).unfold(3, self.p, self.p)
        x = self.project(cut.reshape(len(images), self.n, -1))
        return torch.cat([self.first.expand(len(x), -1, -1), x], dim=1) + self.positions


# wrong: a convolution as the projection
class ImageEmbedding(nn.Module):
    def __init__(self, height, width, channels, patch_size, d_model):
        super().__init__()
        n = (height // patch_size) * (width // patch_size)
        self.project = nn.Conv2d(channels, d_model, patch_size, stride=patch_size)
        self.first = nn.Parameter(torch.zeros(1, 1, d_model))
        self.positions = nn.Parameter(torch.zeros(1, n + 1, d_model))

    def forward(self, images):
        x = self.project(images).flatten(2).transpose(1, 2)
        return torch.cat([self.first.expand(len(x), -1, -1), x], dim=1) + self.positions


# wrong: positions added to the patches alone
class ImageEmbedding(nn.Module):
    def __init__(self, height, width, channels, patch_size, d_model):
        super().__init__()
        self.p = patch_size
        n = (height // patch_size) * (width // patch_size)
        self.project = nn.Linear(channels * patch_size**2, d_model)
        self.first = nn.Parameter(torch.zeros(1, 1, d_model))
        self.positions = nn.Parameter(torch.zeros(1, n + 1, d_model))

    def forward(self, images):
        patches = rearrange(images, "b c (h p) (w q) -> b (h w) (c p q)", p=self.p, q=self.p)
        x = self.project(patches) + self.positions[:, 1:]
        return torch.cat([self.first.expand(len(x), -1, -1), x], dim=1)
