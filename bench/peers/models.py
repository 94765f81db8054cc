"""The models of `paceline train` in PyTorch, layer by layer as paceline makes them, and batches of the form each takes."""

import math

import torch
from torch import nn

CLASSES = 10
CHARACTERS = 65
LENGTH = 64  # of a window of text
POOL = 8192  # images, in turn
TEXT_POOL = 512  # windows of text


def mlp(sizes):
    width, layers = map(int, sizes.split("x"))
    widths = [28 * 28] + [width] * layers
    hidden = [layer for pair in zip(widths, widths[1:]) for layer in (nn.Linear(*pair), nn.ReLU())]
    return nn.Sequential(nn.Flatten(), *hidden, nn.Linear(width, CLASSES))


def cnn(_):
    convolutions = [nn.Conv2d(1, 32, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2)]
    convolutions += [nn.Conv2d(32, 64, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2)]
    return nn.Sequential(*convolutions, nn.Flatten(), nn.Linear(64 * 7 * 7, 256), nn.ReLU(), nn.Linear(256, CLASSES))


class BasicBlock(nn.Module):
    def __init__(self, inputs, outputs, stride):
        super().__init__()
        self.conv1 = nn.Conv2d(inputs, outputs, 3, stride=stride, padding=1, bias=False)
        self.bn1 = nn.BatchNorm2d(outputs)
        self.conv2 = nn.Conv2d(outputs, outputs, 3, padding=1, bias=False)
        self.bn2 = nn.BatchNorm2d(outputs)
        same = stride == 1 and inputs == outputs
        shortcut = [nn.Conv2d(inputs, outputs, 1, stride=stride, bias=False), nn.BatchNorm2d(outputs)]
        self.downsample = nn.Identity() if same else nn.Sequential(*shortcut)

    def forward(self, x):
        inner = torch.relu(self.bn1(self.conv1(x)))
        return torch.relu(self.bn2(self.conv2(inner)) + self.downsample(x))


def resnet18(_):
    """He et al. 2016, with the stem for images of 32x32."""
    layers = [nn.Conv2d(3, 64, 3, padding=1, bias=False), nn.BatchNorm2d(64), nn.ReLU()]
    width = 64
    for outputs, stride in ((64, 1), (128, 2), (256, 2), (512, 2)):
        layers += [BasicBlock(width, outputs, stride), BasicBlock(outputs, outputs, 1)]
        width = outputs
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(512, CLASSES))


class Block(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.projection = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.mlp = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width))
        mask = torch.full((LENGTH, LENGTH), float("-inf")).triu(1)
        self.register_buffer("mask", mask, persistent=False)

    def attention(self, x):
        batch, length, width = x.shape
        parts = self.qkv(x).view(batch, length, 3, self.heads, width // self.heads).permute(2, 0, 3, 1, 4)
        query, key, value = parts.reshape(3, batch * self.heads, length, -1)
        scores = torch.baddbmm(self.mask, query, key.transpose(1, 2), alpha=1 / math.sqrt(width // self.heads))
        mixed = torch.bmm(torch.softmax(scores, -1), value).view(batch, self.heads, length, -1)
        return self.projection(mixed.transpose(1, 2).reshape(batch, length, width))

    def forward(self, x):
        x = x + self.attention(self.norm1(x))
        return x + self.mlp(self.norm2(x))


class Transformer(nn.Module):
    def __init__(self, layers, width, heads):
        super().__init__()
        self.characters, self.positions = nn.Embedding(CHARACTERS, width), nn.Embedding(LENGTH, width)
        self.blocks = nn.Sequential(*(Block(width, heads) for _ in range(layers)))
        self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, CHARACTERS, bias=False)

    def forward(self, x):
        x = self.characters(x) + self.positions(torch.arange(x.shape[1]))
        return self.head(self.norm(self.blocks(x)))


def transformer(sizes):
    return Transformer(*map(int, sizes.split(",")))


def images(channels, side):
    """As paceline's `synthetic`: a pattern per class under noise, normalised."""
    labels = torch.randint(CLASSES, (POOL,))
    pictures = torch.rand(CLASSES, channels, side, side)[labels] + torch.rand(len(labels), channels, side, side)
    return (pictures - pictures.mean()) / pictures.std(), labels


def text():
    characters = torch.randint(CHARACTERS, (TEXT_POOL, LENGTH + 1))
    return characters[:, :-1].contiguous(), characters[:, 1:].contiguous()


FAMILIES = {
    "mlp": (mlp, lambda: images(1, 28)),
    "cnn": (cnn, lambda: images(1, 28)),
    "resnet18": (resnet18, lambda: images(3, 32)),
    "transformer": (transformer, text),
}


def make_model(name):
    family, _, sizes = name.partition(":")
    return FAMILIES[family][0](sizes)


def make_batches(name, size, seed):
    torch.manual_seed(seed)
    inputs, answers = FAMILIES[name.partition(":")[0]][1]()
    return [pair for pair in zip(inputs.split(size), answers.split(size)) if len(pair[1]) == size]


def loss_of(outputs, answers):
    return nn.functional.cross_entropy(outputs.reshape(-1, outputs.shape[-1]), answers.reshape(-1))
