# %% [markdown]
# # Tails in PyTorch: five models, one line each
#
# Five small models, each a library layer and the cheap operations behind it. PyTorch runs every one of those operations
# as a kernel of its own, or a few together. Here each tail becomes one kernel, in one line; then the models are left as
# they are and `torch.compile` does it.
#
# Run it as a script (`python3 python/examples/tutorial.py`) or cell by cell in an editor that knows `# %%`. Without a
# GPU it runs on the CPU with small shapes: the same results, and times that say nothing.

# %%
import argparse
import json
import statistics
import time

import torch
import torch.nn as nn

import epifuse

ON_GPU = torch.cuda.is_available()
DEVICE = "cuda" if ON_GPU else "cpu"
torch.set_grad_enabled(False)  # inference: EpiFuse has no backward pass
torch.manual_seed(0)


def size(full, small):
    return full if ON_GPU else small


# %% [markdown]
# ## The models
#
# `producer` is what stays PyTorch's; `tail` is what follows it, in eager PyTorch.


# %%
class ConvReluBias(nn.Module):
    def __init__(self):
        super().__init__()
        self.producer = nn.Conv2d(size(64, 3), size(128, 8), 3)
        self.bias = nn.Parameter(torch.randn(size(128, 8), 1, 1))

    def tail(self, x):
        return torch.relu(x) + self.bias

    def forward(self, x):
        return self.tail(self.producer(x))


class LinearBiasRelu(ConvReluBias):
    def __init__(self):
        nn.Module.__init__(self)
        self.producer = nn.Linear(size(8192, 64), size(8192, 64), bias=False)
        self.bias = nn.Parameter(torch.randn(size(8192, 64)))

    def tail(self, x):
        return torch.relu(x + self.bias)


class ConvBiasScaleSigmoidNorm(ConvReluBias):
    def __init__(self):
        nn.Module.__init__(self)
        channels = size(32, 16)
        self.producer = nn.Conv2d(size(8, 3), channels, 3)
        self.bias, self.scale = (nn.Parameter(torch.randn(channels, 1, 1)) for _ in range(2))
        self.norm = nn.GroupNorm(8, channels)

    def tail(self, x):
        return self.norm(torch.sigmoid((x + self.bias) * self.scale))


class ConvMinBiasScale(ConvReluBias):
    def tail(self, x):
        return (torch.clamp(x, max=0.5) + self.bias) * 2.0


class LinearSwishNorm(ConvReluBias):
    def __init__(self):
        nn.Module.__init__(self)
        channels = size(4096, 64)
        self.producer = nn.Linear(size(1024, 32), channels)
        self.bias = nn.Parameter(torch.randn(channels))
        self.norm = nn.GroupNorm(size(64, 8), channels)

    def tail(self, x):
        return self.norm(torch.sigmoid(x) * x + self.bias)


INPUTS = {
    "ConvReluBias": size((128, 64, 128, 128), (2, 3, 16, 16)),
    "LinearBiasRelu": size((1024, 8192), (8, 64)),
    "ConvBiasScaleSigmoidNorm": size((128, 8, 256, 256), (2, 3, 16, 16)),
    "ConvMinBiasScale": size((128, 64, 128, 128), (2, 3, 16, 16)),
    "LinearSwishNorm": size((32768, 1024), (8, 32)),
}

# %% [markdown]
# ## Each tail in one line
#
# A chain is text; names that it does not define are tensors. It has no shapes and no types, so it is written once.

# %%
TAILS = {
    "ConvReluBias": epifuse.compile("relu(x) + bias"),
    "LinearBiasRelu": epifuse.compile("relu(x + bias)"),
    "ConvBiasScaleSigmoidNorm": epifuse.compile("group_norm(sigmoid((x + bias) * scale), 8, gamma, beta)"),
    "ConvMinBiasScale": epifuse.compile("(minimum(x, 0.5) + bias) * 2"),
    "LinearSwishNorm": epifuse.compile(f"group_norm(sigmoid(x) * x + bias, {size(64, 8)}, gamma, beta)"),
}


def operands(model):
    """The tail's operands beside x, by the names in the chain."""
    found = {name: parameter for name, parameter in model.named_parameters(recurse=False)}
    if hasattr(model, "norm"):
        found |= {"gamma": model.norm.weight, "beta": model.norm.bias}
    return found


# %% [markdown]
# ## Or traced from a function
#
# The function is ordinary PyTorch. It runs once, on stand-ins that write down what is done to them.


# %%
@epifuse.fuse
def min_bias_scale(x, bias, factor):
    return (torch.clamp(x, max=0.5) + bias) * factor


x = torch.randn(4, 8, 6, 6, device=DEVICE)
bias = torch.randn(8, 1, 1, device=DEVICE)
torch.testing.assert_close(min_bias_scale(x, bias, 2.0), (torch.clamp(x, max=0.5) + bias) * 2.0)
print(min_bias_scale.tail(x, bias, 2.0))

# %% [markdown]
# What would run can be looked at, with or without a GPU. In a notebook a tail and a plan show as pictures.

# %%
print(TAILS["ConvMinBiasScale"].plan("f16[128,128,126,126]", bias="f32[128,1,1]"))

# %% [markdown]
# ## Times
#
# Of whole models and of tails alone, as medians of CUDA events, the contestants in turn. *copy* moves as many bytes as
# the tail reads and writes.


# %%
def milliseconds(calls, rounds=21):
    """Median of each call, in turn."""
    times = {name: [] for name in calls}
    for i in range(rounds + 3):
        events = {}
        for name, call in calls.items():
            if ON_GPU:
                events[name] = [torch.cuda.Event(enable_timing=True) for _ in range(2)]
                events[name][0].record()
                call()
                events[name][1].record()
            else:
                begin = time.perf_counter()
                call()
                times[name].append((time.perf_counter() - begin) * 1e3)
        if ON_GPU:
            torch.cuda.synchronize()
            for name, (begin, end) in events.items():
                times[name].append(begin.elapsed_time(end))
    return {name: statistics.median(values[3:]) for name, values in times.items()}


ROUNDED_ONCE = {torch.float32: 1e-3, torch.float16: 2e-2}  # eager PyTorch rounds f16 after every operation
OF_A_MODEL = {torch.float32: 1e-2, torch.float16: 2e-2}


def check(found, expected, tolerance):
    """cuDNN's f32 convolutions round to TF32 inside, and torch.compile asks for another layout, and so another
    convolution, than eager does: a norm behind it divides that difference by a small deviation."""
    torch.testing.assert_close(found, expected, rtol=tolerance, atol=tolerance)


def measure(name, dtype):
    with torch.device(DEVICE):
        model = globals()[name]().eval().to(dtype)
        x = torch.randn(INPUTS[name], dtype=dtype)
    tail, more = TAILS[name], operands(model)
    conv = model.producer(x)
    check(tail(conv, **more), model.tail(conv), ROUNDED_ONCE[dtype])
    compiled = torch.compile(model, backend="epifuse")
    check(compiled(x), model(x), OF_A_MODEL[dtype])
    half = torch.empty_like(conv)
    times = milliseconds(
        {
            "eager": lambda: model(x),
            "one line": lambda: tail(model.producer(x), **more),
            "backend": lambda: compiled(x),
            "tail, eager": lambda: model.tail(conv),
            "tail": lambda: tail(conv, **more),
            "copy": lambda: half.copy_(conv),
        }
    )
    return {
        "model": name,
        "dtype": str(dtype).removeprefix("torch."),
        "kernels": len(epifuse.reports()[-1].kernels),
        **times,
    }


# %%
COLUMNS = ["eager", "one line", "backend", "tail, eager", "tail", "copy"]


def table(rows):
    lines = [
        "| model | type | " + " | ".join(f"{column} ms" for column in COLUMNS) + " |",
        "| --- | --- |" + " ---: |" * len(COLUMNS),
    ]
    lines += [
        f"| {row['model']} | {row['dtype']} | " + " | ".join(f"{row[column]:.3f}" for column in COLUMNS) + " |"
        for row in rows
    ]
    return "\n".join(lines)


def main():
    parser = argparse.ArgumentParser(description="Five models, each with its tail as one kernel.")
    parser.add_argument("--output", help="JSON of the times")
    options, _ = parser.parse_known_args()
    rows = []
    for name in INPUTS:
        for dtype in (torch.float32, torch.float16) if ON_GPU else (torch.float32,):
            torch._dynamo.reset()
            rows.append(measure(name, dtype))
            if ON_GPU:
                torch.cuda.empty_cache()
    device = torch.cuda.get_device_name() if ON_GPU else "CPU, small shapes"
    print(f"\n{device}, PyTorch {torch.__version__}, EpiFuse {epifuse.__version__}\n\n{table(rows)}")
    if options.output:
        with open(options.output, "w") as file:
            json.dump({"device": device, "torch": torch.__version__, "rows": rows}, file, indent=1)


# %%
if __name__ == "__main__":
    main()
