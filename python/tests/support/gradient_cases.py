"""Chains whose gradients are compared with PyTorch's: each operation, reduction and composite. test_gradient.py runs them, gradients.py reports on them."""

from __future__ import annotations

import re
from collections.abc import Iterator

X = {"x": (3, 4)}
XB = {"x": (3, 4), "b": (4,)}
ROWS = {"x": (2, 6, 5), "w": (5,), "b": (5,)}
CHANNELS = {"x": (2, 6, 5), "w": (6,), "b": (6,)}
IMAGES = {"x": (2, 4, 6, 6), "w": (4,), "b": (4,)}
VOLUMES = {"x": (1, 2, 4, 4, 4)}
ROTATED = {"q": (2, 6, 8), "c": (6, 4), "s": (6, 4)}
BLOCKS = {"x": (3, 8), "s": (3, 2), "r": (3, 1)}

EVERYWHERE = """abs square exp exp2 expm1 sin cos tanh erf relu relu6 selu silu sigmoid logsigmoid hardsigmoid hardswish mish softsign tanhshrink sign
                floor ceil round trunc gelu leaky_relu elu celu softplus hardtanh""".split()
ABOVE_ZERO = "sqrt rsqrt reciprocal log log1p log2".split()
OPERATIONS = [
    *(f"{name}(x)" for name in EVERYWHERE),
    *"x+b x-b x*b x/b b/x fmod(x,b) remainder(x,b) minimum(x,b) maximum(x,b) -x x**3 x**2".split(),
    *"clamp(x,-0.5,0.5) clamp(x,-1,1) clamp(x,min=1) clamp(x,max=0) clamp(x,b,b+1) clamp(x,b+1,b) clamp(x,0,b)".split(),
    *"leaky_relu(x,b) leaky_relu(x,0.3) elu(x,0.5) elu(x,b) celu(x,0.5) softplus(x,2.0,1.0) threshold(x,0.1,2.0) threshold(x,0,2.0)".split(),
    *"hardtanh(x,-1,2) where(x>0,x,b) gelu(x+b) relu(x+b)*b sum_to(x*b,b) expand_as(b,x)*x".split(),
    "fma(x,b,x)",
    "fma(b,2.0,x)",
    'gelu(x*b,approximate="tanh")',
    "y = tanh(x); return y, y*b",
    "y = x > 0; return where(y, x, 0), x*x",
]
REDUCTIONS = [
    chain.replace("{}", name)
    for name in "sum mean prod amax amin var std logsumexp".split()
    for chain in ("{}(x)", "{}(x,axis=0)", "{}(x,axis=-1,keepdim=true)*x", "{}(x*b,axis=(0,1))", "{}(x*b,axis=1)*{}(x,axis=1)")
] + [f"norm(x,p={p},axis=1)" for p in ("1", "2", "3", "inf", "-inf", "1.5", "0.5", "0.9", "0.25", "-1", "-2")]
REDUCTIONS += ["return var_mean(x,axis=1)[0], var_mean(x,axis=1)[1]", "normalize(x*b,0.5,axis=1)"]
COMPOSITES = [
    *(chain for chain in "softmax(x,-1) softmax(x,(1,2)) softmax(x,-1)*w log_softmax(x,1) log_softmax(x*b,-1)".split()),
    *"layer_norm(x,w,b) layer_norm(x) layer_norm(x,axis=(1,2)) rms_norm(x,w) rms_norm(x) normalize(x) gelu(layer_norm(x+w,w,b))".split(),
    "y = layer_norm(x, w, b); return y, mean(y, -1)",
    "e = exp(x - amax(x, -1, true)); e / sum(e, -1, true)",
    "m = mean(x, -1, true); r = rsqrt(var(x, -1, correction=0, keepdim=true) + 1e-5); return (x - m) * r, m, r",
    "unflatten(x,1,(2,3))*2",
    "sum(flatten(x,1,2),1)",
    "mean(x,1)",
    "dropout(x,0.3,7,2)",
    "dropout(softmax(x,-1),0.5,1,0)",
    "layer_norm(dropout(gelu(x+w),0.2,5,1)+x,w,b)",
    "rand_like(x,1,2)*x",
]
BY_CHANNEL = ["group_norm(x,3,w,b)", "group_norm(x,2)", "instance_norm(x,w,b)", "silu(group_norm(x,3,w,b))", "along(w,x,1)*x"]
VIEWS = [
    *"x[:,::2]*2.0 x[...,1:4] exp(x[:,-1]) tanh(x[1]) select(x,1,2)*2.0 exp(narrow(x,1,2,3)) chunk(x,2,1)[0]*chunk(x,2,1)[1]".split(),
    *"split(x,4,1)[1] split(x,(2,4),1)[1]*2.0 flip(sin(x),(0,2)) roll(x*b,2,1) permute(x,(2,0,1)) transpose(x*b,1,2) unsqueeze(x,1)*b".split(),
    *"squeeze(unsqueeze(x,1),1)*b expand(b,(6,5))*x reshape(x,(2,30)) pad(x*b,(1,2,0,1)) pad(x,(1,-1),value=2.0)*2.0".split(),
    *"cat((x,x*b),1) cat((x*2.0,relu(x)),0) stack((x,x*b),0) tril(x*b) triu(x,1)*b tril(x,1)[:1] window(x,1,3,2)[1]*2.0".split(),
    *"max_pool1d(x,2) max_pool1d(x*b,3,2,1) avg_pool1d(x,3,1,1) lp_pool1d(abs(x)+1.0,2,2) adaptive_max_pool1d(x,1)".split(),
    *"x[:,::2,None] gelu(x[:,:3])*x[:,3:] cat((x,x[:,:2]*2.0),1) softmax(x,1)[:,2:]".split(),
]
OF_IMAGES = [
    *"max_pool2d(x,2) max_pool2d(x,3,2,1) avg_pool2d(x,2)*2.0 avg_pool2d(x,3,2,1,count_include_pad=false)".split(),
    *"avg_pool2d(x,3,2,1,ceil_mode=true) lp_pool2d(abs(x)+1.0,2,3,2) lp_pool2d(abs(x)+1.0,2,4,ceil_mode=true)".split(),
    *"adaptive_avg_pool2d(x,(3,2)) adaptive_avg_pool2d(x,(none,2)) adaptive_max_pool2d(x,2) flatten(avg_pool2d(x,6),1)".split(),
    *"pixel_shuffle(x,2) pixel_unshuffle(x,3)*2.0 upsample_nearest2d(x,2) batch_norm(x,w,b) relu(batch_norm(x,w,b))".split(),
]
OF_VOLUMES = "max_pool3d(x,2) avg_pool3d(x,2) lp_pool3d(abs(x)+1.0,2,2) adaptive_avg_pool3d(x,2) upsample_nearest3d(x,2)".split()
ROPE = ["rope(q,c,s)", "tanh(rope(q*2.0,c,s))"]
DEQUANTIZE = ["dequantize(x,s,4)", "dequantize(x,r)"]  # rounds to f32, which holds small numbers
POSITIVE = [*(f"{name}(x)" for name in ABOVE_ZERO), "x**b", "x**0.5", "2.5**x", "x**-1"]

VIEW_CASES = [
    (VIEWS, ROWS, "normal"),
    (OF_IMAGES, IMAGES, "normal"),
    (OF_VOLUMES, VOLUMES, "normal"),
    (ROPE, ROTATED, "normal"),
    (DEQUANTIZE, BLOCKS, "small"),
]

Case = tuple[str, str, dict[str, tuple[int, ...]], str]


def cases() -> Iterator[Case]:
    """Group, text, shapes and values of the operands, of all that are smooth where normal numbers fall."""
    for group, texts, shapes, values in [
        ("operation", OPERATIONS, XB, "normal"),
        ("operation", POSITIVE, XB, "positive"),
        ("reduction", REDUCTIONS, XB, "normal"),
        ("composite", COMPOSITES, ROWS, "normal"),
        ("composite", BY_CHANNEL, CHANNELS, "normal"),
        *(("view", *case) for case in VIEW_CASES),
    ]:
        for text in texts:
            yield group, text, used_by(text, shapes), values


def used_by(text: str, shapes: dict[str, tuple[int, ...]]) -> dict[str, tuple[int, ...]]:
    return {name: shape for name, shape in shapes.items() if name in re.findall(r"[a-z_]\w*", text)}
