"""Small models that test_training.py trains: a transformer block and a ResNet."""

import torch
import torch.nn as nn
import torch.nn.functional as F


class Transformer(nn.Module):
    """A block of a transformer between an embedding and a head."""

    def __init__(self, width=32, heads=4, words=11, dropout=0.0):
        super().__init__()
        self.heads, self.dropout = heads, dropout
        self.embedding = nn.Embedding(words, width)
        self.first, self.second, self.last = (nn.LayerNorm(width) for _ in range(3))
        self.attention, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.up, self.down, self.head = nn.Linear(width, 4 * width), nn.Linear(4 * width, width), nn.Linear(width, words)

    def block(self, x):
        batch, length, width = x.shape
        shape = batch, length, 3, self.heads, width // self.heads
        q, k, v = self.attention(self.first(x)).view(shape).permute(2, 0, 3, 1, 4)
        weights = torch.softmax(q @ k.transpose(-1, -2) * (width // self.heads) ** -0.5, -1)
        x = x + self.out((weights @ v).transpose(1, 2).reshape(batch, length, width))
        return x + F.dropout(self.down(F.gelu(self.up(self.second(x)))), self.dropout)

    def forward(self, tokens):
        return self.head(self.last(self.block(self.embedding(tokens)))).flatten(0, 1)

    @staticmethod
    def data(seed, batch=4):
        """Each word follows from the one before it."""
        tokens = torch.randint(0, 11, (batch, 8), generator=torch.Generator().manual_seed(seed))
        return tokens, ((3 * tokens + 1) % 11).flatten()


class Residual(nn.Module):
    def __init__(self, channels, made, stride, activation):
        super().__init__()
        self.activation = activation
        self.first = nn.Conv2d(channels, made, 3, stride, 1, bias=False)
        self.second = nn.Conv2d(made, made, 3, 1, 1, bias=False)
        self.norms = nn.ModuleList([nn.BatchNorm2d(made), nn.BatchNorm2d(made)])
        self.short = nn.Identity() if stride == 1 else nn.Conv2d(channels, made, 1, stride)

    def forward(self, x):
        y = self.activation(self.norms[0](self.first(x)))
        return self.activation(self.norms[1](self.second(y)) + self.short(x))


class ResNet(nn.Module):
    def __init__(self, activation=F.relu):
        super().__init__()
        self.activation = activation
        self.stem, self.norm = nn.Conv2d(3, 8, 3, 1, 1), nn.BatchNorm2d(8)
        self.blocks = nn.Sequential(Residual(8, 8, 1, activation), Residual(8, 16, 2, activation))
        self.head = nn.Linear(16, 4)

    def forward(self, x):
        return self.head(self.blocks(self.activation(self.norm(self.stem(x)))).mean((2, 3)))

    @staticmethod
    def data(seed, batch=8):
        generator = torch.Generator().manual_seed(seed)
        labels = torch.randint(0, 4, (batch,), generator=generator)
        return torch.randn(batch, 3, 8, 8, generator=generator) + labels.view(-1, 1, 1, 1) / 2, labels
