"""The cases of bench/pointwise.py: chains without reductions, the memory that their operands are, and producers in front of them.
Needs no PyTorch: what the peers run is made of a case's text (chains.py)."""
import dataclasses

import views
from views import Layout

ITEM_BYTES = {"f32": 4, "f16": 2, "bf16": 2, "f8e4m3": 1, "f8e8m0": 1, "i8": 1, "u8": 1, "i32": 4, "bool": 1, "f4e2m1": 0.5, "i4": 0.5}


@dataclasses.dataclass(frozen=True)
class Operand:
    dtype: str
    layout: Layout
    fill: str = "normal"  # or a number for all elements


@dataclasses.dataclass(frozen=True)
class Producer:
    """What writes x: a GEMM x = a · b, or a convolution x of `a` with the filters `b`. Both have x's type."""
    kind: str  # matmul, conv2d
    a: tuple
    b: tuple


@dataclasses.dataclass(frozen=True)
class Case:
    name: str
    group: str
    text: str
    types: str  # a key of TYPES, for people and --dtypes
    operands: dict  # name -> Operand; x, the largest one, first
    result: Operand
    view: bool = False  # a view with gaps, or one that is read across its memory
    producer: Producer = None

    def tensors(self):
        return [*self.operands.values(), self.result]

    def largest_bytes(self):
        return max(tensor.layout.bytes() for tensor in self.tensors())

    def traffic(self):
        """Bytes that its operands' sectors cost, read or written once."""
        return sum(tensor.layout.traffic() for tensor in self.tensors())

    def bytes(self):
        return sum(tensor.layout.bytes() for tensor in self.tensors())


@dataclasses.dataclass(frozen=True)
class Types:
    """Of x and what is as large, of vectors, of the result."""
    x: str
    vector: str
    result: str


TYPES = {"f32": Types("f32", "f32", "f32"), "f16": Types("f16", "f16", "f16"), "bf16": Types("bf16", "bf16", "bf16"),
         "f8e4m3": Types("f8e4m3", "f32", "f8e4m3"), "i8": Types("i8", "f32", "i8"),
         "f32→f16": Types("f32", "f32", "f16"), "bf16→f8e4m3": Types("bf16", "bf16", "f8e4m3"),
         "i32→i8": Types("i32", "f32", "i8")}

FLOATS = ("f32", "f16")
ALL_TYPES = tuple(TYPES)
MIB = 2**20

# Scales that bring random integers into the range of i8.
SCALES = {"i8": "0.5", "i32": "0.003"}


def shape_of(text):
    return tuple(int(extent) for extent in text.split("x"))


def case(name, group, text, operands, types, layout=views.dense, of_x=None, **more):
    """One case per type. `operands`: "x=128x64x56x56 bias=64x1x1"; `layout` gives the strides of tensors of x's shape, unless `of_x`
    (strides, offset) says where x alone lies."""
    shapes = {item.partition("=")[0]: shape_of(item.partition("=")[2]) for item in operands.split()}
    result_shape = shapes["x"]
    made = []
    for label in types:
        kinds = TYPES[label]

        def operand(shape, dtype, key="", kinds=kinds):
            strides, offset = layout(shape) if shape == result_shape else views.dense(shape), 0
            if key == "x" and of_x:
                strides, offset = of_x
            fill = SCALES.get(kinds.x, "normal") if key == "scale" else "normal"
            return Operand(dtype, Layout(shape, strides, ITEM_BYTES[dtype], offset), fill)

        own = {key: operand(shape, kinds.x if shape == result_shape else kinds.vector, key)
               for key, shape in shapes.items()}
        made.append(Case(name, group, text, label, own, operand(result_shape, kinds.result), **more))
    return made


# ---- tails of KernelBench level 2 that hold no reduction: id, operands, chain

LEVEL2 = [
    (1, "x=128x128x126x126 bias=128x1x1", "relu(x) + bias"),
    (5, "x=32x64x513x513 bias=64x1x1", "tanh(x - bias)"),
    (7, "x=64x32x30x62x62 bias=32x1x1x1", "sigmoid(gelu(leaky_relu(relu(x), 0.01))) + bias"),
    (9, "x=1024x8192", "relu((x - 2) * 1.5)"),
    (29, "x=1024x8192", "mish(mish(x))"),
    (31, "x=128x128x126x126 bias=128x1x1", "(minimum(x, 0.5) + bias) * 2"),
    (47, "x=16x64x30x62x62", "tanh(mish(x))"),
    (53, "x=2048x8192", "gelu(hardtanh(x * 0.5, -2, 2))"),
    (57, "x=128x64x126x126", "r = relu(x); r * clamp((r + 3) / 6, 0, 1)"),
    (59, "x=128x32768", "x * sigmoid(x) * 2"),
    (63, "x=1024x8192", "relu(x) / 2"),
    (69, "x=128x64x126x126", "relu(hardswish(x))"),
    (71, "x=128x64x126x126", "leaky_relu(x / 2, 0.01)"),
    (81, "x=1024x8192", "clamp(tanh(clamp(silu(x) / 2, -1, 1)), -1, 1)"),
    (87, "x=128x64x254x254", "mish(x - 0.5 - 0.2)"),
    (93, "x=128x128x130x130", "gelu(minimum(x + 0.5, 0)) * 2"),
    (95, "x=1024x8192 add=8192", "hardtanh(gelu(tanh(silu(x + add))), -1, 1)"),
]


def level2():
    return [made for id, operands, text in LEVEL2
            for made in case(f"level2 {id}", "KernelBench level 2", text, operands, FLOATS)]


def examples():
    """The tails of six layers that convolutions and GEMMs end in, at their examples' sizes."""
    group = "examples"
    return [
        *case("1 conv relu bias NCHW", group, "relu(x) + bias", "x=128x128x128x128 bias=128x1x1", FLOATS),
        *case("1 conv relu bias NHWC", group, "relu(x) + bias", "x=128x128x128x128 bias=128x1x1", FLOATS,
              views.channels_last),
        *case("2 linear bias relu", group, "relu(x + bias)", "x=1024x8192 bias=8192", FLOATS),
        *case("3 conv bias scale sigmoid", group, "sigmoid((x + bias) * scale)",
              "x=128x32x254x254 bias=32x1x1 scale=32x1x1", FLOATS),
        *case("4 conv min bias scale", group, "(minimum(x, 0.5) + bias) * 2", "x=128x128x126x126 bias=128x1x1", FLOATS),
        *case("5 linear swish bias", group, "x * sigmoid(x) + bias", "x=32768x4096 bias=4096", FLOATS),
        *case("6 int8 requantise", group, "relu(x * scale + bias)", "x=8192x4096 scale=4096 bias=4096", ("i32→i8",)),
    ]


# ---- chains whose arithmetic is the limit of others, on tensors of 64 MB and more in every type

ARITHMETIC = [
    ("mish(mish(x))", "x=8192x8192"),
    ("tanh(x - bias)", "x=8192x8192 bias=8192"),
    ("tanh(mish(x))", "x=8192x8192"),
    ("gelu(x + bias)", "x=8192x8192 bias=8192"),
    ("sigmoid(gelu(leaky_relu(relu(x), 0.01))) + bias", "x=8192x8192 bias=8192"),
    ("hardtanh(gelu(tanh(silu(x + add))), -1, 1)", "x=8192x8192 add=8192"),
]


def arithmetic():
    return [made for text, operands in ARITHMETIC
            for made in case(text, "arithmetic", text, operands, ("f32", "f16", "bf16", "f8e4m3"))]


def types():
    shape = "x=8192x8192 scale=8192 bias=8192"
    return [
        *case("relu, scale, bias", "types", "relu(x * scale + bias)", shape, ALL_TYPES),
        *case("gelu, scale, bias", "types", "gelu(x * scale + bias)", shape, ALL_TYPES),
    ]


# ---- layouts


def layouts():
    group, text, kinds = "layouts", "relu(x + bias)", ("f32", "f16", "f8e4m3")
    matrix, leading = (8192, 8192), 8200
    return [
        *case("row-major, odd rows", group, text, "x=8192x8191 bias=8191", kinds),
        *case("column-major", group, text, "x=8192x8192 bias=8192x1", kinds, lambda shape: views.column_major(shape, shape[0])),
        *case("column-major, leading dimension 8200", group, text, "x=8192x8192 bias=8192x1", kinds,
              lambda shape: views.column_major(shape, leading) if shape == matrix else views.dense(shape)),
        *case("NCHW, even H·W", group, text, "x=128x128x56x56 bias=128x1x1", kinds),
        *case("NCHW, odd H·W", group, text, "x=128x128x57x57 bias=128x1x1", kinds),
        *case("NCHW, prime H·W", group, text, "x=128x128x1x3137 bias=128x1x1", kinds),
        *case("NHWC", group, text, "x=128x128x56x56 bias=128x1x1", kinds, views.channels_last),
        *case("NHWC, odd channels", group, text, "x=128x127x56x56 bias=127x1x1", kinds, views.channels_last),
    ]


def sliced():
    """Views whose elements lie apart; the result is dense. Strides and offsets in elements of the whole tensor."""
    group, text = "views", "relu(x + bias)"
    shape = "x=8192x4096 bias=4096"
    side, planes = 58, 58 * 58
    return [
        *case("columns 64…4159 of 8192", group, text, shape, FLOATS, of_x=((8192, 1), 64), view=True),
        *case("columns 1…4096 of 8192", group, text, shape, FLOATS, of_x=((8192, 1), 1), view=True),
        *case("every second column", group, text, shape, FLOATS, of_x=((8192, 2), 0), view=True),
        *case("every second row", group, text, "x=4096x8192 bias=8192", FLOATS, of_x=((16384, 1), 0), view=True),
        *case("interior of 58×58 images", group, text, "x=128x128x56x56 bias=128x1x1", FLOATS,
              of_x=((128 * planes, planes, side, 1), side + 1), view=True),
        *case("transposed", group, text, "x=8192x8192 bias=8192", FLOATS, of_x=((1, 8192), 0), view=True),
    ]


# ---- channels-last producers' tails with row-major results

CROSSED = (1, 5, 57, 93)


def crossed():
    """What torch.compile's models ask for where a convolution's result is channels-last and the model's is not."""
    made = [made for id, operands, text in LEVEL2 if id in CROSSED
            for made in case(f"level2 {id}, NHWC to NCHW", "views", text, operands, FLOATS,
                             of_x=(views.channels_last(shape_of(operands.split()[0].partition("=")[2])), 0), view=True)]
    kinds = ("f32", "f16", "f8e4m3")
    for name, rows, columns, types in (("transposed", 8192, 8192, ("f8e4m3",)), ("transposed, odd lines", 8192, 8209, kinds),
                                       ("transposed, odd both", 8191, 8209, kinds)):
        made += case(name, "views", "relu(x + bias)", f"x={rows}x{columns} bias={columns}", types, of_x=((1, rows), 0), view=True)
    return made


# ---- several large operands


def residuals():
    group, kinds = "residuals", ("f32", "f16", "bf16")
    image = "x=128x128x56x56"
    return [
        *case("bias, relu, residual", group, "relu(x + bias) + r", "x=8192x8192 bias=8192 r=8192x8192", kinds),
        *case("swiglu", group, "silu(x) * gate", "x=8192x8192 gate=8192x8192", kinds),
        *case("two residuals", group, "relu(x + a + b)", "x=8192x8192 a=8192x8192 b=8192x8192", kinds),
        *case("scale, bias, residual NCHW", group, "relu(x * scale + bias + r)",
              f"{image} scale=128x1x1 bias=128x1x1 r=128x128x56x56", kinds),
    ]


# ---- sizes


def size_name(count):
    for unit, size in (("GB", 2**30), ("MB", MIB), ("KB", 2**10)):
        if count >= size:
            return f"{count // size} {unit}"
    return f"{count} B"


def sizes():
    """relu(x + bias) with an x from 4 KB to 4 GB, rows of 4 KB."""
    made = []
    for power in range(11):
        rows = 4**power
        for label in FLOATS:
            columns = 4096 // ITEM_BYTES[label]
            made += case(f"x of {size_name(rows * 4096)}", "sizes", "relu(x + bias)", f"x={rows}x{columns} bias={columns}", (label,))
    return made


# ---- a producer in front


def pairs():
    group = "producer + tail"
    wide = Producer("matmul", (1024, 8192), (8192, 8192))
    tall = Producer("matmul", (8192, 4096), (4096, 4096))
    conv = Producer("conv2d", (128, 64, 128, 128), (128, 64, 3, 3))
    image = "x=128x128x126x126 bias=128x1x1"
    return [
        *case("GEMM, mish(mish(x))", group, "mish(mish(x))", "x=1024x8192", ("f32", "f16"), producer=wide),
        *case("GEMM, add … hardtanh", group, "hardtanh(gelu(tanh(silu(x + add))), -1, 1)", "x=1024x8192 add=8192",
              ("f16",), producer=wide),
        *case("GEMM, gelu(x + bias)", group, "gelu(x + bias)", "x=8192x4096 bias=4096", ("bf16",), producer=tall),
        *case("conv NCHW, relu(x) + bias", group, "relu(x) + bias", image, ("f16",), producer=conv),
        *case("conv NHWC, relu(x) + bias", group, "relu(x) + bias", image, ("f16",), views.channels_last, producer=conv),
        *case("conv NHWC, mish(x - 0.5 - 0.2)", group, "mish(x - 0.5 - 0.2)", "x=128x128x126x126", ("f16",),
              views.channels_last, producer=conv),
    ]


ALL = [*level2(), *examples(), *arithmetic(), *types(), *layouts(), *sliced(), *crossed(), *residuals(), *sizes(), *pairs()]


# ---- targets of issue 4

LARGE, MEDIUM = 64 * 10**6, 10**6  # bytes of the largest tensor
VIEW_TARGET, MEDIUM_TARGET, F32_TARGET, NARROW_TARGET = 1.10, 1.08, 1.02, 1.03
SMALL_SECONDS = 1e-6  # more than the copy takes


def target(made):
    """(most times the copy, most seconds more than the copy): one of both is None; both behind a producer, where only peers count."""
    if made.producer:
        return None, None
    if made.view:
        return VIEW_TARGET, None
    largest = made.largest_bytes()
    if largest >= LARGE:
        return (F32_TARGET if made.types == "f32" else NARROW_TARGET), None
    return (MEDIUM_TARGET, None) if largest >= MEDIUM else (None, SMALL_SECONDS)
