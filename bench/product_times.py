#!/usr/bin/env python3
"""What plans estimate of products that host their chain, beside the times that an H100 took for them.

usage: bench/product_times.py [--epifuse build/tools/epifuse] [--output bench/results/product-times-stub.json] [--dry-run]

Needs no GPU: plans are made for an H100. Times come from the committed record of bench/products.py, which was measured at a commit of its own. Both
are given of one kernel, and of cuBLASLt's product and then the chain.
"""
import argparse
import pathlib
import re
import sys

import plans
import record

ARCHITECTURE = "sm_90:132"
MEASURED = record.RESULTS / "products-h100.json"
ONE_KERNEL = re.compile(r"time +about ([\d.e+-]+) us; the product and then the chain about ([\d.e+-]+) us")
PARTS = re.compile(
    r"made of +([\d.e+-]+) us of products, [\d.e+-]+ Tflop/s; ([\d.e+-]+) us of the chain that no product hides; beside "
    r"them ([\d.e+-]+) us for [\d.e+-]+ MB of memory, and ([\d.e+-]+) MB from the L2 cache"
)
APART = re.compile(r"one kernel would take about ([\d.e+-]+) us, and the product and then the chain ([\d.e+-]+) us")
WAVES = re.compile(r"tiles: ([\d.]+) waves")


def operands_of(one):
    """As bench/products.py makes them: of factors of 8 bits all else is bf16, but for a scale in f32."""
    is_narrow = one["dtype"] in ("f8e4m3", "i8")
    other = "bf16" if is_narrow else one["dtype"]
    shapes = dict(one["shapes"])
    if is_narrow:
        shapes["s"] = [shapes["w"][0] if one["dtype"] == "i8" else 1]
    kinds = {"x": one["dtype"], "w": one["dtype"], "s": "f32"}
    return {name: (kinds.get(name, other), shape) for name, shape in shapes.items()}


def estimated(tool, one):
    """Microseconds of both ways, and where one kernel is planned what its time is made of."""
    text = plans.dumped(tool, one["text"], operands_of(one), ARCHITECTURE, "--emit", "plan")
    is_one = ONE_KERNEL.search(text)
    times = is_one or APART.search(text)
    if times is None:
        sys.exit(f"no estimate of '{one['text']}' in this plan:\n{text}")
    found = {"one_kernel": float(times[1]), "apart": float(times[2]), "is_one_kernel": is_one is not None}
    if is_one is not None:
        parts = map(float, PARTS.search(text).groups())
        found |= dict(zip(("products", "chain", "memory", "l2_megabytes"), parts)) | {"waves": float(WAVES.search(text)[1])}
    return found


def compared(tool, one):
    seconds = one["seconds"]
    is_bare = one["case"].endswith("bare")
    measured = {"product": seconds["product"], "best": seconds.get("best"), "engine": seconds["epifuse"], "apart": seconds["product" if is_bare else "pair"]}
    return {
        "case": one["case"],
        "dtype": one["dtype"],
        "text": one["text"],
        "estimated_us": estimated(tool, one),
        "measured_us": {name: value and value * 1e6 for name, value in measured.items()},
    }


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--epifuse", default="build/tools/epifuse")
    parser.add_argument("--output", type=pathlib.Path)
    parser.add_argument("--dry-run", action="store_true", help="the first product only")
    options = parser.parse_args()
    source = record.read(MEASURED)
    timed = [one for one in source["records"] if "error" not in one]
    records = [compared(options.epifuse, one) for one in (timed[:1] if options.dry_run else timed)]
    print(f"{len(records)} products: the plan's estimate beside what {source['device']} took")
    if options.output:
        record.write(
            options.output,
            record.made(
                "product-times",
                device="none (plans for an H100)",
                command=" ".join(["bench/product_times.py", *sys.argv[1:]]),
                settings={"architecture": ARCHITECTURE, "measured": MEASURED.name, "measured_at": source["commit"]},
                records=records,
            ),
        )
    return 0


if __name__ == "__main__":
    sys.exit(main())
