"""The odd-numbered problems of KernelBench level 2 as models, rebuilt from what is known of their tails: the producer,
the shape of what it gives, and what follows. text() writes one in KernelBench's format (class Model, get_inputs,
get_init_inputs), at full size or small."""

import dataclasses
import textwrap


@dataclasses.dataclass(frozen=True)
class Problem:
    """`taken`: channels and extents of the producer's input; `given`: the shape of its output. `small` holds the same
    for tests."""

    number: int
    layer: str  # of torch.nn, with what follows the channels
    taken: tuple
    given: tuple
    parameters: dict  # shapes of the tail's own, {c}: channels of the producer's output
    modules: dict
    tail: str  # statements on x
    small_taken: tuple
    small_channels: int

    @property
    def name(self):
        return f"level2_{self.number}"


def _problem(number, layer, taken, given, tail, small=None, channels=16, **more):
    parameters = {key: value for key, value in more.items() if isinstance(value, tuple)}
    modules = {key: value for key, value in more.items() if isinstance(value, str)}
    smaller = small or (3, *[9 + i for i in range(len(taken) - 1)])
    return Problem(number, layer, taken, given, parameters, modules, textwrap.dedent(tail).strip(), smaller, channels)


_C2, _C3, _L = "Conv2d({i}, {o}, 3)", "Conv3d({i}, {o}, 3)", "Linear({i}, {o})"
_B2, _B3 = ("{o}", 1, 1), ("{o}", 1, 1, 1)

PROBLEMS = {
    problem.number: problem
    for problem in [
        _problem(1, _C2, (64, 128, 128), (128, 128, 126, 126), "x = torch.relu(x)\nx = x + self.bias", bias=_B2),
        _problem(
            5,
            "ConvTranspose2d({i}, {o}, 4, stride=2, padding=1, output_padding=1)",
            (64, 256, 256),
            (32, 64, 513, 513),
            "x = x - self.bias\nx = torch.tanh(x)",
            bias=_B2,
        ),
        _problem(
            7,
            _C3,
            (8, 32, 64, 64),
            (64, 32, 30, 62, 62),
            "x = torch.relu(x)\nx = F.leaky_relu(x, negative_slope=0.01)\nx = F.gelu(x)\nx = torch.sigmoid(x)\nx = x + self.bias",
            bias=_B3,
        ),
        _problem(9, _L, (8192,), (1024, 8192), "x = x - 2.0\nx = x * 1.5\nx = torch.relu(x)", small=(24,), channels=40),
        _problem(29, _L, (8192,), (1024, 8192), "x = F.mish(x)\nx = F.mish(x)", small=(24,), channels=40),
        _problem(
            31,
            _C2,
            (64, 128, 128),
            (128, 128, 126, 126),
            "x = torch.min(x, torch.tensor(0.5, device=x.device))\nx = x + self.bias\nx = x * 2.0",
            bias=_B2,
        ),
        _problem(47, _C3, (32, 32, 64, 64), (16, 64, 30, 62, 62), "x = F.mish(x)\nx = torch.tanh(x)"),
        _problem(
            53,
            _L,
            (8192,),
            (2048, 8192),
            "x = x * 0.5\nx = F.hardtanh(x, -2, 2)\nx = F.gelu(x)",
            small=(24,),
            channels=40,
        ),
        _problem(
            57, _C2, (8, 128, 128), (128, 64, 126, 126), "x = torch.relu(x)\nx = x * torch.clamp((x + 3) / 6, 0, 1)"
        ),
        _problem(59, _L, (32768,), (128, 32768), "x = x * torch.sigmoid(x)\nx = x * 2.0", small=(24,), channels=40),
        _problem(63, _L, (8192,), (1024, 8192), "x = torch.relu(x)\nx = x / 2.0", small=(24,), channels=40),
        _problem(69, _C2, (8, 128, 128), (128, 64, 126, 126), "x = F.hardswish(x)\nx = torch.relu(x)"),
        _problem(71, _C2, (8, 128, 128), (128, 64, 126, 126), "x = x / 2\nx = F.leaky_relu(x, negative_slope=0.01)"),
        _problem(
            81,
            _L,
            (8192,),
            (1024, 8192),
            """
        x = x * torch.sigmoid(x)
        x = x / 2.0
        x = torch.clamp(x, min=-1.0, max=1.0)
        x = torch.tanh(x)
        x = torch.clamp(x, min=-1.0, max=1.0)""",
            small=(24,),
            channels=40,
        ),
        _problem(87, _C2, (8, 256, 256), (128, 64, 254, 254), "x = x - 0.5\nx = x - 0.2\nx = F.mish(x)"),
        _problem(
            93,
            "ConvTranspose2d({i}, {o}, 4, stride=2)",
            (64, 64, 64),
            (128, 128, 130, 130),
            "x = x + 0.5\nx = torch.min(x, torch.tensor(0.0, device=x.device))\nx = F.gelu(x)\nx = x * 2.0",
        ),
        _problem(
            95,
            _L,
            (8192,),
            (1024, 8192),
            "x = x + self.add\nx = torch.sigmoid(x) * x\nx = torch.tanh(x)\nx = F.gelu(x)\nx = F.hardtanh(x, -1, 1)",
            small=(24,),
            channels=40,
            add=("{o}",),
        ),
        _problem(
            17, _C2, (64, 128, 128), (128, 128, 126, 126), "x = self.norm(x)\nx = x / 2.0", norm="InstanceNorm2d({o})"
        ),
        _problem(
            19,
            "ConvTranspose2d({i}, {o}, 3)",
            (64, 256, 256),
            (128, 64, 258, 258),
            "x = F.gelu(x)\nx = self.norm(x)",
            norm="GroupNorm(8, {o})",
        ),
        _problem(
            21,
            _C2,
            (8, 256, 256),
            (128, 32, 254, 254),
            "x = x + self.bias\nx = x * self.scale\nx = torch.sigmoid(x)\nx = self.norm(x)",
            bias=_B2,
            scale=_B2,
            norm="GroupNorm(8, {o})",
        ),
        _problem(
            23,
            _C3,
            (3, 24, 32, 32),
            (128, 24, 22, 30, 30),
            "x = self.norm(x)\nx = x.mean(dim=[1, 2, 3, 4])",
            norm="GroupNorm(8, {o})",
        ),
        _problem(
            25,
            _C2,
            (16, 256, 256),
            (128, 64, 254, 254),
            "x = torch.min(x, dim=1, keepdim=True)[0]\nx = torch.tanh(x)\nx = torch.tanh(x)",
        ),
        _problem(
            27,
            "Conv3d({i}, {o}, 4)",
            (3, 16, 32, 32),
            (1024, 16, 13, 29, 29),
            "x = F.hardswish(x)\nx = self.norm(x)\nx = torch.mean(x, dim=[2, 3, 4])",
            norm="GroupNorm(4, {o})",
        ),
        _problem(
            37,
            _L,
            (1024,),
            (32768, 4096),
            "x = torch.sigmoid(x) * x\nx = x + self.bias\nx = self.norm(x)",
            small=(24,),
            channels=128,
            bias=("{o}",),
            norm="GroupNorm(64, {o})",
        ),
        _problem(45, _L, (2048,), (16384, 1024), "x = torch.logsumexp(x, dim=1)", small=(24,), channels=40),
        _problem(
            49,
            "ConvTranspose3d({i}, {o}, 3, stride=2, padding=1, output_padding=1)",
            (32, 16, 32, 32),
            (16, 64, 32, 64, 64),
            "x = torch.softmax(x, dim=1)\nx = torch.sigmoid(x)",
        ),
        _problem(
            51,
            _L,
            (8192,),
            (2048, 8192),
            """
        x = x - self.subtract
        x = torch.mean(x, dim=1, keepdim=True)
        x = torch.logsumexp(x, dim=1, keepdim=True)
        x = F.gelu(x)""",
            small=(24,),
            channels=40,
            subtract=("{o}",),
        ),
        _problem(
            67,
            _C2,
            (8, 256, 256),
            (128, 64, 254, 254),
            "x = F.gelu(x)\nx = F.adaptive_avg_pool2d(x, 1)\nx = x.squeeze(-1).squeeze(-1)",
        ),
        _problem(
            75,
            _L,
            (8192,),
            (1024, 8192),
            "x = self.norm(x)\nx = torch.min(x, dim=1, keepdim=True)[0]",
            small=(24,),
            channels=1024,
            norm="GroupNorm({o} // 16, {o})",
        ),
        _problem(
            83,
            _C3,
            (3, 16, 64, 64),
            (128, 16, 14, 62, 62),
            "x = self.norm(x)\nx = torch.clamp(x, min=0.0, max=1.0)",
            norm="GroupNorm(8, {o})",
        ),
        _problem(
            91,
            "ConvTranspose2d({i}, {o}, 4, stride=2, padding=1, output_padding=1)",
            (64, 64, 64),
            (128, 128, 129, 129),
            "x = torch.softmax(x, dim=1)\nx = x + self.bias\nx = x * 2.0\nx = torch.sigmoid(x)",
            bias=_B2,
        ),
        _problem(99, _L, (8192,), (1024, 8192), "x = F.gelu(x)\nx = torch.softmax(x, dim=1)", small=(24,), channels=40),
        # Windows, and reductions of what reductions give.
        _problem(
            3,
            "ConvTranspose3d({i}, {o}, 3, stride=2, padding=1, output_padding=1)",
            (32, 16, 32, 32),
            (32, 64, 32, 64, 64),
            "x = x + 1.0\nx = self.norm(x)\nx = F.avg_pool3d(x, 2)\nx = F.gelu(x)",
            small=(3, 4, 5, 8),  # rows of as many elements as there are channels
            norm="LayerNorm({o})",
        ),
        _problem(
            11,
            "ConvTranspose2d({i}, {o}, 5, padding=1)",
            (64, 32, 32),
            (512, 128, 34, 34),
            "x = self.batch(x)\nx = torch.tanh(x)\nx = F.max_pool2d(x, 2)\nx = self.norm(x)",
            batch="BatchNorm2d({o})",
            norm="GroupNorm(8, {o})",
        ),
        _problem(
            13,
            "ConvTranspose3d({i}, {o}, 3, padding=1)",
            (16, 32, 128, 128),
            (16, 64, 32, 128, 128),
            "x = torch.mean(x, dim=2, keepdim=True)\nx = x + self.bias\nx = torch.softmax(x, dim=1)\nx = torch.tanh(x)\nx = x * 2.0",
            small=(3, 4, 5, 6),
            bias=_B3,
        ),
        _problem(
            35,
            _C2,
            (64, 128, 128),
            (128, 128, 126, 126),
            "x = x - 0.5\nx = F.hardswish(x)\nx = F.max_pool2d(x, 2)\nx = F.mish(x)",
        ),
        _problem(
            43,
            "Conv3d({i}, {o}, 3, padding=1)",
            (32, 32, 128, 128),
            (4, 64, 32, 128, 128),
            "x = F.max_pool3d(x, 2)\nx = torch.logsumexp(x, dim=1, keepdim=True)\nx = torch.relu(x)",
            small=(3, 4, 6, 8),
        ),
        _problem(
            55,
            _L,
            (32768,),
            (128, 32768),
            "x = F.max_pool1d(x.unsqueeze(1), 2).squeeze(1)\nx = torch.sum(x, dim=1)\nx = x * 0.5",
            small=(24,),
            channels=40,
        ),
        _problem(
            61,
            "ConvTranspose3d({i}, {o}, 3)",
            (64, 32, 32, 32),
            (16, 128, 34, 34, 34),
            "x = torch.relu(x)\nx = self.norm(x)",
            small=(3, 4, 5, 6),
            norm="GroupNorm(8, {o})",
        ),
        _problem(
            65,
            _C2,
            (8, 384, 384),
            (128, 64, 382, 382),
            "x = F.avg_pool2d(x, 4)\nx = torch.sigmoid(x)\nx = torch.sum(x, dim=(1, 2, 3))",
        ),
        _problem(
            79,
            _C3,
            (3, 16, 32, 32),
            (128, 16, 14, 30, 30),
            "x = x * self.scale\nx = self.norm(x)\nx = torch.clamp(x, -1, 1)\nx = x * self.scale\nx = torch.max(x, dim=1)[0]",
            small=(3, 4, 5, 6),
            scale=_B3,
            norm="InstanceNorm3d({o})",
        ),
        _problem(
            85,
            _C2,
            (8, 128, 128),
            (128, 64, 126, 126),
            "x = self.norm(x)\nx = x * self.scale\nx = F.max_pool2d(x, 4)\nx = torch.clamp(x, 0, 1)",
            small=(3, 12, 13),
            scale=_B2,
            norm="GroupNorm(16, {o})",
        ),
        _problem(
            89,
            "ConvTranspose3d({i}, {o}, 3, stride=2, padding=1, output_padding=1)",
            (3, 16, 32, 32),
            (128, 16, 32, 64, 64),
            "x = F.max_pool3d(x, 2)\nx = torch.softmax(x, dim=1)\nx = x - self.subtract\nx = F.silu(x)\nx = torch.max(x, dim=1)[0]",
            small=(3, 4, 5, 6),
            subtract=_B3,
        ),
        # Batch norms: of the batch's own statistics in training mode, which is how KernelBench runs its models.
        _problem(
            15,
            "ConvTranspose3d({i}, {o}, 3, stride=2, padding=1)",
            (16, 16, 32, 32),
            (16, 32, 31, 63, 63),
            "x = self.norm(x)\nx = x - torch.mean(x, dim=(2, 3, 4), keepdim=True)",
            small=(3, 4, 5, 6),
            norm="BatchNorm3d({o})",
        ),
        *(
            _problem(
                number,
                _L,
                (features,),
                (batch, features),
                "x = x * self.scale\nx = self.norm(x)",
                small=(24,),
                channels=40,
                scale=("{o}",),
                norm="BatchNorm1d({o})",
            )
            for number, batch, features in ((33, 1024, 8192), (39, 16384, 4096))
        ),
        _problem(
            41,
            _L,
            (4096,),
            (16384, 4096),
            "x = self.norm(x)\nx = F.gelu(x)\nx = torch.relu(x)",
            small=(24,),
            channels=40,
            norm="BatchNorm1d({o})",
        ),
        _problem(73, _C2, (8, 128, 128), (128, 64, 126, 126), "x = self.norm(x)\nx = x * 2.0", norm="BatchNorm2d({o})"),
        _problem(
            77,
            "ConvTranspose3d({i}, {o}, 5)",
            (64, 16, 32, 32),
            (16, 128, 20, 36, 36),
            "x = x * 2.0\nx = self.norm(x)\nx = F.adaptive_avg_pool3d(x, 1)",
            small=(3, 4, 5, 6),
            norm="BatchNorm3d({o})",
        ),
        _problem(
            97,
            _L,
            (8192,),
            (1024, 8192),
            "x = self.norm(x)\nx = x + self.bias\nx = x / 1.0\nx = F.silu(x)",
            small=(24,),
            channels=40,
            bias=(1,),
            norm="BatchNorm1d({o})",
        ),
    ]
}

_TEMPLATE = """import torch
import torch.nn as nn
import torch.nn.functional as F


class Model(nn.Module):
    def __init__(self, in_channels, out_channels):
        super().__init__()
        self.producer = nn.{layer}
{members}
    def forward(self, x):
        x = self.producer(x)
{tail}
        return x


def get_inputs():
    return [torch.rand({shape})]


def get_init_inputs():
    return [{channels}, {out}]
"""


def text(number, small=False):
    """The problem as a file of KernelBench. Small: a batch of 2 (4 for linear layers), few channels, extents of about
    ten."""
    problem = PROBLEMS[number]
    linear = len(problem.taken) == 1
    taken = problem.small_taken if small else problem.taken
    out = problem.small_channels if small else problem.given[1]
    batch = (4 if linear else 2) if small else problem.given[0]
    if small and "GroupNorm(8" in "".join(problem.modules.values()):
        out = 16
    names = {"i": "in_channels", "o": "out_channels"}
    members = [
        f"        self.{name} = nn.Parameter(torch.randn({', '.join(str(one) for one in shape)}))".format(**names)
        for name, shape in problem.parameters.items()
    ]
    members += [f"        self.{name} = nn.{module}".format(**names) for name, module in problem.modules.items()]
    return _TEMPLATE.format(
        layer=problem.layer.format(**names),
        members="\n".join(members) + ("\n" if members else ""),
        tail=textwrap.indent(problem.tail, " " * 8),
        shape=", ".join(map(str, (batch, *taken))),
        channels=taken[0],
        out=out,
    )
