"""torch.compile(model, backend="epifuse"): every maximal run of operations that a chain has becomes EpiFuse kernels,
the rest stays PyTorch's, compiled by its own compiler or as eager PyTorch runs it.

The graph comes functional and in ATen operations from AOTAutograd. _partition.py finds the runs; here they become
launches."""

import collections
import copy
import dataclasses
import functools
import logging
import math
import operator
import os
import sys

import torch
import torch.fx
from functorch.compile import min_cut_rematerialization_partition
from torch._decomp import get_decompositions
from torch._dynamo.backends.common import aot_autograd
from torch._dynamo.exc import RestartAnalysis
from torch.autograd import forward_ad

from . import _inductor, _layout, _partition, _shapes, _sizes, _spelled
from ._core import Launcher

log = logging.getLogger("epifuse")
REPORTS: collections.deque = collections.deque(maxlen=256)
ASKED_FOR = "asked for"

_aten = torch.ops.aten

# What AOTAutograd takes apart, because a chain has the parts and not the whole. Norms, softmax and activations of
# EpiFuse's own table stay whole; of backward passes all goes to parts. Not every PyTorch has all of them.
_TAKEN_APART = """addcmul addcdiv lerp hypot xlogy logit special_xlog1py nan_to_num softshrink hardshrink _native_batch_norm_legit
    _native_batch_norm_legit_functional _batch_norm_with_update_functional
    native_batch_norm std_mean glu heaviside frac deg2rad rad2deg mse_loss smooth_l1_loss huber_loss
    log_sigmoid_forward rrelu_with_noise threshold
    threshold_backward sigmoid_backward tanh_backward gelu_backward silu_backward elu_backward hardsigmoid_backward
    hardswish_backward hardtanh_backward leaky_relu_backward mish_backward softplus_backward log_sigmoid_backward
    glu_backward logit_backward _prelu_kernel_backward mse_loss_backward
    smooth_l1_loss_backward huber_loss_backward binary_cross_entropy_backward native_dropout_backward
    _softmax_backward_data _log_softmax_backward_data native_layer_norm_backward native_group_norm_backward
    native_batch_norm_backward batch_norm_backward _fused_rms_norm_backward""".split()
_DECOMPOSED = get_decompositions(
    [_aten.std.correction, *(getattr(_aten, name) for name in _TAKEN_APART if hasattr(_aten, name))]
)
_DECOMPOSED.pop(_aten.threshold.default, None)
_DECOMPOSED.pop(_aten.log_sigmoid_forward.default, None)


def _or_whole(operation, decomposition):
    """The parts; the operation as it is where its parts refuse what it takes, or give a result that lies otherwise."""

    @functools.wraps(decomposition)
    def parts(*args, **kwargs):
        try:
            made = decomposition(*args, **kwargs)
        except (RuntimeError, TypeError, ValueError):
            return NotImplemented
        alike = _layout.LIES_LIKE.get(operation)
        whole = alike and all(isinstance(one, torch.Tensor) for one in args)
        return NotImplemented if whole and _layout.order_of(alike, *args) != _partition.memory_order(made) else made

    return parts


_DECOMPOSED = {operation: _or_whole(operation, decomposition) for operation, decomposition in _DECOMPOSED.items()}


def _quotient(self, other):
    """Integers divide to a float. The conversion is spelled out, because the fake kernel of PyTorch 2.7 gives the
    quotient the integers' type where extents are symbols."""
    is_float = any(one.is_floating_point() or one.is_complex() for one in (self, other) if isinstance(one, torch.Tensor))
    if is_float or not isinstance(other, (torch.Tensor, int)):
        return NotImplemented
    return self.to(torch.get_default_dtype()) / other


_DECOMPOSED[_aten.div.Tensor] = _quotient


@dataclasses.dataclass
class GraphReport:
    """What became of one graph."""

    kernels: list  # the chain of each kernel
    fused: list  # the operations of each kernel, by name
    origins: list  # what these were in the model and its gradient, before AOTAutograd took them apart
    left: collections.Counter  # operations left to PyTorch: (name, why) and how many
    phase: str = "inference"  # or "forward" and "backward" of training
    producers: str = "eager"  # who runs what is left: "inductor" or "eager"
    why_eager: str = ""  # and why not Inductor
    layouts: dict = dataclasses.field(default_factory=dict)  # milliseconds of each that was measured, at the first call
    turned: int = 0  # convolutions that eager PyTorch runs channels-last, and did not
    fallback: str = ""  # why the whole graph was left to PyTorch
    text: str = ""  # the graph as it runs


def _set_up_log():
    """EPIFUSE_LOG=info, as of the library: to standard error, unless the application has set the logger up."""
    level = {"trace": "DEBUG", "debug": "DEBUG", "info": "INFO", "warn": "WARNING", "err": "ERROR"}.get(
        os.environ.get("EPIFUSE_LOG", "")
    )
    if level and not log.handlers and log.level == logging.NOTSET:
        handler = logging.StreamHandler(sys.stderr)
        handler.setFormatter(logging.Formatter("[epifuse] [%(levelname)s] %(message)s"))
        log.addHandler(handler)
        log.setLevel(level)


@dataclasses.dataclass(frozen=True)
class Settings:
    """The options of the backend."""

    producers: str = "inductor"  # who runs what is left: Inductor, or "eager" PyTorch
    tune: bool = True  # the layouts of convolutions are measured at the first call
    channels_last: bool = False  # images may leave the graph in this order
    mode: str = ""  # of torch.compile, for Inductor
    gemm: bool = False  # what stands behind a matrix product or a convolution may run in its kernel

    @classmethod
    def of(cls, given):
        known = [field.name for field in dataclasses.fields(cls)]
        for name in given:
            if name not in known:
                raise TypeError(f"the backend epifuse has no option {name!r}; it has: {', '.join(known)}")
        settings = cls(**given)
        if settings.producers not in ("inductor", "eager"):
            raise ValueError(f"producers is 'inductor' or 'eager', found {settings.producers!r}")
        return settings

    def patches(self):
        """Of Inductor's configuration. Random numbers stay PyTorch's own operations, which draw from the generators that
        eager PyTorch draws from."""
        from torch._inductor import config, list_mode_options

        from ._in_place import InPlace

        return {
            "keep_output_stride": not self.channels_last,
            "fallback_random": True,
            "post_grad_custom_post_pass": InPlace(repr(self), config.post_grad_custom_post_pass),
        } | (list_mode_options(self.mode) if self.mode else {})


def backend(module, example_inputs, **options):
    """The backend: takes Dynamo's graph, gives a function. Unknown options are refused, so that a typing error is
    seen."""
    _set_up_log()
    settings = Settings.of({**options.pop("options", {}), **options})
    _spelled.spell_out(module)
    return _unless_tangents(_compile(settings, module, example_inputs), module)


def _unless_tangents(compiled, module):
    """The compiled graph; eager PyTorch's in calls that take forward-mode derivatives, which kernels have not."""

    def run(*arguments):
        return compiled(*arguments) if forward_ad._current_level < 0 else module.forward(*arguments)

    return run


def _compile(settings, module, example_inputs):
    """Dynamo's graph as a function: by Inductor, or where it cannot or is not to, with eager PyTorch."""
    try:
        if settings.producers == "eager":
            raise _inductor.Unsuited(ASKED_FOR)
        _inductor.check_inputs(example_inputs)
        return _compile_for_inductor(settings, module, example_inputs)
    except _inductor.Unsuited as unsuited:
        why = str(unsuited)
        log.info("what is left runs as eager PyTorch: %s", why)
    except RestartAnalysis:
        raise  # Dynamo traces the model again, with what Inductor's passes told it
    except Exception as problem:  # whatever Inductor or a compiler behind it lacks: eager PyTorch has it
        why = f"Inductor failed: {type(problem).__name__}: {problem}"
        log.warning("what is left runs as eager PyTorch: Inductor failed", exc_info=True)
    compilers = {
        f"{name}_compiler": functools.partial(_compile_for_eager, settings, why, phase=phase)
        for name, phase in (("inference", "inference"), ("fw", "forward"), ("bw", "backward"))
    }
    return aot_autograd(
        **compilers, partition_fn=min_cut_rematerialization_partition, decompositions=_DECOMPOSED
    )(module, example_inputs)


def _compile_for_eager(settings, why, module, example_inputs, phase="inference"):
    """An ATen graph with its runs as launches. Called by AOTAutograd."""
    try:
        compiled, report = _rewrite_for_eager(_copied(module), settings.channels_last, settings.gemm)
    except Exception:  # whatever PyTorch's graph holds: the model runs, and the log says why it is not faster
        log.warning(
            "graph of %d nodes left to PyTorch: EpiFuse's partitioner failed", len(module.graph.nodes), exc_info=True
        )
        compiled, report = module, GraphReport([], [], [], collections.Counter(), fallback="the partitioner failed")
    report.why_eager, report.phase = why, phase
    REPORTS.append(report)
    _tell(report)

    def run(arguments):
        values = list(arguments)
        arguments.clear()  # the boxed convention: memory can go as the graph runs
        return compiled.forward(*values)

    run._boxed_call = True
    return run


class _Cut:
    """Cuts the ATen graphs that Inductor has of Dynamo's, one or two, and keeps what it found."""

    def __init__(self, settings, in_order):
        self.settings, self.in_order = settings, in_order
        self.reports, self.reduces, self.may_be_measured = [], False, False

    def __call__(self, phase, module, inputs):
        _layout.take_apart(module.graph)
        groups, left = _groups_of(module.graph, self.settings.gemm)
        self.reduces = any(_shapes.reduces(Launcher(group.chain().text).values()) for group in groups)
        self.may_be_measured = phase == "inference" and _layout.may_be_measured(module.graph, inputs)
        launch = functools.partial(_inductor_node, self.in_order, not self.settings.channels_last)
        graph, report = _rewrite(module, groups, left, launch)
        report.producers, report.phase = "inductor", phase
        self.reports.append(report)
        return graph

    def tell(self):
        """Tells of the graphs; those of a backward pass may come later."""
        for report in self.reports:
            REPORTS.append(report)
            _tell(report)
        self.reports = _Told()


class _Told:
    """Takes a report and tells at once."""

    def append(self, report):
        REPORTS.append(report)
        _tell(report)


def _compile_for_inductor(settings, module, inputs):
    def compiled(in_order, patches):
        cut, patches = _Cut(settings, in_order), settings.patches() | patches
        return _inductor.compiled(_dynamos(module), inputs, patches, _DECOMPOSED, cut), cut

    # Reductions along the rows of an image are fast where rows lie so in memory: a copy may pay.
    run, cut = compiled(True, {})
    if settings.tune and not settings.mode and cut.may_be_measured:
        forms = {"channels-last, rows copied" if cut.reduces else "channels-last": run}
        if cut.reduces:
            forms["channels-last"], _ = compiled(False, {})
        if not settings.channels_last:
            forms["as given"], _ = compiled(True, {"layout_optimization": False})
        if len(forms) > 1:
            run = _inductor.fastest(forms, cut.reports[0].layouts)
    cut.tell()
    return run


def _dynamos(module):
    """A copy of Dynamo's graph: who compiles it owns it."""
    made = torch.fx.GraphModule(module, copy.deepcopy(module.graph))
    made.meta = dict(module.meta)
    return made


def _tell(report):
    fused = sum(len(names) for names in report.fused)
    left = ", ".join(
        f"{name}{f' ×{count}' if count > 1 else ''} ({why})" for (name, why), count in sorted(report.left.items())
    )
    log.info(
        "%s: %d of %d operations became %d kernel%s; left to PyTorch: %s",
        report.phase,
        fused,
        fused + sum(report.left.values()),
        len(report.kernels),
        "" if len(report.kernels) == 1 else "s",
        left or "nothing",
    )
    if report.turned:
        log.info("%d convolutions run channels-last", report.turned)
    for chain, names in zip(report.kernels, report.fused):
        log.info("kernel of %s: %s", ", ".join(names), chain)


def _copied(module):
    graph, new = torch.fx.Graph(), {}
    for node in module.graph.nodes:
        new[node] = graph.node_copy(node, new.__getitem__)
    return torch.fx.GraphModule(module, graph)


def _groups_of(graph, gemm):
    """What becomes a kernel each of a graph that is taken apart, and what is left."""
    _sizes.ask_what_is_in_memory(graph)
    groups, left = _partition.partition(graph, gemm)
    return _layout.join_biases(graph, groups), left


def _rewrite_for_eager(module, everywhere, gemm):
    _layout.lie_as_computed(module.graph)
    _layout.take_apart(module.graph)
    turned = _layout.channels_last(module.graph, everywhere)
    groups, left = _groups_of(module.graph, gemm)
    compiled, report = _rewrite(module, groups, left, _eager_node)
    report.turned = turned
    return compiled, report


def _rewrite(module, groups, left, launch):
    """The graph with a node of `launch` for each group."""
    graph = torch.fx.Graph()
    new = {}
    kernels, fused, origins = [], [], []
    for item in _partition.in_order(module.graph, groups):
        if isinstance(item, torch.fx.Node):
            new[item] = graph.node_copy(item, new.__getitem__)
            continue
        chain = item.chain()
        call, is_list, text = launch(graph, chain, [new[node] for node in chain.operands], len(kernels))
        for i, node in enumerate(chain.results):
            new[node] = graph.call_function(operator.getitem, (call, i)) if is_list else call
        kernels.append(text)
        work = [node for node in item.nodes if node.target is not operator.getitem]
        fused.append(list(map(_layout.name_of, work)))
        origins.append(list(dict.fromkeys(map(_layout.origin_of, work))))
    graph.eliminate_dead_code()
    return torch.fx.GraphModule(module, graph), GraphReport(kernels, fused, origins, left, text=str(graph))


def _inductor_node(in_order, as_eager, graph, chain, operands, index):
    launcher = Launcher(chain.text)
    # A convolution hosts its chain where images lie channels-last, as the plan has seen them.
    in_order = _shapes.convolves(launcher.values()) or (in_order and _shapes.reduces(launcher.values()))
    call = _inductor.node_of(graph, launcher, chain, operands, in_order, as_eager)
    return call, True, launcher.text


def _eager_node(graph, chain, operands, index):
    launcher = Launcher(chain.text, [], chain.dtypes, chain.orders)
    kernel = _kernel(launcher, index, *_dead_product(chain, launcher))
    return graph.call_function(kernel, tuple(operands)), len(chain.results) > 1, launcher.text


# These give new memory of their own; most tails follow one of them.
_PRODUCERS = {_aten.convolution.default, _aten.mm.default, _aten.addmm.default, _aten.bmm.default}


def _dead_product(chain, launcher):
    """The position of an operand that the one result may be written over, and how it lies then; or nothing. The rules
    are those of _in_place.py, for shapes that are known."""
    result = _partition.tensor_of(chain.results[0])
    tensors = [one for one in map(_partition.tensor_of, chain.operands) if one is not None]
    known = all(isinstance(extent, int) for one in (result, *tensors) for extent in one.shape)
    if len(chain.results) > 1 or not known or _shapes.moves(launcher.values()):
        return ()
    shapes = _shapes.value_shapes(launcher.values(), dict(zip(launcher.inputs, (tuple(one.shape) for one in tensors))))
    if any(math.prod(shape) > result.numel() for shape in shapes):
        return ()
    for i, (node, tensor) in enumerate(zip(chain.operands, tensors)):
        if (
            node in chain.dead
            and node.target in _PRODUCERS
            and (tensor.shape, tensor.dtype) == (result.shape, result.dtype)
            and _partition.memory_order(tensor) == chain.orders[0] is not None
        ):
            return i, tensor.stride()
    return ()


def _kernel(launcher, index, over=None, strides=None):
    """FX calls functions by their name in the text that it writes."""
    run, call = launcher.run, launcher.call

    def kernel(*operands):
        return run(*operands)

    def kernel_over(*operands):
        if operands[over].stride() != strides:  # PyTorch's fake tensors are not always right
            return run(*operands)
        return call(operands, {}, operands[over], None)

    made = kernel if over is None else kernel_over
    made.__name__ = made.__qualname__ = f"epifuse_kernel_{index}{'' if over is None else f'_over_{over}'}"
    return made
