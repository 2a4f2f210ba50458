"""What bench/reductions.py and bench/pointwise.py know of checking and timing on a GPU, whatever the case: differences in units of a
tolerance, a wait that gives up, contestants, CUDA graphs and their replays in turn."""
import collections
import functools
import math
import random
import statistics
import time

import bridge

torch = None  # set by use(), so that looking at plans needs none

# What a result may differ from the exact one by: relative, of the mean magnitude, absolute. Statistics in f32 leave
# some 1e-6; narrower types leave their rounding, and f16 its subnormal numbers.
TOLERANCES = {"f64": (1e-12, 1e-12, 0), "f32": (1e-5, 1e-5, 0), "f16": (2**-10, 2**-10, 2**-24),
              "bf16": (2**-7, 2**-7, 0), "f8e4m3": (2**-3, 2**-7, 2**-9), "f8e5m2": (2**-2, 2**-6, 2**-16),
              "tf32": (2**-10, 2**-8, 0), "i8": (1e-5, 0, 0.501)}  # of results that were not rounded: half a unit, and what f32 leaves of ties
COMPARED_AT_ONCE = 2**26  # elements
BATCH = 5  # rounds queued at a time
FEWEST_SAMPLES = 15
CACHE_MULTIPLE = 3  # rotate through this many times the L2 cache
LARGE_TENSOR = 10**9  # bytes: as good as several sets
GRAPH_SECONDS = 2e-3  # of one replay: its start does not show
MOST_LAUNCHES = 1000
BIG_COPY = 2**31  # bytes each way
HANG_SECONDS = 30
MOST_DETAIL = 3000  # characters of an error's text
KERNEL = "copy by a kernel"  # among the graphs
PEERS = ("compile", "autotune", "eager", "cupy", "library")  # a case goes on without those that fail


def use(module):
    global torch
    torch = module


def first_line(problem):
    text = str(problem).strip() or type(problem).__name__
    return f"{type(problem).__name__}: {text.splitlines()[0]}"[:600]


# ---- tensors


def torch_dtype(name):
    return next(getattr(torch, theirs) for theirs, ours in bridge.DTYPES.items() if ours == name)


def as_list(results):
    return list(results) if isinstance(results, tuple) else [results]


def raw(tensor):
    """The bytes of a dense tensor, in the order of memory."""
    return torch.empty(0, dtype=torch.uint8, device="cuda").set_(tensor.untyped_storage())


def bytes_of(tensors):
    return sum(tensor.numel() * tensor.element_size() for tensor in tensors)


def l2_bytes():
    return getattr(torch.cuda.get_device_properties(0), "L2_cache_size", 50 * 2**20)


def sets_for(largest, total):
    """As many copies of a case's tensors (bytes of the largest, of all) as nothing of is found in the L2 cache when their turn comes
    again."""
    return 1 if largest > LARGE_TENSOR else max(2, math.ceil(CACHE_MULTIPLE * l2_bytes() / total))


def launches_for(count, sets):
    """Launches in one graph: each set as often as the others."""
    launches = min(MOST_LAUNCHES, max(1, math.ceil(GRAPH_SECONDS * big_copy_bandwidth() / count)))
    return math.ceil(launches / sets) * sets


# ---- is it right?


def wait(what):
    """Waits for the GPU, but not for ever: a kernel that never ends is a result too."""
    event = torch.cuda.Event()
    event.record()
    deadline = time.monotonic() + HANG_SECONDS
    while not event.query():
        if time.monotonic() > deadline:
            raise Hang(f"{what} did not end in {HANG_SECONDS} s")
        time.sleep(1e-3)


class Hang(RuntimeError):
    pass


class Wrong(RuntimeError):
    pass


def pieces(tensor):
    """Slices of the first dimension, small enough for temporaries in f64."""
    tensor = tensor.reshape(1) if tensor.dim() == 0 else tensor
    step = max(1, COMPARED_AT_ONCE * len(tensor) // max(tensor.numel(), 1))
    return [tensor[i:i + step] for i in range(0, len(tensor), step)]


def difference(found, expected, dtype):
    """The worst difference, in units of the tolerance and absolute; infinite where only one of both is NaN."""
    if found.shape != expected.shape:
        raise Wrong(f"a result has the shape {list(found.shape)}, PyTorch's has {list(expected.shape)}")
    relative, of_mean, absolute = TOLERANCES[dtype]
    magnitudes = [piece.double().abs().mean().item() * len(piece) for piece in pieces(expected)]
    mean = sum(magnitudes) / max(1, len(expected) if expected.dim() else 1)
    floor = absolute + (of_mean * mean if math.isfinite(mean) else 0)
    worst = worst_absolute = 0.0
    for mine, theirs in zip(pieces(found), pieces(expected)):
        mine, theirs = mine.double(), theirs.double()
        same = (mine == theirs) | (mine.isnan() & theirs.isnan())  # infinities too
        off = torch.where(same, 0.0, (mine - theirs).abs())
        off = torch.where(off.isnan(), math.inf, off)
        worst_absolute = max(worst_absolute, off.max().item())
        units = torch.where(same, 0.0, off / (floor + relative * theirs.abs()))
        worst = max(worst, torch.where(units.isnan(), math.inf, units).max().item())
    return worst, worst_absolute


# ---- timing


class Copy:
    """tensor.copy_ of as many bytes as are read and written, half of them each way: the driver's copy. For some buffers that runs at 2.4 TB/s on an
    H100 where a kernel that reads and writes the same buffers runs at 3.0 (by_kernel), so a copy takes what the faster of both takes."""

    def __init__(self, count, sets):
        half = (count // 2 + 255) // 256 * 256
        self.sources = [torch.randint(0, 256, (half,), dtype=torch.uint8, device="cuda")]
        self.sources += [self.sources[0].clone() for _ in range(sets - 1)]
        self.targets = [torch.empty_like(source) for source in self.sources]

    def __call__(self, i):
        self.targets[i].copy_(self.sources[i])

    def by_kernel(self, i):
        """PyTorch's own pointwise kernel, 16 bytes per access."""
        torch.bitwise_not(self.sources[i].view(torch.int32), out=self.targets[i].view(torch.int32))


class Torch:
    """A function on the operands. Results are kept until their set's next turn, so that they rotate as EpiFuse's do."""

    def __init__(self, function, sets):
        self.function, self.sets = function, sets
        self.forget()

    def __call__(self, i):
        self.kept[i] = None
        self.kept[i] = self.function(*self.sets[i])

    def forget(self):
        self.kept = [None] * len(self.sets)


def row_major(function):
    """The function with its results in row-major order: PyTorch's would lie as the operands do."""
    def written(*operands):
        found = function(*operands)
        return tuple(one.contiguous() for one in found) if isinstance(found, tuple) else found.contiguous()

    return written


def capture(run, sets, launches):
    """A CUDA graph of that many launches in turn. The first calls, outside of it, compile. The caller keeps `run`
    alive, and with it the memory that the graph works on."""
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        for i in range(min(sets, 2)):
            run(i)
    torch.cuda.current_stream().wait_stream(side)
    wait("a warm-up")
    if isinstance(run, Torch):
        run.forget()  # the largest tensors leave no space for results twice
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        for i in range(launches):
            run(i % sets)
    return graph


def sample(graphs, seconds, flush=None, leader="copy"):
    """Seconds of each graph's replays, in turns of changing order: whoever follows a copy finds its results in the L2 cache, still to be written
    (1 % of what only reads). An untimed replay of the leader leads each batch, so that the GPU never waits. The graph `flush`
    is replayed before each timed one, where the buffers are too small to displace each other from the L2 cache."""
    times, order = collections.defaultdict(list), random.Random(1)
    for graph in graphs.values():
        graph.replay()
        wait("a first replay")
    start = time.monotonic()
    while len(times[leader]) < FEWEST_SAMPLES or time.monotonic() - start < seconds:
        events = []
        graphs[leader].replay()
        for name in [name for _ in range(BATCH) for name in order.sample(list(graphs), len(graphs))]:
            begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
            if flush:
                flush.replay()
            begin.record()
            graphs[name].replay()
            end.record()
            events.append((name, begin, end))
        torch.cuda.synchronize()
        for name, begin, end in events:
            times[name].append(begin.elapsed_time(end) * 1e-3)
    return times


@functools.cache
def big_copy_bandwidth():
    """Bytes read and written per second by a copy far larger than any cache."""
    copy, launches = Copy(2 * BIG_COPY, 1), 2
    times = sample({"copy": capture(copy, 1, launches), KERNEL: capture(copy.by_kernel, 1, launches)}, 0.1)
    del copy
    torch.cuda.empty_cache()
    return 2 * BIG_COPY * launches / min(map(statistics.median, times.values()))


def captured(contestants, sets, launches, problems):
    """A graph of each. Peers are left out where they fail, and `problems` says why; ours must not."""
    graphs = {}
    for name, run in contestants.items():
        try:
            graphs[name] = capture(run, sets, launches)
        except (Hang, torch.cuda.OutOfMemoryError):
            raise
        except Exception as problem:
            if name not in PEERS:
                raise
            problems[name] = f"{type(problem).__name__}: {str(problem).strip()}"[:MOST_DETAIL]
    return graphs


def measure(contestants, sets, launches, seconds, problems, flush=None):
    """Median seconds of one launch by contestant, how many samples that is the median of, and the seconds of both copies, of which "copy" is the
    faster."""
    graphs = captured({**contestants, KERNEL: contestants["copy"].by_kernel}, sets, launches, problems)
    times = sample(graphs, seconds, flush)
    found = {name: statistics.median(values) / launches for name, values in times.items()}
    copies = {"driver": found["copy"], "kernel": found.pop(KERNEL)}
    return found | {"copy": min(copies.values())}, len(times["copy"]), copies
