"""What EpiFuse leaves of a graph, compiled by PyTorch's own compiler (Inductor), with our kernels in it as operators
that take any layout: so convolutions run channels-last where tensor cores want it, and copies are fused. Which layouts
are best for a graph is measured at its first call. Used by _torch_backend.py."""

import contextlib
import logging

import torch
from torch.fx.experimental.proxy_tensor import make_fx

from . import _partition
from ._torch_ops import spell_results

log = logging.getLogger("epifuse")

_aten = torch.ops.aten
ROUNDS = 3  # of each candidate, after one that compiles and one that warms


def why_not(graph, inputs):
    """Why Inductor cannot compile the graph for these inputs, or None."""
    if any(torch.Tag.nondeterministic_seeded in getattr(node.target, "tags", ()) for node in graph.nodes):
        return "the graph draws random numbers, and Inductor's are others"
    if any(isinstance(one, torch.Tensor) and one.is_cuda for one in inputs):
        from torch.utils._triton import has_triton

        if not has_triton():
            return "Triton is missing"
    return None


# ---- the graph


def node_of(graph, launcher, written, operands, in_order, as_eager):
    """The node of a launch, which gives a list of tensors. A result that stays in the graph lies as its first operand
    does; one that leaves it too, or `as_eager` PyTorch's does, and so does one that is seen in another shape: that it
    can be follows from how it lies."""
    count = len([one for one in written.operands if _partition.tensor_of(one) is not None])
    orders = [
        order if (as_eager and _leaves(node)) or any(user.target in _partition.RESHAPES for user in node.users) else None
        for node, order in zip(written.results, written.orders)
    ]
    target = torch.ops.epifuse.tail_in_order if in_order else torch.ops.epifuse.tail
    scalars = [
        graph.call_function(torch.sym_float, (one,)) if isinstance(one, torch.fx.Node) else float(one)
        for one in operands[count:]
    ]
    arguments = (list(operands[:count]), scalars, launcher.text, spell_results(written.dtypes, orders))
    return graph.call_function(target.default, arguments)


def _leaves(node):
    """Whether the graph gives the tensor, or a view of it, to its caller; or something counts on its strides."""
    for user in node.users:
        if user.op == "output" or user.target in (_aten.as_strided.default, _aten.copy_.default):
            return True
        if _partition.is_view(user) and _leaves(user):
            return True
    return False


def _decomposed(module, inputs):
    """The graph in the operations that Inductor has."""
    from torch._inductor.decomposition import select_decomp_table

    fake = torch._guards.detect_fake_mode(inputs)
    with fake or contextlib.nullcontext():
        return make_fx(torch.fx.Interpreter(module).run, decomposition_table=select_decomp_table())(*inputs)


# ---- compiling


def compiled(module, inputs, patches, first):
    """A graph as a function of a list of arguments. `patches`: of Inductor's configuration. Only the first form of a
    graph may tell AOTAutograd of its results' strides, which are the same for all."""
    told = contextlib.nullcontext() if first else torch._guards.TracingContext.report_output_strides()
    from torch._inductor import compile_fx, config

    from . import _lowering  # which imports all of Inductor

    _lowering.register()
    with config.patch(patches), told:
        module = _decomposed(module, inputs)
        results = next(node for node in module.graph.nodes if node.op == "output")
        results.meta["user_visible_output_idxs"] = [
            i for i, one in enumerate(results.args[0]) if isinstance(one, torch.fx.Node) and config.keep_output_stride
        ]
        extra = compile_fx.create_compiler_config_extra(config)
        return compile_fx.compile_fx_inner(
            module,
            inputs,
            static_input_idxs=compile_fx.get_static_input_idxs(0),
            cudagraphs=extra.cudagraphs,
            graph_id=extra.graph_id,
            boxed_forward_device_index=extra.forward_device,
            is_inference=True,
        )


def fastest(candidates, times):
    """That of several forms of one graph which is fastest at the first call; the first where that is a capture. Writes
    the milliseconds into `times`. `candidates` and `times` are by name."""
    chosen = []

    def run(arguments):
        if not chosen:
            if torch.cuda.is_current_stream_capturing():
                return next(iter(candidates.values()))(arguments)
            times.update(_measure(candidates, arguments))
            chosen.append(candidates[min(times, key=times.__getitem__)] if times else next(iter(candidates.values())))
            candidates.clear()
            log.info("layouts measured: %s", ", ".join(f"{name} {one:.3f} ms" for name, one in times.items()))
        return chosen[0](arguments)

    run._boxed_call = True
    return run


def _measure(candidates, arguments):
    """The best of some calls of each, in turn, without those that fail. Only graphs that write nothing come here."""
    best = dict.fromkeys(candidates, float("inf"))
    for turn in range(-2, ROUNDS):
        for name in list(best):
            begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
            begin.record()
            try:
                candidates[name](list(arguments))
            except Exception:  # no memory for its copies, most likely: the others may do without
                log.warning("the layout '%s' failed", name, exc_info=True)
                del best[name]
                continue
            end.record()
            torch.cuda.synchronize()
            if turn >= 0:
                best[name] = min(best[name], begin.elapsed_time(end))
    return best
