"""Problems 19 to 53 of KernelBench level 1 as models, rebuilt from what is known of them: activations, norms, pools and
reductions, an operation each. text() writes one in KernelBench's format, at full size or small. Used by kernelbench.py."""

import dataclasses

ROWS, IMAGES, MATRICES = (4096, 393216), (112, 64, 512, 512), (128, 4096, 4095)
SMALL = {2: (5, 37), 3: (3, 6, 50), 4: (3, 8, 13, 12), 5: (2, 3, 12, 10, 11)}  # by rank


@dataclasses.dataclass(frozen=True)
class Problem:
    """`result`: an expression of x. `module`: of torch.nn, which it calls as self.layer; {c}: the channels of x."""

    number: int
    name: str
    result: str
    shape: tuple
    module: str = ""
    small: tuple = ()

    @property
    def small_shape(self):
        return self.small or SMALL[len(self.shape)]


def _of_module(number, name, module, shape, small=()):
    return Problem(number, name, "self.layer(x)", shape, module, small)


PROBLEMS = {
    problem.number: problem
    for problem in [
        Problem(19, "relu", "torch.relu(x)", ROWS),
        Problem(20, "leaky_relu", "F.leaky_relu(x, negative_slope=0.01)", ROWS),
        Problem(21, "sigmoid", "torch.sigmoid(x)", ROWS),
        Problem(22, "tanh", "torch.tanh(x)", ROWS),
        Problem(23, "softmax", "torch.softmax(x, dim=1)", ROWS),
        Problem(24, "log_softmax", "torch.log_softmax(x, dim=1)", ROWS),
        Problem(25, "swish", "x * torch.sigmoid(x)", ROWS),
        Problem(26, "gelu", "F.gelu(x)", ROWS),
        Problem(27, "selu", "torch.selu(x)", ROWS),
        Problem(28, "hardsigmoid", "F.hardsigmoid(x)", ROWS),
        Problem(29, "softplus", "F.softplus(x)", ROWS),
        Problem(30, "softsign", "x / (1 + torch.abs(x))", ROWS),
        Problem(31, "elu", "F.elu(x, alpha=1.0)", ROWS),
        Problem(32, "hardtanh", "F.hardtanh(x, min_val=-1.0, max_val=1.0)", ROWS),
        _of_module(33, "batch_norm", "BatchNorm2d({c})", (64, 64, 512, 512)),
        _of_module(34, "instance_norm", "InstanceNorm2d({c})", IMAGES),
        _of_module(35, "group_norm", "GroupNorm(num_groups=8, num_channels={c})", IMAGES, (3, 16, 13, 12)),
        Problem(36, "rms_norm", "x / torch.sqrt(torch.mean(x**2, dim=1, keepdim=True) + 1e-5)", IMAGES),
        Problem(37, "frobenius_norm", "x / torch.norm(x, p='fro')", IMAGES),
        Problem(38, "l1_norm", "x / torch.mean(torch.abs(x), dim=1, keepdim=True)", (32768, 65535)),
        Problem(39, "l2_norm", "x / torch.norm(x, p=2, dim=1, keepdim=True)", (32768, 65535)),
        _of_module(40, "layer_norm", "LayerNorm({row})", (16, 64, 256, 256)),
        _of_module(41, "max_pool1d", "MaxPool1d(8, stride=1, padding=4, dilation=3)", (64, 192, 65536)),
        _of_module(42, "max_pool2d", "MaxPool2d(4, stride=1, padding=1, dilation=1)", (32, 64, 512, 512)),
        _of_module(43, "max_pool3d", "MaxPool3d(3, stride=2, padding=1, dilation=3)", (16, 32, 128, 128, 128)),
        _of_module(44, "avg_pool1d", "AvgPool1d(8, stride=1, padding=4)", (64, 128, 65536)),
        _of_module(45, "avg_pool2d", "AvgPool2d(11)", (16, 64, 2048, 2048), (3, 4, 25, 23)),
        _of_module(46, "avg_pool3d", "AvgPool3d(3, stride=2, padding=1)", (16, 32, 128, 128, 256)),
        Problem(47, "sum", "torch.sum(x, dim=1, keepdim=True)", MATRICES),
        Problem(48, "mean", "torch.mean(x, dim=1)", MATRICES),
        Problem(49, "max", "torch.max(x, dim=1)[0]", MATRICES),
        _of_module(50, "conv2d", "Conv2d({c}, 96, 11, stride=4, padding=2)", (256, 3, 224, 224), (2, 3, 30, 30)),
        Problem(51, "argmax", "torch.argmax(x, dim=1)", MATRICES),
        Problem(52, "argmin", "torch.argmin(x, dim=1)", MATRICES),
        Problem(53, "min", "torch.min(x, dim=1)[0]", MATRICES),
    ]
}

_TEMPLATE = """import torch
import torch.nn as nn
import torch.nn.functional as F


class Model(nn.Module):
    def __init__(self):
        super().__init__()
{members}
    def forward(self, x):
        return {result}


def get_inputs():
    return [torch.rand({shape})]


def get_init_inputs():
    return []
"""


def text(number, small=False):
    """The problem as a file of KernelBench. Small: a few thousand elements."""
    problem = PROBLEMS[number]
    shape = problem.small_shape if small else problem.shape
    module = problem.module.format(c=shape[1], row=list(shape[1:]))
    members = f"        self.layer = nn.{module}\n" if module else ""
    return _TEMPLATE.format(members=members, result=problem.result, shape=", ".join(map(str, shape)))
