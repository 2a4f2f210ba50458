"""What EpiFuse leaves of a graph, compiled by PyTorch's own compiler (Inductor), with our kernels in it as operators
that take any layout: so convolutions run channels-last where tensor cores want it, and copies are fused. Which layouts
are best for a graph is measured at its first call. Inductor is entered by compile_fx, its configuration and operators
of torch.library, and by nothing else: these are the same in all releases of PyTorch that we support. Used by
_torch_backend.py."""

import contextlib
import logging

import torch
from torch.fx.experimental.proxy_tensor import make_fx

from . import _partition
from ._torch_ops import spell_order, spell_results

log = logging.getLogger("epifuse")

_aten = torch.ops.aten
ROUNDS = 3  # of each candidate, after one that compiles and one that warms


class Unsuited(Exception):
    """Why Inductor is not to compile a graph, in a sentence."""


def check_inputs(inputs):
    """Unsuited where Inductor lacks what it needs for these inputs."""
    if any(isinstance(one, torch.Tensor) and one.is_cuda for one in inputs):
        from torch.utils._triton import has_triton

        if not has_triton():
            raise Unsuited("Triton is missing")


# ---- the graph


def node_of(graph, launcher, written, operands, in_order, as_eager):
    """The node of a launch, which gives a list of tensors. A result that stays in the graph lies as its first operand
    does; one that leaves it too, or `as_eager` PyTorch's does, and so does one that is seen in another shape: that it
    can be follows from how it lies."""
    count = len([one for one in written.operands if _partition.tensor_of(one) is not None])
    orders = [
        order
        if (as_eager and _leaves(node)) or any(user.target in _partition.RESHAPES for user in node.users)
        else None
        for node, order in zip(written.results, written.orders)
    ]
    scalars = [
        graph.call_function(torch.sym_float, (one,)) if isinstance(one, torch.fx.Node) else float(one)
        for one in operands[count:]
    ]
    arguments = (list(operands[:count]), scalars, launcher.text, spell_results(written.dtypes, orders))
    wanted = ",".join(map(_order_of, written.operands[:count])) if in_order else ""
    return graph.call_function(torch.ops.epifuse.launch.default, (*arguments, wanted if wanted.strip(",") else ""))


def _order_of(node):
    """How an operand lies while the graph is traced, for the operator: nothing where a copy in that order is not ours
    to make, or cannot matter."""
    tensor = _partition.tensor_of(node)
    order = _partition.memory_order(tensor) if tensor.dim() > 1 and _partition.has_type(tensor) else None
    return spell_order(order)


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

    results = next(node for node in module.graph.nodes if node.op == "output")
    with torch._guards.detect_fake_mode(inputs) or contextlib.nullcontext():
        made = make_fx(torch.fx.Interpreter(module).run, decomposition_table=select_decomp_table())(*inputs)
    next(node for node in made.graph.nodes if node.op == "output").meta.update(results.meta)
    return made


# ---- compiling


def compiled(module, inputs, patches, decompositions, cut):
    """Dynamo's graph as a function, compiled by Inductor. `cut` gets the phase ("inference", "forward" or "backward"), a
    graph of ATen's operations and its inputs, and gives the graph with our operators. `patches`: of Inductor's
    configuration."""
    from torch._functorch import config as functorch
    from torch._inductor.compile_fx import compile_fx, compile_fx_inner

    def inner(graph_module, example_inputs, **named):
        named.pop("get_decomp_fn", None)  # the graph's operations are Inductor's own by then
        phase = "backward" if named.get("is_backward") else "inference" if named.get("is_inference") else "forward"
        graph = cut(phase, graph_module, example_inputs)
        return compile_fx_inner(_decomposed(graph, example_inputs), example_inputs, **named)

    # From AOTAutograd's cache a graph would come without being cut: nobody would know of its kernels, and they would be
    # those that suit another GPU. Inductor's own cache holds what takes the time.
    with functorch.patch(enable_autograd_cache=False, enable_remote_autograd_cache=False):
        return compile_fx(module, inputs, inner_compile=inner, config_patches=patches, decompositions=decompositions)


def fastest(candidates, times):
    """That of several forms of one graph which is fastest at the first call; the first where that is a capture. Writes
    the milliseconds into `times`. `candidates` and `times` are by name."""
    chosen = []

    def run(*arguments):
        if not chosen:
            if torch.cuda.is_current_stream_capturing():
                return next(iter(candidates.values()))(*arguments)
            times.update(_measure(candidates, arguments))
            chosen.append(candidates[min(times, key=times.__getitem__)] if times else next(iter(candidates.values())))
            candidates.clear()
            log.info("layouts measured: %s", ", ".join(f"{name} {one:.3f} ms" for name, one in times.items()))
        return chosen[0](*arguments)

    return run


def _measure(candidates, arguments):
    """The best of some calls of each, in turn, without those that fail. Only graphs that write nothing come here."""
    best = dict.fromkeys(candidates, float("inf"))
    for turn in range(-2, ROUNDS):
        for name in list(best):
            begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
            begin.record()
            try:
                candidates[name](*arguments)
            except Exception:  # no memory for its copies, most likely: the others may do without
                log.warning("the layout '%s' failed", name, exc_info=True)
                del best[name]
                continue
            end.record()
            torch.cuda.synchronize()
            if turn >= 0:
                best[name] = min(best[name], begin.elapsed_time(end))
    return best
