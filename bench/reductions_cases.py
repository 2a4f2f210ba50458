"""The cases of bench/reductions.py: chains with reductions, and what a user of PyTorch writes for them. PyTorch is
needed from use() on."""
import dataclasses
import math
import typing

torch = F = None  # set by use(): the list of cases can be read where there is no PyTorch


def use(module):
    global torch, F
    torch, F = module, module.nn.functional


@dataclasses.dataclass(frozen=True)
class Operand:
    shape: tuple
    dtype: str = "same"  # as x
    fill: str = "normal"  # normal, mask (4 of 5 are true), or a number for all elements


def operand(text):
    """16x1x8 as a shape, () for a scalar tensor."""
    return Operand(tuple(int(extent) for extent in text.split("x") if extent))


@dataclasses.dataclass(frozen=True)
class Case:
    name: str
    group: str
    text: str  # for EpiFuse
    inputs: dict  # name -> Operand, in the order of function's arguments
    function: typing.Callable  # for PyTorch: a model's tail as people write it
    reference: typing.Callable = None  # in high precision; None: function
    results: tuple = ("same",)  # types
    scalars: tuple = ()
    dtypes: tuple = ("f32", "f16", "bf16")
    layout: str = "contiguous"  # or, of four dimensions: channels_last for all, or turned, for operands alone
    limit: str = "copy"  # a key of LIMITS
    target: float = 1.10  # issue 3's bound on time / limit
    published: dict = None  # name -> bytes per second of others, on an H100

    def __post_init__(self):
        # Keyword arguments of a frozen class cannot be computed from one another.
        if self.reference is None:
            object.__setattr__(self, "reference", self.function)


# What a chain cannot be faster than, in times of a copy of the same bytes (half of them read, half written): that copy,
# also where only reading counts; two reads and a write.
LIMITS = {"copy": 1.0, "read": 1.0, "twice": 1.5}


def inputs(text):
    """x=16x1024 bias=1024"""
    return {name: operand(shape) for name, _, shape in (item.partition("=") for item in text.split())}


# ---- tails of KernelBench level 2 that hold a reduction: id, operands, chain, PyTorch, keeps the full shape

LEVEL2 = [
    (17, "x=128x128x126x126", "instance_norm(x) / 2", lambda x: F.instance_norm(x) / 2.0, True),
    (19, "x=128x64x258x258 gamma=64 beta=64", "group_norm(gelu(x), 8, gamma, beta)",
     lambda x, gamma, beta: F.group_norm(F.gelu(x), 8, gamma, beta), True),
    (21, "x=128x32x254x254 bias=32x1x1 scale=32x1x1 gamma=32 beta=32",
     "group_norm(sigmoid((x + bias) * scale), 8, gamma, beta)",
     lambda x, bias, scale, gamma, beta: F.group_norm(torch.sigmoid((x + bias) * scale), 8, gamma, beta), True),
    (23, "x=128x24x22x30x30 gamma=24 beta=24", "mean(group_norm(x, 8, gamma, beta), axis=(1,2,3,4))",
     lambda x, gamma, beta: F.group_norm(x, 8, gamma, beta).mean(dim=(1, 2, 3, 4)), False),
    (25, "x=128x64x254x254", "tanh(tanh(amin(x, axis=1, keepdim=true)))",
     lambda x: torch.tanh(torch.tanh(torch.amin(x, dim=1, keepdim=True))), False),
    (27, "x=1024x16x13x29x29 gamma=16 beta=16", "mean(group_norm(hardswish(x), 4, gamma, beta), axis=(2,3,4))",
     lambda x, gamma, beta: F.group_norm(F.hardswish(x), 4, gamma, beta).mean(dim=(2, 3, 4)), False),
    (37, "x=32768x4096 bias=4096 gamma=4096 beta=4096", "group_norm(sigmoid(x) * x + bias, 64, gamma, beta)",
     lambda x, bias, gamma, beta: F.group_norm(torch.sigmoid(x) * x + bias, 64, gamma, beta), True),
    (45, "x=16384x1024", "logsumexp(x, axis=1)", lambda x: torch.logsumexp(x, dim=1), False),
    (49, "x=16x64x32x64x64", "sigmoid(softmax(x, axis=1))", lambda x: torch.sigmoid(torch.softmax(x, dim=1)), True),
    (51, "x=2048x8192 subtract=8192",
     "gelu(logsumexp(mean(x - subtract, axis=1, keepdim=true), axis=1, keepdim=true))",
     lambda x, subtract: F.gelu(torch.logsumexp(torch.mean(x - subtract, dim=1, keepdim=True), dim=1, keepdim=True)),
     False),
    (67, "x=128x64x254x254", "mean(gelu(x), axis=(2,3))", lambda x: F.gelu(x).mean(dim=(2, 3)), False),
    (75, "x=1024x8192 gamma=8192 beta=8192", "amin(group_norm(x, 512, gamma, beta), axis=1, keepdim=true)",
     lambda x, gamma, beta: torch.amin(F.group_norm(x, 512, gamma, beta), dim=1, keepdim=True), False),
    (83, "x=128x16x14x62x62 gamma=16 beta=16", "clamp(group_norm(x, 8, gamma, beta), 0, 1)",
     lambda x, gamma, beta: torch.clamp(F.group_norm(x, 8, gamma, beta), 0, 1), True),
    (91, "x=128x128x129x129 bias=128x1x1", "sigmoid((softmax(x, axis=1) + bias) * 2)",
     lambda x, bias: torch.sigmoid((torch.softmax(x, dim=1) + bias) * 2.0), True),
    (99, "x=1024x8192", "softmax(gelu(x), axis=1)", lambda x: torch.softmax(F.gelu(x), dim=1), True),
]


def level2():
    return [
        Case(f"level2 {id}", "KernelBench level 2", text, inputs(operands), function, limit="copy" if full else "read")
        for id, operands, text, function, full in LEVEL2
    ]


# The same where a convolution that runs in channels-last order comes before, and what follows wants rows.
def turned():
    convolutions = (17, 19, 21, 67, 91)
    return [dataclasses.replace(case, name=f"{case.name} NHWC", group="NHWC to NCHW", layout="turned")
            for case, row in zip(level2(), LEVEL2) if row[0] in convolutions] + [
        Case("group_norm turned", "NHWC to NCHW", "group_norm(x, 32, weight, bias)",
             inputs("x=32x320x64x64 weight=320 bias=320"),
             lambda x, weight, bias: F.group_norm(x, 32, weight, bias), layout="turned")]


# The same behind a convolution's bias, as a model has them: PyTorch's compilers take it out of the convolution.
def biased():
    cases = [
        (17, "x=128x128x126x126 b=128x1x1", "instance_norm(x + b) / 2", lambda x, b: F.instance_norm(x + b) / 2.0),
        (49, "x=16x64x32x64x64 b=64x1x1x1", "sigmoid(softmax(x + b, axis=1))",
         lambda x, b: torch.sigmoid(torch.softmax(x + b, dim=1))),
        (91, "x=128x128x129x129 b=128x1x1 bias=128x1x1", "sigmoid((softmax(x + b, axis=1) + bias) * 2)",
         lambda x, b, bias: torch.sigmoid((torch.softmax(x + b, dim=1) + bias) * 2.0)),
    ]
    made = [Case(f"level2 {id} biased", "behind a bias", text, inputs(operands), function)
            for id, operands, text, function in cases]
    return made + [dataclasses.replace(made[-1], name="level2 91 biased NHWC", layout="turned")]


# ---- rows of matrices

def softmax(shape, **more):
    return Case(f"softmax {shape}", "rows", "softmax(x, axis=-1)", inputs(f"x={shape}"),
                lambda x: torch.softmax(x, dim=-1), **more)


def rows():
    cases = [
        softmax("4096x131072"),
        softmax("16384x131072", dtypes=("f32",), published={"QuACK": 3.01e12}),
        softmax("8192x257"),
        softmax("65536x64"),
        Case("log_softmax 8192x50257", "rows", "log_softmax(x, axis=-1)", inputs("x=8192x50257"),
             lambda x: torch.log_softmax(x, dim=-1)),
    ]
    for shape in ("32768x1024", "8192x4096", "4096x16384", "2048x65536"):
        n = int(shape.split("x")[1])
        cases += [
            Case(f"layer_norm {shape}", "rows", "layer_norm(x, weight, bias)", inputs(f"x={shape} weight={n} bias={n}"),
                 lambda x, weight, bias: F.layer_norm(x, x.shape[-1:], weight, bias)),
            Case(f"rms_norm {shape}", "rows", "rms_norm(x, weight, eps=1e-6)", inputs(f"x={shape} weight={n}"),
                 lambda x, weight: F.rms_norm(x, x.shape[-1:], weight, eps=1e-6)),
        ]
    return cases


# ---- results of the reduced shape alone: what counts is the time to read

def reduced():
    wide = "x=16384x8192"
    tall = "x=65536x4096"
    return [
        Case("mean 16384x8192", "reduced", "mean(x, axis=-1)", inputs(wide), lambda x: x.mean(dim=-1), limit="read"),
        Case("logsumexp 16384x8192", "reduced", "logsumexp(x, axis=-1)", inputs(wide),
             lambda x: torch.logsumexp(x, dim=-1), limit="read"),
        Case("amin 16384x8192", "reduced", "amin(x, axis=-1)", inputs(wide), lambda x: torch.amin(x, dim=-1),
             limit="read"),
        Case("column mean 65536x4096", "reduced", "mean(x, axis=0)", inputs(tall), lambda x: x.mean(dim=0),
             limit="read"),
    ]


# ---- segments of rows: one value per channel behind a norm of several channels

def parts():
    def case(shape, groups):
        channels = shape.split("x")[1]
        return Case(f"parts {shape}", "parts", f"mean(relu(group_norm(x, {groups}, gamma, beta)), axis=(2,3))",
                    inputs(f"x={shape} gamma={channels} beta={channels}"),
                    lambda x, gamma, beta: F.relu(F.group_norm(x, groups, gamma, beta)).mean(dim=(2, 3)), limit="read")
    # In registers, of lanes and of a block; in the shared memory of a cluster; rows that nobody holds.
    return [case("2048x512x7x7", 32), case("256x512x28x28", 32), case("256x64x112x112", 8), case("128x64x256x256", 8)]


# ---- few rows, rows that fit nowhere, rows of outer reductions

def hard():
    return [
        Case("group_norm + silu, batch 1", "few rows", "silu(group_norm(x, 32, weight, bias))",
             inputs("x=1x512x360x640 weight=512 bias=512"),
             lambda x, weight, bias: F.silu(F.group_norm(x, 32, weight, bias)), target=1.25),
        dataclasses.replace(softmax("8x33554432", dtypes=("f32",), limit="twice", target=1.05),
                            group="row fits nowhere"),
        Case("group_norm NHWC", "channels last", "group_norm(x, 32, weight, bias)",
             inputs("x=32x256x64x64 weight=256 bias=256"),
             lambda x, weight, bias: F.group_norm(x, 32, weight, bias), layout="channels_last"),
        Case("softmax over channels NHWC", "channels last", "softmax(x, axis=1)", inputs("x=32x256x64x64"),
             lambda x: torch.softmax(x, dim=1), layout="channels_last"),
    ]


# ---- tails of language models

FP8_MAX = 448.0


def quantised(x, residual, weight, scale):
    h = x + residual
    y = F.rms_norm(h, h.shape[-1:], weight, eps=1e-6)
    # EpiFuse's cast saturates; PyTorch's needs the clamp.
    return h, torch.clamp(y * scale, -FP8_MAX, FP8_MAX).to(torch.float8_e4m3fn), y.abs().amax().float()


def quantised_reference(x, residual, weight, scale):
    h = x + residual
    y = F.rms_norm(h, h.shape[-1:], weight, eps=1e-6)
    return h, torch.clamp(y * scale, -FP8_MAX, FP8_MAX), y.abs().amax()


MASK_SCALE = 0.125


def masked_softmax(x, mask):
    return torch.softmax(torch.where(mask, x * MASK_SCALE, -math.inf), dim=-1)


def models():
    matrix = (16384, 8192)
    scores = (16, 12, 1024, 1024)
    return [
        Case("residual + rms_norm + fp8", "models",
             "h = x + residual; y = rms_norm(h, weight, eps=1e-6); return h, cast(y * scale, f8e4m3), amax(abs(y))",
             {"x": Operand(matrix), "residual": Operand(matrix), "weight": Operand(matrix[1:]),
              "scale": Operand((), "f32", "32")}, quantised, quantised_reference,
             results=("same", "f8e4m3", "f32")),
        Case("masked softmax", "models", "scalar scale; softmax(where(mask, x * scale, -inf), axis=-1)",
             {"x": Operand(scores), "mask": Operand((16, 1, 1024, 1024), "bool", "mask")}, masked_softmax,
             scalars=(MASK_SCALE,)),
    ]


# What has bounds to keep first, in case that a run ends with its time.
ALL = level2() + rows() + hard() + reduced() + models() + biased() + turned() + parts()
