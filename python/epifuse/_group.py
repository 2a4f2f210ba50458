"""Nodes of an ATen graph as one chain: what a kernel can hold, the chain's text, and whether the planner takes it. Used by
_partition.py."""

import dataclasses
import functools
import math
import operator

import torch
from torch._subclasses.fake_tensor import unset_fake_temporarily
from torch.fx import Node

from . import _aten, _aten_products, _exact, _ops, _seen, _shapes
from . import _aten_indices, _aten_shapes  # noqa: F401  they enter their rows
from ._arrays import NAMES, dtype_name
from ._aten import HALVES, INTEGERS, Unfit
from ._core import Launcher
from ._seen import VIEWS
from ._shapes import hint
from ._tail import _target

MOST_OPERANDS = 48  # tensors and scalars of a kernel: their parameters stay under the 4096 bytes of older drivers
MOST_OPERATIONS = 1000

_OURS = {getattr(torch, theirs): ours for ours, theirs in NAMES.items() if hasattr(torch, theirs)}
aten = torch.ops.aten
_WIDTH = {torch.float64: 8, torch.float32: 4, torch.float16: 2, torch.bfloat16: 2}
_FLOAT8 = tuple(one for one, ours in _OURS.items() if ours.startswith("f8"))
_FIRST_NAN = 464  # beyond this float8_e4m3fn rounds to more than its largest number, 448
RESHAPES = {aten.view.default, aten._unsafe_view.default}  # that a tensor can be seen so follows from how it lies
CASTS = {aten._to_copy}
NOTHING = {aten.clone, aten.alias, aten.detach, aten.lift_fresh_copy}  # no work of its own
SEEN = VIEWS | {aten.alias, aten.detach}  # the memory of their operand
MOVES = {aten.cat, aten.stack, aten.flip, aten.roll, aten.constant_pad_nd}  # copies of their operands
MOVES |= {aten.embedding, aten.index_select, aten.gather, aten.index}
_CONSTANTS = {aten.scalar_tensor, aten.full}


def packet_of(node):
    return getattr(node.target, "overloadpacket", node.target)


def name_of(node):
    return getattr(packet_of(node), "__name__", str(node.target))


def tensor_of(node):
    """The fake tensor of a node; the first of several."""
    value = node.meta.get("val") if isinstance(node, Node) else None
    if isinstance(value, (tuple, list)) and value:
        value = value[0]
    return value if isinstance(value, torch.Tensor) else None


def has_type(tensor):
    """Whether a chain can compute in the tensor's type."""
    return tensor.dtype in _WIDTH


def _item(value, dtype=None):
    """The number of a tensor, or a number rounded to a type. AOTAutograd compiles under a fake mode, which knows no
    values."""
    with unset_fake_temporarily():
        return torch.as_tensor(value, dtype=torch.float64 if dtype else None).to(dtype).item()


def constant_of(node):
    """The number of a node that makes a tensor of one element, or None: torch.tensor(0.5) reaches the graph as an
    attribute, on whatever device, copied and perhaps moved. Reading it waits for the device once, when the model is
    compiled; as an operand it would be a kernel of its own in every call."""
    if node.op == "get_attr":
        tensor = getattr(node.graph.owning_module, node.target, None)
        plain = (
            isinstance(tensor, torch.Tensor)
            and tensor.dim() == 0
            and tensor.device.type in ("cpu", "cuda")
            and tensor.dtype in _OURS
        )
        return _item(tensor) if plain else None
    if node.op != "call_function":
        return None
    packet = packet_of(node)
    if packet in NOTHING | CASTS and isinstance(node.args[0], Node):
        number = constant_of(node.args[0])
        return None if number is None else _item(number, tensor_of(node).dtype)
    if packet not in _CONSTANTS or (packet is aten.full and list(node.args[0])):
        return None
    number = node.args[1 if packet is aten.full else 0]
    return _item(number, tensor_of(node).dtype) if isinstance(number, (int, float)) else None


@functools.lru_cache
def _beyond(dtype, device):
    """What PyTorch makes of numbers that a type does not hold: this differs between its releases."""
    with unset_fake_temporarily():
        return torch.tensor([1e9], device=device).to(dtype).float().item()


# ---- one node


def row_of(node):
    if not isinstance(node.target, torch._ops.OpOverload):
        return None
    rows = _aten_products.ROWS if _aten_products.is_hosted(node) else _aten.ROWS
    return rows.get(node.target)


def check(node):
    """Unfit if no kernel could hold the node, whatever stands around it."""
    if node.op != "call_function":
        raise Unfit("no operation")
    packet = packet_of(node)
    if packet not in VIEWS | NOTHING | CASTS and row_of(node) is None:
        raise Unfit("not an operation that EpiFuse has")
    made = tensor_of(node)
    if made is None:
        raise Unfit("it gives no tensor")
    if _is_empty(made):
        raise Unfit("it has no elements")
    if packet in VIEWS:
        if tensor_of(node.args[0]).dtype != made.dtype:
            raise Unfit("a view of other bits")
        return
    if made.dtype not in _OURS:
        raise Unfit(f"its result is {made.dtype}".replace("torch.", ""))
    if made.device.type not in ("cuda", "cpu"):
        raise Unfit(f"it runs on {made.device}")
    for argument in node.all_input_nodes:
        taken = tensor_of(argument)
        if taken is None or constant_of(argument) is not None:
            continue
        if taken.dtype not in _OURS:
            raise Unfit(f"an operand is {taken.dtype}".replace("torch.", ""))
        if _is_empty(taken):
            raise Unfit("an operand has no elements")
        if taken.device != made.device:
            raise Unfit(f"an operand lies on {taken.device}, its result on {made.device}")
        if taken.layout is not torch.strided:
            raise Unfit(f"an operand is {taken.layout}".replace("torch.", ""))
    if packet in CASTS:
        stays = {"device": tensor_of(node.args[0]).device, "layout": torch.strided, "pin_memory": False}
        given = {key: one for key, one in node.kwargs.items() if key not in ("dtype", "memory_format", "non_blocking")}
        if any(one is not None and one != stays.get(key) for key, one in given.items()):
            raise Unfit("it moves the tensor to another device or layout")


def _is_empty(tensor):
    return any(isinstance(extent, int) and extent == 0 for extent in tensor.shape)


class _Operand(_exact.Known):
    """A value from outside the group. It becomes an operand of the chain when the chain first mentions it."""

    __slots__ = ("writer", "node")

    def __init__(self, writer, node):
        self.writer, self.node = writer, node
        tensor = tensor_of(node)
        unknown = -math.inf, math.inf, False, _exact.UNKNOWN  # of a number
        self.say(*(unknown if tensor is None else _exact.facts_of_type(_OURS.get(tensor.dtype))))
        self.shape = None if tensor is None else writer.shape_of(tensor)

    @property
    def name(self):
        return self.writer.operand_name(self.node)


class Writer:
    """Writes a group as a chain. `wide`: the chain computes in f64, so that f32 needs rounding where it ends. `read`:
    nodes outside that the group reads. A view of one of them is the chain's, so that the memory is one operand."""

    def __init__(self, wide=False, read=()):
        self.read = read
        self.chain = _exact.KnownChain()
        self.wide, self.double = wide, False  # double: something needs f64
        self.values = {}
        self.rounded = set()  # nodes whose values are of their type, to the bit
        self.operands, self.scalars = {}, {}

    def shape_of(self, tensor):
        """An example, where extents are symbols: then no chain of this writer knows how much a sum may be."""
        self.chain.is_symbolic |= any(not isinstance(extent, int) for extent in tensor.shape)
        return tuple(map(hint, tensor.shape))

    def operand_name(self, node):
        tensor = tensor_of(node)
        table, prefix = (self.scalars, "s") if tensor is None else (self.operands, "x")
        if node not in table:
            table[node] = f"{prefix}{len(table)}"
            (self.chain.scalar if tensor is None else self.chain.input)(table[node])
            self.double = self.double or (tensor is not None and tensor.dtype is torch.float64)
        return table[node]

    def value(self, argument):
        if not isinstance(argument, Node):
            return argument
        if argument in self.values:
            return self.values[argument]
        number = constant_of(argument)
        if number is None and self.is_seen(argument):
            try:
                self.values[argument] = self.seen(argument)
                return self.values[argument]
            except Unfit:
                pass
        return _Operand(self, argument) if number is None else number

    def is_seen(self, node):
        """Whether a node outside is a view of what the group reads, too."""
        if packet_of(node) not in VIEWS or tensor_of(node.args[0]).dtype != tensor_of(node).dtype:
            return False
        return node.args[0] in self.read or self.is_seen(node.args[0])

    def seen(self, node):
        """The value of a view."""
        before, after = list(tensor_of(node.args[0]).shape), list(tensor_of(node).shape)
        arguments = node.args[1:], node.kwargs
        made = _seen.write(self.chain, packet_of(node), self.value(node.args[0]), before, after, arguments)
        return self.settled(node, made)

    def converted(self, argument, dtype, exact=False, opmath=False):
        """A value as PyTorch reads it for a computation in `dtype`; the rest as _aten.Call.value says."""
        value, tensor = self.value(argument), tensor_of(argument)
        if not isinstance(value, _ops.Value):
            return self.number(value, dtype, opmath)
        if tensor is None:
            if not isinstance(argument.meta["val"], (int, float, torch.SymInt, torch.SymFloat)):
                raise Unfit(f"an argument is a {type(argument.meta['val']).__name__}")
            rounds = (dtype in HALVES and not opmath) or (self.wide and dtype is torch.float32)
            return self.cast(value, dtype) if rounds else value
        before = tensor.dtype
        if before == dtype:
            return self.exactly(argument, value) if exact else value
        if before in (torch.bool, torch.int8, torch.uint8):
            return self.cast(value, dtype) if dtype is torch.float64 else value
        if before in INTEGERS and dtype in INTEGERS:
            return value
        if before in _FLOAT8 and dtype in _WIDTH and dtype is not torch.float64:
            return value
        if dtype not in _WIDTH or (before not in _WIDTH and before not in INTEGERS):
            raise Unfit(f"an operand is {before}, computed with in {dtype}".replace("torch.", ""))
        if before not in _WIDTH and dtype in HALVES and tensor.dim() == 0:
            raise Unfit(f"an operand is one {before} among {dtype}".replace("torch.", ""))
        value = self.exactly(argument, value)
        if before in HALVES and dtype is torch.float32:
            return value
        if before not in _WIDTH and dtype is torch.float32 and not self.wide:
            return value
        if opmath and dtype in HALVES and before in _WIDTH and tensor.device.type == "cpu":
            return value  # one element: a number
        return self.cast(value, dtype)

    def number(self, value, dtype, opmath):
        if not isinstance(value, (bool, int, float)):
            raise Unfit(f"an argument is a {type(value).__name__}")
        if dtype is torch.bool:
            return bool(value)
        if not dtype.is_floating_point and not (
            isinstance(value, int) and torch.iinfo(dtype).min <= value <= torch.iinfo(dtype).max
        ):
            raise Unfit(f"{value} is no {dtype}".replace("torch.", ""))
        rounds = (dtype in HALVES and not opmath) or (self.wide and dtype is torch.float32)
        return _item(value, dtype) if rounds else value

    def exactly(self, node, value):
        """The value of a node in its type, to the bit: a chain keeps more bits than that."""
        kind = tensor_of(node).dtype
        if isinstance(value, _Operand) or node in self.rounded:
            return value
        return self.cast(value, kind) if kind in HALVES or (self.wide and kind is torch.float32) else value

    def cast(self, value, dtype):
        self.double = self.double or dtype is torch.float64
        return self.chain.emit("cast", value, _ops.Value(dtype_name(dtype)))

    def write(self, node):
        packet = packet_of(node)
        if node.target is operator.getitem:
            source = self.values[node.args[0]]
            made = source[node.args[1]] if isinstance(source, tuple) else source
            if made is None:
                raise Unfit(f"its result number {node.args[1]} is used")
        elif packet in VIEWS:
            made = self.seen(node)
        elif packet in NOTHING:
            made = self.value(node.args[0])
        else:
            try:
                made = self.converted_for_good(node) if packet in CASTS else row_of(node)(_aten.Call(self, node))
            except _ops.Unsupported as problem:
                raise Unfit(str(problem)) from None
        if packet in CASTS or (packet in VIEWS | NOTHING and node.args[0] in self.rounded):
            self.rounded.add(node)
        self.values[node] = self.settled(node, made)

    def settled(self, node, made):
        """The value, or values, with what the types of the node say of it; Unfit where integers need not be exact."""
        tensors = node.meta["val"]
        if isinstance(made, tuple):
            return tuple(map(self.settled_value, made, tensors))
        first = tensors[0] if isinstance(tensors, (tuple, list)) else tensors
        return self.settled_value(made, first, packet_of(node) in VIEWS | NOTHING)

    def settled_value(self, made, tensor, is_seen=False):
        if not isinstance(made, _exact.Known) or isinstance(made, _Operand):
            return made
        made = made.again()
        made.shape = self.shape_of(tensor)
        if is_seen:
            return made
        if tensor.dtype in INTEGERS:
            low, high = _exact.LIMITS[_OURS[tensor.dtype]]
            if not made.whole or made.standing != _exact.EQUAL or made.low < low or made.high > high:
                raise Unfit(_aten.INEXACT)
        made.standing = _exact.EQUAL  # whatever a float or a truth value is, it is that
        return made

    def converted_for_good(self, node):
        """A conversion that the graph asks for: it rounds, whatever the chain computes in."""
        before, after = tensor_of(node.args[0]).dtype, tensor_of(node).dtype
        value = self.exactly(node.args[0], self.value(node.args[0]))
        wider = before in HALVES + _FLOAT8 and after is torch.float32
        if before == after or (wider and not isinstance(value, _Operand)):
            return value
        if after in INTEGERS:
            return self.whole(value, _OURS[after])
        if after in _FLOAT8:
            value = self.within(after, value, tensor_of(node.args[0]))
        return self.cast(value, after)

    def whole(self, value, dtype):
        """A value as integers of a type. To the planner i32 and i64 are any integers, which only f64 holds; here it is
        known which these are, so that a smaller type says it, or none."""
        value = _exact.fitting(self.chain, value, dtype, "_to_copy")
        if dtype not in ("i8", "u8"):
            if not value.truth and not isinstance(value, _Operand):
                return value
            dtype = next((one for one in ("i8", "u8") if _exact.is_within(value, one)), dtype)
        return self.chain.emit("cast", value, _ops.Value(dtype))

    def within(self, dtype, value, tensor):
        """A value as a chain may convert it to 8 bits, where it saturates."""
        value = self.cast(value, torch.float32) if tensor.dtype is torch.float64 else value  # as PyTorch
        if _exact.is_within(value, _OURS[dtype]):
            return value
        if _OURS[dtype] == "f8e8m0":  # of what is not positive PyTorch takes the exponent
            raise Unfit("float8_e8m0fnu holds positive numbers alone; clamp it to [2**-127, 2**127]")
        most = torch.finfo(dtype).max
        beyond = _beyond(dtype, tensor.device)
        if beyond == most:
            return value
        if not math.isnan(beyond):
            raise Unfit(f"what {dtype} does not hold is {beyond} in PyTorch; clamp it to {most}".replace("torch.", ""))
        return self.chain.emit("where", self.chain.emit("gt", self.chain.emit("abs", value), _FIRST_NAN), beyond, value)


@dataclasses.dataclass
class Written:
    """A group as a kernel: operands in the order of its arguments, results in the order of its values. `dead`: the
    operands that nothing else uses."""

    text: str
    operands: list
    dead: list
    results: list
    dtypes: list
    orders: list
    wide: bool  # it computes in f64, as PyTorch does


def memory_order(tensor):
    """The dimensions of a fake tensor as they lie in memory, outermost first; None for one that is not dense."""
    extents, strides = [hint(one) for one in tensor.shape], [hint(one) for one in tensor.stride()]
    order = sorted(range(len(extents)), key=lambda i: (extents[i] > 1, -strides[i]) if extents[i] > 1 else (False, 0))
    expected = 1
    for i in reversed(order):
        if extents[i] > 1 and strides[i] != expected:
            return None
        expected *= extents[i]
    contiguous = row_major(extents, strides)
    return list(range(len(extents))) if contiguous else order


def row_major(extents, strides):
    expected = 1
    for extent, stride in zip(reversed(extents), reversed(strides)):
        if extent > 1 and stride != expected:
            return False
        expected *= max(extent, 1)
    return True


class Group:
    """Nodes that are one kernel, in the graph's order."""

    def __init__(self, nodes):
        self.nodes = nodes

    def results(self):
        """The nodes whose values are needed outside. Views of them are made there, so that they share their memory."""
        inside, needed = set(self.nodes), set()
        for node in reversed(self.nodes):
            if any(user not in inside or (user in needed and packet_of(user) in SEEN) for user in node.users):
                needed.add(node)
        return [node for node in self.nodes if node in needed and packet_of(node) not in SEEN]

    def chain(self):
        inside, writer = set(self.nodes), self.written(wide=False)
        if writer.double:
            writer = self.written(wide=True)
        results = [node for node in self.results() if not isinstance(writer.values[node], tuple)]
        values = [writer.values[node] for node in results]
        if not results or any(not isinstance(value, _ops.Value) or isinstance(value, _Operand) for value in values):
            raise Unfit("a result is an operand as it is, or a number")
        text = writer.chain.text(values)
        tensors = [tensor_of(node) for node in results]
        orders = [memory_order(one) for one in tensors]
        if None in orders:
            raise Unfit("a result is not dense")
        return Written(
            text,
            list(writer.operands) + list(writer.scalars),
            [node for node in writer.operands if inside.issuperset(node.users)],
            results,
            [_OURS[one.dtype] for one in tensors],
            orders,
            writer.double,
        )

    def written(self, wide):
        inside = set(self.nodes)
        read = {need for node in self.nodes for need in node.all_input_nodes if need not in inside}
        writer = Writer(wide, read)
        for node in self.nodes:
            writer.write(node)
        return writer


def check_group(nodes):
    """Unfit unless the planner makes one kernel of these nodes, with results of the graph's shapes."""
    if len(nodes) > MOST_OPERATIONS:
        raise Unfit(f"more than {MOST_OPERATIONS} operations")
    written = Group(nodes).chain()
    if len(written.operands) + len(written.results) > MOST_OPERANDS:
        raise Unfit(f"more than {MOST_OPERANDS} operands")
    given = [tensor for tensor in map(tensor_of, written.operands) if tensor is not None]
    if not given:
        raise Unfit("it has no operands")

    def specs_of(value):
        return [(_OURS[one.dtype], list(map(value, one.shape)), list(map(value, one.stride()))) for one in given]

    specs = specs_of(hint)
    try:
        launcher = Launcher(written.text, [], written.dtypes, written.orders)
        plan = launcher.inspect(specs, None, *_target(None)).summary
        # One kernel for extents that are equal by chance must be one for others, too.
        apart = _shapes.examples_apart([extent for one in given for extent in (*one.shape, *one.stride())])
        if apart is not None:
            launcher.inspect(specs_of(lambda extent: _shapes.example(extent, apart)), None, *_target(None))
    except ValueError as problem:
        raise Unfit(str(problem).splitlines()[0]) from None
    if any(map(_aten_products.is_hosted, nodes)) and plan["schedule"] != "gemm":
        raise Unfit(f"its product would be computed apart: {plan['products'][0]}")
    tensors = [tensor for tensor in map(tensor_of, written.operands + written.results) if tensor is not None]
    if any(map(has_type, tensors)) and plan["compute_type"] == "f64" and not written.wide:
        raise Unfit("its integers would have to be computed in f64")
    shapes = {name: tuple(shape) for name, (_, shape, _) in zip(launcher.inputs, specs)}
    facts = launcher.values(), launcher.result_values, launcher.is_elementwise
    for node, planned in zip(written.results, _shapes.result_shapes(*facts, shapes)):
        if tuple(map(hint, tensor_of(node).shape)) != tuple(planned):
            raise Unfit("its results have shapes of their own")
