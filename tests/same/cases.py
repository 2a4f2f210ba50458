"""The launches of the benchmarks, as lines of JSON for epifuse_describe: every case of bench/pointwise_cases.py and
bench/reductions_cases.py, in each of its types, on each architecture; and backward passes of norms with weights."""

import json
import pathlib
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "bench"))

ARCHITECTURES = (75, 80, 90, 100, 120)
FAR = 1 << 40  # bytes between the addresses of two operands


def _view(dtype, shape, strides=None, address=0):
    view = {"dtype": dtype, "shape": list(shape), "address": address}
    return view if strides is None else view | {"strides": list(strides)}


def pointwise():
    import pointwise_cases

    for case in pointwise_cases.ALL:
        views = {}
        for number, (name, operand) in enumerate(case.operands.items(), 1):
            layout = operand.layout
            address = number * FAR + layout.offset * layout.itemsize
            views[name] = _view(operand.dtype, layout.shape, layout.strides, address)
        result = case.result.layout
        output = _view(case.result.dtype, result.shape, result.strides, (len(views) + 1) * FAR)
        yield f"pointwise {case.group}", f"pointwise {case.name}, {case.types}", case.text, views, [output]


def reductions():
    import reductions_cases
    import views as layouts

    for case in reductions_cases.ALL:
        for dtype in case.dtypes:
            views = {}
            for number, (name, operand) in enumerate(case.inputs.items(), 1):
                is_last = case.layout in ("channels_last", "turned") and len(operand.shape) == 4
                strides = layouts.channels_last(operand.shape) if is_last else None
                kind = dtype if operand.dtype == "same" else operand.dtype
                views[name] = _view(kind, operand.shape, strides, number * FAR)
            outputs = [
                {"dtype": dtype if kind == "same" else kind, "layout": case.layout, "address": number * FAR}
                for number, kind in enumerate(case.results, len(views) + 1)
            ]
            yield f"reductions {case.group}", f"reductions {case.name}, {dtype}", case.text, views, outputs


# Backward passes of norms with weights: the chain, and the shape of each operand.
COLUMN_SUMS = {
    "layer_norm": (
        "input dy, mean, rstd, x, w, b; t = sum_to(dy * w, x); d = x - mean; n = count(x, axis=-1); s = t * rstd; "
        "dx = -sum(t * d, axis=-1, keepdim=true) * (rstd * rstd * rstd) / n * d + s - sum(s, axis=-1, keepdim=true) / n; "
        "return dx, sum_to(dy * (d * rstd), w), sum_to(dy, b)",
        lambda rows, length: {
            "dy": (rows, length),
            "mean": (rows, 1),
            "rstd": (rows, 1),
            "x": (rows, length),
            "w": (length,),
            "b": (length,),
        },
    ),
    "rms_norm": (
        "input dy, rstd, x, w; t = sum_to(dy * w, x); "
        "dx = t * rstd - sum(t * x, axis=-1, keepdim=true) * (rstd * rstd * rstd) / count(x, axis=-1) * x; "
        "return dx, sum_to(dy * x * rstd, w)",
        lambda rows, length: {"dy": (rows, length), "rstd": (rows, 1), "x": (rows, length), "w": (length,)},
    ),
}


def column_sums():
    for name, (chain, shapes) in COLUMN_SUMS.items():
        for rows, length in ((8192, 4096), (8192, 64), (4096, 16384)):
            for dtype in ("f32", "bf16"):
                operands = shapes(rows, length)
                views = {
                    operand: _view("f32" if operand in ("mean", "rstd") else dtype, shape, None, number * FAR)
                    for number, (operand, shape) in enumerate(operands.items(), 1)
                }
                results = [operands[one] for one in ("x", "w", "b") if one in operands]
                outputs = [_view(dtype, shape, None, (20 + i) * FAR) for i, shape in enumerate(results)]
                yield "gradients column sums", f"gradient of {name} {rows}x{length}, {dtype}", chain, views, outputs


def grouped(architectures=ARCHITECTURES):
    """Each launch with the name of its group."""
    for make in (pointwise, reductions, column_sums):
        for group, name, chain, inputs, outputs in make():
            for architecture in architectures:
                launch = {"id": f"{name}, sm_{architecture}", "chain": chain, "architecture": architecture}
                yield group, launch | {"inputs": inputs, "outputs": outputs}


def lines(architectures=ARCHITECTURES):
    return [json.dumps(launch) for _, launch in grouped(architectures)]


if __name__ == "__main__":
    print(*lines(), sep="\n")
