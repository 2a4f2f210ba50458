"""The launches of the benchmarks, as lines of JSON for epifuse_describe: every case of bench/pointwise_cases.py and
bench/reductions_cases.py, in each of its types, on each architecture."""

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


def grouped(architectures=ARCHITECTURES):
    """Each launch with the name of its group."""
    for make in (pointwise, reductions):
        for group, name, chain, inputs, outputs in make():
            for architecture in architectures:
                launch = {"id": f"{name}, sm_{architecture}", "chain": chain, "architecture": architecture}
                yield group, launch | {"inputs": inputs, "outputs": outputs}


def lines(architectures=ARCHITECTURES):
    return [json.dumps(launch) for _, launch in grouped(architectures)]


if __name__ == "__main__":
    print(*lines(), sep="\n")
