#!/usr/bin/env python3
"""Matrix products of further kinds that host their chain, on a GPU: norms of whole rows behind them, f32 numbers in TF32, and float8 numbers with scales of
blocks. Measured as bench/products.py measures the others, whose contestants they have.

    bench/product_kinds.py                                 # everything, to $OUT/product-kinds.json
    bench/product_kinds.py --dtypes tf32
    bench/product_kinds.py --dry-run                       # plans of all cases, for an H100; needs no GPU

./dev bench product-kinds runs this, with what it needs.
"""
import sys

import products

DTYPES = ("bf16", products.BLOCKS, products.TF32)
# Behind them a whole row is known: (rows, depth, columns) each.
OF_ROWS = [
    (products.Chain("rms_norm(x) * g", "rms_norm(linear(x, w), g, 1e-6)", "rms_norm({p}, g, 1e-6)",
                    lambda p, g: products.functional.rms_norm(p, p.shape[-1:], g, 1e-6), "g"), [(8192, 4096, 2048), (8192, 4096, 1024), (8192, 1024, 1024)]),
    (products.Chain("layer_norm(x + b) * g", "layer_norm(linear(x, w, b), g)", "layer_norm({p} + b, g)",
                    lambda p, b, g: products.functional.layer_norm(p + b, p.shape[-1:], g), "bg"), [(8192, 4096, 2048)]),
    (products.Chain("softmax(x)", "softmax(linear(x, w), axis=-1)", "softmax({p}, axis=-1)", lambda p: products.functional.softmax(p, -1)),
     [(16384, 2048, 1024), (16384, 1024, 256)]),
]


def cases_of(dtype):
    if dtype == "bf16":
        return [products.Case(*shape, chain) for chain, shapes in OF_ROWS for shape in shapes]
    return [case for case in products.CASES if case.chain.name in products.FOR_NARROW]


if __name__ == "__main__":
    sys.exit(products.main(__file__, __doc__, cases_of, DTYPES))
