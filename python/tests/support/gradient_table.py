"""The table of docs/guide/training.md: operations of both passes, what backward reads, and whether it is one kernel on an H100.
`python python/tests/support/gradient_table.py` prints it."""
from tails import as_written

import epifuse

SHAPES = {"x": [4096, 4096], "r": [4096, 4096], "w": [4096], "b": [4096], "c": [4096, 1]}
IMAGES = {"x": [32, 64, 56, 56], "w": [64], "b": [64], "k": [64, 1, 1]}
CHAINS = [
    ("gelu(x + b)", "x", SHAPES),
    ("gelu(x + b)", "x b", SHAPES),
    ("silu(x) * r", "x r", SHAPES),
    ("relu(x + b)", "x b", SHAPES),
    ("mish(x)", "x", SHAPES),
    ("sigmoid(x + r)", "x r", SHAPES),
    ("softmax(x, -1)", "x", SHAPES),
    ("log_softmax(x, -1)", "x", SHAPES),
    ("logsumexp(x, -1)", "x", SHAPES),
    ("std(x, -1)", "x", SHAPES),
    ("layer_norm(x, w, b)", "x", SHAPES),
    ("layer_norm(x, w, b)", "w b", SHAPES),
    ("layer_norm(x, w, b)", "x w b", SHAPES),
    ("rms_norm(x, w)", "x", SHAPES),
    ("rms_norm(x + r, w)", "x w", SHAPES),
    ("gelu(layer_norm(x, w, b))", "x", SHAPES),
    ("x * w * c", "w c", SHAPES),
    ("relu(x + k)", "x k", IMAGES),
    ("group_norm(x, 32, w, b)", "x", IMAGES),
    ("group_norm(x, 32, w, b)", "w b", IMAGES),
    ("group_norm(x, 32, w, b)", "x w b", IMAGES),
    ("silu(group_norm(x, 32, w, b))", "x", IMAGES),
    ("instance_norm(x, w, b)", "x", IMAGES),
    ("mean(relu(x), (2, 3))", "x", IMAGES),
]
NO_OPERATION = "input scalar constant count unflatten flatten along unsqueeze_as reshape_as".split()


def operations(tail):
    """Of the tail, without those that compute nothing."""
    return sum(value["op"] not in NO_OPERATION for value in tail.values())


def described(gradient, shapes):
    """The operands of the backward tail, as specifications."""
    text = {name: f"f32{extents}".replace(" ", "") for name, extents in shapes.items()}
    results = gradient.forward.plan(*(text[name] for name in gradient.forward.inputs)).summary["operands"]
    results = results[len(gradient.forward.inputs) :]
    specs = []
    for operand in gradient.operands:
        if operand.source in ("operand", "shape"):
            specs.append(text[operand.name])
        else:
            found = results[operand.index]
            specs.append(f"{found['dtype']}{list(found['shape'])}".replace(" ", ""))
    return specs


def row(chain, wrt, shapes):
    """The cells of one row of the table."""
    gradient = epifuse.gradient(as_written(chain), wrt.split())
    names = [operand.name for operand in gradient.operands if operand.source != "shape"]
    plan, reason = None, ""
    try:
        plan = gradient.backward.plan(*described(gradient, shapes))
    except ValueError as error:
        reason = str(error).split(":", 1)[-1].split(". ")[0].strip()
    kernel = plan.summary["schedule"] if plan is not None else f"no: {reason}"
    read = (plan.summary["bytes_read"] + plan.summary["bytes_written"]) / 1e6 if plan is not None else None
    again = plan.summary["bytes_read_again"] / 1e6 if plan is not None else None
    return {
        "chain": chain,
        "wrt": wrt,
        "forward": operations(epifuse.compile(chain)),
        "backward": operations(gradient.backward),
        "reads": ", ".join(names),
        "kernel": kernel,
        "megabytes": read,
        "again": again,
    }


def main():
    print("| chain | gradients of | operations: forward | backward | backward reads | MB moved, f32 | read again | kernel |")
    print("| --- | --- | --- | --- | --- | --- | --- | --- |")
    for chain, wrt, shapes in CHAINS:
        cells = row(chain, wrt, shapes)
        moved = "" if cells["megabytes"] is None else f"{cells['megabytes']:.0f}"
        again = "" if not cells["again"] else f"{cells['again']:.0f}"
        print(
            f"| `{chain}` | {wrt.replace(' ', ', ')} | {cells['forward']} | {cells['backward']} | {cells['reads']} | {moved} | {again} | {cells['kernel']} |"
        )


if __name__ == "__main__":
    main()
