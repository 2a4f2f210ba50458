"""The package on a GPU: PyTorch's, CuPy's and JAX's arrays, streams, graphs, compile threads, torch.compile. Skipped
where there is none."""

import ctypes
import threading
import time

import numpy as np
import pytest
from tails import as_written

import epifuse

TAIL = as_written("(minimum(x, 0.5) + bias) * 2")


@pytest.fixture(scope="module")
def torch():
    module = pytest.importorskip("torch")
    if not module.cuda.is_available():
        pytest.skip("this PyTorch sees no GPU")
    return module


@pytest.fixture(scope="module")
def cupy():
    return pytest.importorskip("cupy")


def operands(torch, dtype=None, shape=(4, 8, 62, 61)):
    torch.manual_seed(0)
    return torch.randn(shape, device="cuda").to(dtype or torch.float32), torch.randn((shape[1], 1, 1), device="cuda")


def expected(x, bias):
    return (x.float().clamp(max=0.5) + bias) * 2


@pytest.mark.parametrize("name", ["float64", "float32", "float16", "bfloat16", "float8_e4m3fn", "float8_e5m2"])
def test_torch_types(torch, name):
    x, bias = operands(torch, getattr(torch, name))
    y = TAIL(x, bias.to(x.dtype))
    assert y.is_cuda and y.dtype == x.dtype
    rounded = expected(x, bias.to(x.dtype).float()).to(x.dtype)
    torch.testing.assert_close(y.float(), rounded.float(), rtol=1e-6, atol=1e-6)
    wide = TAIL(x, bias)  # a bias in f32
    assert wide.dtype == (torch.float64 if name == "float64" else torch.float32)
    torch.testing.assert_close(wide.float(), expected(x, bias), rtol=1e-6, atol=1e-6)


def test_torch_layouts(torch):
    x, bias = operands(torch)
    last = x.to(memory_format=torch.channels_last)
    y = TAIL(last, bias)
    assert y.is_contiguous(memory_format=torch.channels_last)
    torch.testing.assert_close(y, expected(x, bias))
    torch.testing.assert_close(TAIL(x[:, :, ::3, 1:], bias), expected(x[:, :, ::3, 1:], bias))
    assert TAIL(x, bias, out=x) is x


class Gate:
    """What a stream waits for until the test opens it: no clock decides."""

    def __init__(self, torch):
        self.flag = torch.zeros(1, dtype=torch.int32, pin_memory=True)

    def hold(self, stream):
        driver = ctypes.CDLL("libcuda.so.1")
        at_least = 0
        found = driver.cuStreamWaitValue32_v2(
            ctypes.c_void_p(stream.cuda_stream), ctypes.c_uint64(self.flag.data_ptr()), ctypes.c_uint32(1), at_least
        )
        assert found == 0, f"cuStreamWaitValue32: {found}"

    def __enter__(self):
        return self

    def __exit__(self, *problem):
        self.flag[0] = 1


def test_it_runs_on_the_current_stream(torch):
    x, bias = operands(torch)
    out, seen = torch.empty_like(x), torch.empty_like(x)
    stream = torch.cuda.Stream()
    with torch.cuda.stream(stream):  # loads every kernel and copy below: loading some waits for the device
        x.fill_(0)
        TAIL(x, bias, out=out)
    torch.cuda.synchronize()
    seen.copy_(out.fill_(-7))
    torch.cuda.synchronize()
    with Gate(torch) as gate:
        gate.hold(stream)
        with torch.cuda.stream(stream):
            x.fill_(1)
            TAIL(x, bias, out=out)
        seen.copy_(out)  # on the default stream, behind whatever the call put there
        torch.cuda.default_stream().synchronize()
        assert not stream.query()
    torch.cuda.synchronize()
    torch.testing.assert_close(seen, torch.full_like(seen, -7))
    torch.testing.assert_close(out, expected(torch.ones_like(x), bias))


def test_what_is_deleted_after_the_call_is_read_before(torch):
    x, bias = operands(torch)
    want = expected(x, bias)
    torch.cuda._sleep(50_000_000)
    y = TAIL(x, bias)
    del x
    noise = [
        torch.full((4, 8, 62, 61), float("nan"), device="cuda") for _ in range(4)
    ]  # the same memory, in the stream's order
    torch.testing.assert_close(y, want)
    del noise


def test_an_exited_stream_leaves_nothing_behind(torch):
    x, bias = operands(torch)
    for _ in range(20):
        stream = torch.cuda.Stream()
        stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(stream):
            y = TAIL(x, bias)
        torch.cuda.current_stream().wait_stream(stream)
        del stream
        torch.testing.assert_close(y, expected(x, bias))


def test_memory_waits_for_recorded_streams(torch):
    x, bias = operands(torch)
    side = torch.cuda.Stream()
    y = TAIL(x, bias)
    want = y.clone()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        torch.cuda._sleep(50_000_000)
        z = y + 0
    y.record_stream(side)
    del y
    noise = [
        torch.full_like(want, float("nan")) for _ in range(4)
    ]  # would take y's memory if nobody had asked it to wait
    torch.cuda.synchronize()
    torch.testing.assert_close(z, want)
    del noise


def test_cuda_graphs(torch):
    x, bias = operands(torch)
    tail = as_written("t = x + bias; softmax(t, axis=-1)")
    tail.prepare(x, bias)
    y = tail(x, bias)
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        y = tail(x, bias)
    x.normal_()
    graph.replay()
    torch.testing.assert_close(y, torch.softmax(x + bias, -1))


def test_devices_do_not_mix(torch):
    x, bias = operands(torch)
    with pytest.raises(ValueError, match="lies on cpu, but the first array on cuda:0"):
        TAIL(x, bias.cpu())


def test_one_kernel_serves_all_shapes(torch):
    tail = as_written("relu(x + bias) * 3")
    kernels = set()
    for batch in (1, 2, 7, 64):
        x = torch.randn(batch, 32, 64, device="cuda")
        tail(x, torch.randn(64, device="cuda"))
        kernels.add(epifuse.stats()["cuda:0"]["kernels"])
    assert len(kernels) == 1


def test_compiling_holds_no_lock_of_python(torch):
    x, bias = operands(torch)
    ticks, stop = [], threading.Event()

    def tick():
        while not stop.is_set():
            ticks.append(time.perf_counter())
            time.sleep(1e-3)

    thread = threading.Thread(target=tick)
    thread.start()
    chain = " + ".join(f"gelu(x * {i}.5) * erf(bias - {i})" for i in range(40))
    begin = time.perf_counter()
    as_written(chain).prepare(x, bias)
    took = time.perf_counter() - begin
    stop.set()
    thread.join()
    gaps = np.diff([one for one in ticks if one >= begin])
    assert took > 0.05 and gaps.max() < took / 2


def test_cupy(cupy):
    x = cupy.random.standard_normal((8, 16, 33), dtype=cupy.float32)
    bias = cupy.ones((16, 1), cupy.float32)
    y = TAIL(x, bias)
    assert isinstance(y, cupy.ndarray)
    cupy.testing.assert_allclose(y, (cupy.minimum(x, 0.5) + bias) * 2, rtol=1e-6)
    assert TAIL(x.astype(cupy.float16), bias.astype(cupy.float16)).dtype == cupy.float16
    stream = cupy.cuda.Stream(non_blocking=True)
    with stream:
        z = TAIL(x, bias)
    stream.synchronize()
    cupy.testing.assert_allclose(z, y)
    turned = x.transpose(2, 0, 1)
    assert TAIL(turned, cupy.ones(16, cupy.float32)).strides == turned.strides


def test_cupy_and_torch_mix(cupy, torch):
    x = torch.randn(8, 16, 33, device="cuda")
    bias = cupy.ones((16, 1), cupy.float32)
    y = TAIL(x, bias)
    assert isinstance(y, torch.Tensor)
    torch.testing.assert_close(y, (x.clamp(max=0.5) + 1) * 2)
    z = TAIL(cupy.asarray(x), torch.ones(16, 1, device="cuda"))
    assert isinstance(z, cupy.ndarray)


def test_jax():
    jax = pytest.importorskip("jax")
    try:
        device = jax.devices("gpu")[0]
    except RuntimeError as problem:
        pytest.skip(f"this JAX sees no GPU: {problem}")
    x = jax.device_put(np.random.default_rng(0).standard_normal((8, 16, 33), dtype=np.float32), device)
    bias = jax.numpy.ones((16, 1), "float32", device=device)
    for _ in range(3):
        y = TAIL(x, bias)
        x = x * 1.0
    assert isinstance(y, jax.Array) and y.devices() == {device}
    np.testing.assert_allclose(np.asarray(y), (np.minimum(np.asarray(x), 0.5) + 1) * 2, rtol=1e-6)
    assert TAIL(x.astype("bfloat16"), bias.astype("bfloat16")).dtype == jax.numpy.bfloat16


@pytest.mark.parametrize("number", [1, 17, 21, 27, 31, 51, 91, 99])
def test_problems_of_kernelbench(torch, number):
    import level2

    torch._dynamo.reset()
    torch.manual_seed(0)
    names = {}
    exec(level2.text(number, small=True), names)
    model = names["Model"](*names["get_init_inputs"]()).eval().cuda()
    for dtype, tolerance in ((torch.float32, 1e-3), (torch.float16, 2e-2)):
        model = model.to(dtype)
        inputs = [one.cuda().to(dtype) for one in names["get_inputs"]()]
        with torch.no_grad():
            want = model(*inputs)
            found = torch.compile(model, backend="epifuse")(*inputs)
        torch.testing.assert_close(found, want, rtol=tolerance, atol=tolerance)
        report = epifuse.reports()[-1]
        assert len(report.kernels) == 1 and not report.fallback


def kernels_of(torch, run, *inputs):
    """Names of the kernels of a call."""
    from torch.profiler import ProfilerActivity, profile

    torch.cuda.synchronize()
    with profile(activities=[ProfilerActivity.CUDA]) as found:
        run(*inputs)
        torch.cuda.synchronize()
    return [event.name for event in found.events() if event.device_type.name == "CUDA"]


def test_a_number_on_the_device_is_a_number_of_the_chain(torch):
    """As level 2's problem 93 has it: torch.tensor(0.0, device=x.device) is made once, and no kernel reads it."""
    torch._dynamo.reset()

    def tail(x):
        return torch.minimum(x + 0.5, torch.tensor(0.25, device=x.device)) * 2

    x = torch.randn(64, 96, device="cuda")
    with torch.no_grad():
        run = torch.compile(tail, backend="epifuse")
        torch.testing.assert_close(run(x), tail(x))
        kernels = kernels_of(torch, run, x)
    assert "0.25" in epifuse.reports()[-1].kernels[0]
    assert len(kernels) == 1 and "epifuse" in kernels[0], kernels


@pytest.mark.parametrize("number", [1, 17, 91])
def test_a_convolution_and_its_tail_need_no_copies_of_the_result(torch, number):
    """The image is turned to channels-last before the convolution, and its weights; behind it stands the tail alone. But
    the rows of an instance norm or a softmax a kernel of ours turns back, in the same launch."""
    import level2
    from torch._inductor.utils import run_and_get_code

    torch._dynamo.reset()
    names = {}
    exec(level2.text(number, small=True), names)
    model = names["Model"](*names["get_init_inputs"]()).eval().cuda().half()
    x = names["get_inputs"]()[0].cuda().half()
    with torch.no_grad(), torch._inductor.config.patch(fx_graph_cache=False):
        run = torch.compile(model, backend="epifuse", options={"tune": False})
        found, (code,) = run_and_get_code(run, x)
        torch.testing.assert_close(found, model(x), rtol=2e-2, atol=2e-2)
        kernels = kernels_of(torch, run, x)
    assert found.stride() == model(x).stride()
    after = code[code.index("extern_kernels.convolution(") :]
    turned_back = number in (17, 91)
    assert sum("epifuse" in name for name in kernels) == 1 + turned_back, kernels
    assert code.count("torch.ops.epifuse.launch.default(") == 1 and ".contiguous(" not in code
    assert "torch.ops.epifuse.launch_over." not in code
    assert after.count(".run(") == 0, after
    # Inductor doubts it behind what it does not know to be aligned; its own kernels then read the result by elements.
    assert "assumed to be not aligned" not in code


@pytest.mark.parametrize("dtype", ["float32", "float16"])
@pytest.mark.parametrize("number", [7, 49, 9])
def test_a_tail_is_written_over_what_was_made_for_it(torch, number, dtype):
    """The same graph needs less memory than where Inductor's switch for buffers in place is off; inputs stay as they
    are, and calls repeat."""
    import level2
    from torch._inductor.utils import run_and_get_code

    names = {}
    exec(level2.text(number, small=True), names)
    model = names["Model"](*names["get_init_inputs"]()).eval().cuda().to(getattr(torch, dtype))
    x = torch.cat([names["get_inputs"]()[0]] * 64).cuda().to(getattr(torch, dtype))
    kept, peaks = x.clone(), {}
    with torch.no_grad():
        want = model(x)
        for over in (True, False):
            torch._dynamo.reset()
            with torch._inductor.config.patch(fx_graph_cache=False, inplace_buffers=over):
                run = torch.compile(model, backend="epifuse", options={"tune": False})
                found, (code,) = run_and_get_code(run, x)
            assert ("torch.ops.epifuse.launch_over.default(" in code) == over
            for _ in range(3):
                torch.testing.assert_close(run(x), found, rtol=0, atol=0)
            torch.testing.assert_close(found, want, rtol=2e-2, atol=2e-2)
            del found
            torch.cuda.reset_peak_memory_stats()
            run(x)
            peaks[over] = torch.cuda.max_memory_allocated()
    assert torch.equal(x, kept)
    if number == 9:  # a matrix product; what cuDNN needs for itself hides it elsewhere
        assert peaks[True] < peaks[False], peaks


def test_layouts_are_measured_and_one_is_kept(torch):
    import level2

    torch._dynamo.reset()
    names = {}
    exec(level2.text(17, small=True), names)
    model = names["Model"](*names["get_init_inputs"]()).eval().cuda()
    with torch.no_grad():
        run = torch.compile(model, backend="epifuse")
        for _ in range(3):
            x = names["get_inputs"]()[0].cuda()
            torch.testing.assert_close(run(x), model(x), rtol=1e-3, atol=1e-3)
    report = epifuse.reports()[-1]
    assert report.producers == "inductor" and len(report.layouts) == 3 and min(report.layouts.values()) > 0


def test_reduce_overhead(torch):
    """torch.compile's own CUDA graphs hold our kernels."""
    import level2

    torch._dynamo.reset()
    names = {}
    exec(level2.text(21, small=True), names)
    model = names["Model"](*names["get_init_inputs"]()).eval().cuda()
    with torch.no_grad():
        run = torch.compile(model, backend="epifuse", mode="reduce-overhead")
        for _ in range(5):
            x = names["get_inputs"]()[0].cuda()
            torch.testing.assert_close(run(x), model(x), rtol=1e-3, atol=1e-3)


@pytest.mark.parametrize("dtype", ["float64", "float32", "float16", "bfloat16", "float8_e5m2"])
@pytest.mark.parametrize("shape", [(3, 64, 60, 61), (2, 24, 126, 126), (2, 7, 33, 65), (1, 130, 8, 16)])
def test_channels_last_into_row_major(torch, dtype, shape):
    x, bias = operands(torch, getattr(torch, dtype), shape)
    last = x.to(memory_format=torch.channels_last)
    out = torch.empty(shape, dtype=x.dtype, device="cuda")
    assert TAIL(last, bias, out=out) is out and out.is_contiguous()
    torch.testing.assert_close(out.float(), expected(x, bias).to(x.dtype).float(), rtol=1e-6, atol=1e-6)


def test_dynamic_shapes_do_not_recompile_kernels(torch):
    import level2

    torch._dynamo.reset()
    names = {}
    exec(level2.text(21, small=True), names)
    model = names["Model"](*names["get_init_inputs"]()).eval().cuda()
    run = torch.compile(model, backend="epifuse", dynamic=True)
    kernels = []
    with torch.no_grad():
        for batch in (2, 3, 5, 9):
            x = torch.rand(batch, *names["get_inputs"]()[0].shape[1:], device="cuda")
            torch.testing.assert_close(run(x), model(x), rtol=1e-3, atol=1e-3)
            kernels.append(epifuse.stats()["cuda:0"]["kernels"])
    assert len(set(kernels)) == 1


def test_a_compiled_model_in_a_cuda_graph(torch):
    import level2

    torch._dynamo.reset()
    names = {}
    exec(level2.text(1, small=True), names)
    model = names["Model"](*names["get_init_inputs"]()).eval().cuda()
    run = torch.compile(model, backend="epifuse")
    x = names["get_inputs"]()[0].cuda()
    with torch.no_grad():
        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            run(x)
        torch.cuda.current_stream().wait_stream(side)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            y = run(x)
        x.uniform_()
        graph.replay()
        torch.testing.assert_close(y, model(x), rtol=1e-3, atol=1e-3)
