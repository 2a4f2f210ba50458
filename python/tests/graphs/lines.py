"""Lines of random programs: what PyTorch's users write, from tables. programs.py keeps those that eager PyTorch takes."""

TYPES = (
    ["float32"] * 6
    + ["float16"] * 3
    + ["bfloat16"] * 2
    + ["float64"] * 2
    + ["bool"] * 3
    + ["int64", "int64", "int32", "uint8", "int8"]
)
NUMBERS = ("0.1", "2", "-1.5", "3", "0", "1", "True", "1e-3", "0.5", "100", "2.5", "-0.7")

UNARY = (
    "torch.abs torch.exp torch.sin torch.cos torch.tanh torch.sqrt torch.rsqrt torch.log torch.log1p torch.expm1 torch.neg "
    "torch.reciprocal torch.floor torch.ceil torch.round torch.trunc torch.sign torch.sigmoid torch.erf torch.square "
    "torch.isnan torch.isinf torch.isfinite torch.logical_not torch.bitwise_not torch.relu torch.exp2 torch.log2 "
    "torch.log10 torch.tan torch.frac torch.nan_to_num torch.logit torch.positive F.silu F.mish F.hardswish "
    "F.hardsigmoid F.relu6 F.selu F.elu F.celu F.softplus F.softsign F.tanhshrink F.logsigmoid F.leaky_relu F.hardtanh "
    "F.hardshrink F.softshrink torch.cumsum:0 torch.flip:[0] torch.logsumexp:-1 torch.sort:-1:[0] torch.erfc torch.sinh"
).split()
BINARY = (
    "torch.add torch.sub torch.mul torch.div torch.maximum torch.minimum torch.pow torch.fmod torch.remainder torch.eq "
    "torch.ne torch.lt torch.le torch.gt torch.ge torch.logical_and torch.logical_or torch.logical_xor torch.atan2 "
    "torch.bitwise_and torch.bitwise_or torch.bitwise_xor torch.hypot torch.xlogy torch.floor_divide torch.copysign "
    "torch.rsub torch.add torch.mul torch.mul torch.add"
).split()
OPERATORS = ("+", "-", "*", "/", "//", "%", "<", ">", "<=", ">=", "==", "!=", "&", "|", "^", "**")
REDUCTIONS = ("sum", "mean", "amax", "amin", "var", "std", "any", "all", "logsumexp", "prod", "max", "min", "norm")
VIEWS = (
    "{x}.t()",
    "{x}.transpose(0, -1)",
    "{x}.unsqueeze({d})",
    "{x}.squeeze()",
    "{x}.flatten()",
    "{x}.flatten(0, 1)",
    "{x}.reshape(-1)",
    "{x}.view(-1)",
    "{x}.view({x}.shape)",
    "{x}.view({x}.shape[-1], -1)",
    "{x}.unflatten(-1, (-1, 1))",
    "{x}.unflatten(0, (1, -1))",
    "{x}[1:]",
    "{x}[..., ::2]",
    "{x}[0]",
    "{x}.select({d}, 0)",
    "{x}.narrow({d}, 0, 2)",
    "{x}.expand(2, *{x}.shape)",
    "{x}.detach()",
    "{x}.diagonal()",
    "{x}.chunk(2, {d})[0]",
    "{x}.movedim(0, -1)",
    "{x}.view_as({x})",
    "{x}.split(2, {d})[0]",
    "{x}.unbind({d})[-1]",
    "{x}[..., 1::2]",
    "{x}[:, :1]",
    "{x}.permute(*range({x}.dim() - 1, -1, -1))",
)
COPIES = (
    "{x}.contiguous()",
    "{x}.clone()",
    "{x}.t().contiguous()",
    "{x}.transpose(0, -1).contiguous()",
    "{x}.clone(memory_format=torch.contiguous_format)",
)
CASTS = ("{x}.to(torch.{t})", "{x}.float()", "{x}.half()", "{x}.double()", "{x}.bool()", "{x}.long()", "{x}.type_as({y})")
MIXED = (
    "torch.where({m}, {x}, {y})",
    "torch.where({m}, {x}, {n})",
    "torch.where({x} > {n}, {x}, {n})",
    "{x}.masked_fill({m}, {n})",
    "{x}.masked_fill(~{m}, {n}) * {m}",
    "({x} > {n}) * {y}",
    "{x} * ({m} + {m2})",
    "{m} * {m2}",
    "{m} | ({x} >= {n})",
    "torch.clamp({x}, {n}, {n2})",
    "torch.clamp({x}, min={n})",
    "torch.clamp({x}, min={y})",
    "torch.add({x}, {y}, alpha={n})",
    "torch.sub({x}, {y}, alpha={n})",
    "torch.addcmul({x}, {y}, {z}, value={n})",
    "torch.lerp({x}, {y}, {n})",
    "torch.div({x}, {y}, rounding_mode='floor')",
    "torch.div({x}, {y}, rounding_mode='trunc')",
    "F.threshold({x}, {n}, {n2})",
    "F.softmax({x}, {d})",
    "F.log_softmax({x}, {d})",
    "F.softmax({x}, {d}, dtype=torch.float32)",
    "F.layer_norm({x}, {x}.shape[-1:])",
    "F.layer_norm({x}, {x}.shape[-1:], {y}, {z})",
    "F.rms_norm({x}, {x}.shape[-1:])",
    "F.normalize({x}, dim={d})",
    # PyTorch's is NaN of an infinity where it computes vectors, and 0 where 1 + erf(x) is nearly that
    "F.gelu(torch.nan_to_num({x}).clamp(-2))",
    "F.prelu({x}, {y})",
    "{x} * {x}.shape[{d}]",
    "{x} / {y}.shape[-1]",
    "{x} * torch.full((), {n}, dtype=torch.{t})",
    "{x} + torch.tensor({n}, dtype=torch.{t})",
    "{x} * torch.full_like({y}, {n})",
    "{x} + torch.ones_like({y})",
    "{x} + torch.arange({x}.shape[-1])",
    "torch.cat([{x}, {x}], {d})",
    "torch.stack([{x}, {y}], {d})",
    "torch.cat([{x}, {y}], {d})",
    "torch.cat((-{x}.chunk(2, {d})[1], {x}.chunk(2, {d})[0]), {d})",
    "{x} * {n} + torch.cat((-{x}[..., 1:], {x}[..., :1]), -1) * {y}",
    "torch.stack((-{x}[..., 1::2], {x}[..., ::2]), -1).flatten(-2)",
    "torch.stack([{x}, {y}, {z}], {d}).relu()",
    "F.glu({x}, {d})",
    "F.max_pool1d({x}, 2)",
    "F.max_pool1d({x}, 2, 1)",
    "F.max_pool2d({x}, (2, 1), ceil_mode={m3})",
    "F.max_pool2d({x}[None], 3, 2, 1)",
    "F.avg_pool1d({x}, 2)",
    "F.avg_pool2d({x}, (1, 3), divisor_override=2)",
    "F.adaptive_avg_pool1d({x}, 1)",
    "F.adaptive_avg_pool2d({x}, (1, 2))",
    "F.adaptive_max_pool1d({x}, 2)",
    "F.lp_pool1d({x}, 2, 2)",
    "F.interpolate({x}, scale_factor={b} + 1.0)",
    "F.interpolate({x}[None], size=({x}.shape[-2] * 2, {x}.shape[-1]))",
    "F.pixel_shuffle({x}.reshape(1, 4, 1, -1), 2)",
    "F.pixel_unshuffle({x}.reshape(1, 1, 2, -1), 2)",
    "{x}.argmax({d})",
    "{x}.argmin({d}, keepdim=True)",
    "torch.argmax({x})",
    "torch.max({x}, {d}).indices",
    "{x}.tril({b})",
    "{x}.triu()",
    "torch.count_nonzero({x}, {d})",
    "{x} @ {y}",
    "F.pad({x}, (1, 1))",
    "torch.roll({x}, 1, {d})",
    "torch.rand_like({x}) * {x}",
    "({x} * 2, {x} + 1)[{b}]",
    "torch.var_mean({x}, {d}, keepdim=True)[0]",  # the mean of infinities is NaN or not by their order
    "torch.max({x}, {d}).values",
    "torch.aminmax({x}).max",
    "F.mse_loss({x}, {y})",
    "torch.heaviside({x}, {y})",
    "{x}.index_select({d}, torch.tensor([0, 1]))",
)
WRITES = (
    "{x}.add_({n})",
    "{x}.mul_({y})",
    "{x}.relu_()",
    "{x}[0] = {n}",
    "{x}[..., 0] = {y}[..., 0]",
    "{x}.fill_({n})",
    "{x}.zero_()",
    "{x}.copy_({y})",
    "{x}.masked_fill_({m}, {n})",
    "{x}.clamp_({n}, 2.5)",
    "{x}[{m}] = {n}",
    "{x}.t().mul_({n})",
    "{x}.view(-1)[1:].add_({n})",
    "{x}.sigmoid_()",
    "torch.add({x}, {y}, out={z})",
    "torch.exp({x}, out={z})",
    "torch.mul({x}, {n}, out={x})",
    "{x}.lt_({n})",
    "{x}.detach().neg_()",
)
TABLES = {"views": VIEWS, "copies": COPIES, "casts": CASTS, "mixed": MIXED, "writes": WRITES}
KINDS = ["unary"] * 4 + ["binary"] * 4 + ["operators"] * 3 + ["reductions"] * 3 + ["views"] * 3 + ["mixed"] * 6
KINDS += ["casts"] * 2 + ["copies"] + ["writes"] * 3


def draw(random, known, name):
    """A line that gives `name` its value, or writes a known tensor. `known`: tensors by their names."""
    recent = list(known)[-4:]

    def one():
        return random.choice(recent if random.random() < 0.6 else list(known))

    masks = [name for name, value in known.items() if value.dtype.is_floating_point is False and value.dtype.itemsize == 1]
    x, kind = one(), random.choice(KINDS)
    depth = max(known[x].dim(), 1)
    words = dict(x=x, y=one(), z=one(), n=random.choice(NUMBERS), n2=random.choice(NUMBERS), t=random.choice(TYPES))
    words |= dict(d=random.choice((-1, 0, random.randrange(depth))), b=random.choice((0, 1)))
    words |= dict(m3=random.choice((False, True)))
    words |= dict(m=random.choice(masks or ["True"]), m2=random.choice(masks or ["True"]))
    if kind == "unary":
        function, *more = random.choice(UNARY).split(":")
        tail = "".join(part for part in more[1:])
        return f"{name} = {function}({', '.join([x, *more[:1]])}){tail}"
    if kind == "binary":
        other = words["y"] if random.random() < 0.7 else words["n"]
        return f"{name} = {random.choice(BINARY)}({x}, {other})"
    if kind == "operators":
        pair = [x, words["y"]] if random.random() < 0.5 else random.sample([x, words["n"]], 2)
        return f"{name} = {pair[0]} {random.choice(OPERATORS)} {pair[1]}"
    if kind == "reductions":
        return f"{name} = {x}.{random.choice(REDUCTIONS)}({_reduced(random, words)})"
    line = random.choice(TABLES[kind]).format(**words)
    return line if kind == "writes" else f"{name} = {line}"


def _reduced(random, words):
    given = []
    if random.random() < 0.8:
        given.append(f"dim={words['d'] if random.random() < 0.8 else (0, -1)}")
        if random.random() < 0.5:
            given.append("keepdim=True")
    if random.random() < 0.1:
        given.append(f"dtype=torch.{words['t']}")
    return ", ".join(given)


def kind_of(line):
    """What a line does, for counts."""
    made, _, expression = line.partition(" = ")
    if not expression or not made.isidentifier() or "out=" in line:
        return "writes"
    for kind, table in TABLES.items():
        if any(_tail(one) and _tail(one) in expression for one in table):
            return kind
    return "computes"


def _tail(template):
    """What names the template, behind its first operand."""
    return template.partition("}")[2].partition("{")[0].strip(" (),")
