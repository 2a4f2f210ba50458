"""Which nodes of a functional ATen graph become one kernel. A group grows from producers to consumers for as long as
the planner says that it is one kernel, and nothing outside of it stands between its nodes."""

import collections
import heapq
import operator

import torch

from . import _aten_products
from ._aten import Unfit
from ._group import (  # noqa: F401  some for _layout.py, _inductor.py and _lowering.py
    CASTS,
    MOVES,
    NOTHING,
    RESHAPES,
    SEEN,
    VIEWS,
    Group,
    check,
    check_group,
    constant_of,
    has_type,
    memory_order,
    name_of,
    packet_of,
    row_of,
    tensor_of,
)

SMALL = 24  # nodes of a group that the planner sees at every step

class _Back(Exception):
    """What was added to a group unchecked does not fit: back to where `group` came to be."""

    def __init__(self, group):
        super().__init__()
        self.group = group


class _Grown(Group):
    """A group that grows. The planner takes time, so that a large group may grow by half before it is asked again.
    `before`: the group without its last nodes, while these are unchecked; `place`: the first of these; `mark`: where the
    journal stood."""

    def __init__(self, nodes, before=None, place=None, mark=0):
        super().__init__(nodes)
        self.before, self.place, self.mark = before, place, mark
        self.limit = before.limit if before else len(nodes) * 3 // 2


class _Partitioner:
    def __init__(self, graph):
        self.graph = graph
        self.index = {node: i for i, node in enumerate(graph.nodes)}
        self.before = collections.defaultdict(
            list
        )  # order that no operand shows: random numbers and effects keep theirs
        last = None
        for node in graph.nodes:
            if node.op == "call_function" and (
                node.is_impure() or torch.Tag.nondeterministic_seeded in getattr(node.target, "tags", ())
            ):
                if last is not None:
                    self.before[node].append(last)
                last = node
        self.group = {}  # of a node
        self.journal = []  # nodes and the groups that they had before
        self.doubtful = set()  # nodes that are added to no group unchecked
        self.why = {}

    def needs(self, node):
        return [*node.all_input_nodes, *self.before[node]]

    def is_convex(self, nodes, new):
        """No way leads out of these nodes and back into them, with groups taken as wholes, where none did without the
        `new` ones."""
        inside = set(nodes)
        lowest = self.index[nodes[0]]
        seen = set()
        stack = [need for node in new for need in self.needs(node) if need not in inside]
        while stack:
            node = stack.pop()
            if node in inside:
                return False
            if node in seen:
                continue
            group = self.group.get(node)
            members = group.nodes if group else [node]
            seen.update(members)
            if self.index[members[-1]] < lowest:
                continue
            stack += [need for one in members for need in self.needs(one) if need not in seen]
        return True

    def merged(self, groups, nodes=()):
        """One group of all these, if they are one kernel."""
        together = sorted({node for group in groups for node in group.nodes} | set(nodes), key=self.index.__getitem__)
        # A node that comes after all of one group has users in none.
        if not self.is_convex(together, nodes if len(groups) == 1 and nodes else together):
            raise Unfit("other operations stand between")
        if len(groups) == 1 and nodes and self.may_wait(groups[0], together, nodes):
            Group(nodes).written(wide=False)
            group = _Grown(together, groups[0], nodes[0], len(self.journal))
        else:
            try:
                check_group(together)
            except Unfit:
                for one in groups:
                    self.verify(one)
                raise
            group = _Grown(together)
        for node in together:
            self.journal.append((node, self.group.get(node)))
            self.group[node] = group
        return group

    def may_wait(self, group, together, nodes):
        return SMALL < len(together) <= group.limit and nodes[0] not in self.doubtful

    def verify(self, group):
        """Goes back to before the first nodes that do not fit, if any do not."""
        steps = [group]
        while steps[-1].before is not None:
            steps.append(steps[-1].before)
        if len(steps) == 1 or self.is_checked(group):
            return
        good, bad = len(steps) - 1, 0
        while good - bad > 1:
            middle = (good + bad) // 2
            good, bad = (middle, bad) if self.is_checked(steps[middle]) else (good, middle)
        self.doubtful.add(steps[bad].place)
        raise _Back(steps[bad])

    def is_checked(self, group):
        try:
            check_group(group.nodes)
        except Unfit:
            return False
        group.before, group.limit = None, len(group.nodes) * 3 // 2
        return True

    def go_back(self, mark):
        while len(self.journal) > mark:
            node, group = self.journal.pop()
            if group is None:
                del self.group[node]
            else:
                self.group[node] = group

    def around(self, nodes):
        """The groups that these nodes read of."""
        found, inside = {}, set(nodes)
        for node in nodes:
            for need in node.all_input_nodes:
                if need in self.group and need not in inside:
                    found[id(self.group[need])] = self.group[need]
        return list(found.values())

    def take(self, node):
        """Puts a node into a group: with all groups that it reads of, with some of them, or alone."""
        unit = [node]
        if isinstance(node.meta.get("val"), (tuple, list)):
            unit += [user for user in node.users if user.target is operator.getitem]
        producers = self.around(unit)
        if (packet_of(node) in VIEWS and not producers) or constant_of(node) is not None:
            raise Unfit("nothing to compute")
        attempts = [producers] if producers else []
        if len(producers) > 1:
            attempts += [[one] for one in sorted(producers, key=lambda one: -len(one.nodes))]
        if packet_of(node) not in VIEWS:
            attempts.append([])
        problem = None
        for attempt in attempts:
            try:
                group = self.merged(attempt, unit)
            except Unfit as found:
                problem = problem or found
                continue
            self.join(group, producers)
            return
        raise problem

    def join(self, group, others):
        """Adds those of `others` that still fit, one by one."""
        for other in others:
            if self.group[other.nodes[0]] is other and self.group[other.nodes[0]] is not group:
                try:
                    group = self.merged([group, other])
                except Unfit:
                    pass

    def run(self):
        nodes, place = list(self.graph.nodes), 0
        while place < len(nodes):
            try:
                for node in nodes[place:]:
                    self.visit(node)
                for group in self.groups():
                    self.verify(group)
                place = len(nodes)
            except _Back as back:
                self.go_back(back.group.mark)
                place = self.index[back.group.place]
        self.settle()
        self.trim()
        return self.groups()

    def visit(self, node):
        if node.op in ("placeholder", "output", "get_attr") or node in self.group or node.target is operator.getitem:
            return
        try:
            check(node)
            self.take(node)
        except Unfit as problem:
            self.why[node] = str(problem)

    def groups(self):
        return list({id(group): group for group in self.group.values()}.values())

    def settle(self):
        """A group that did not fit when its first node came may fit now that it is whole."""
        changed, apart = True, set()
        while changed:
            changed = False
            for group in sorted(self.groups(), key=lambda one: self.index[one.nodes[0]]):
                if self.group[group.nodes[0]] is not group:
                    continue
                for producer in self.around(group.nodes):
                    if (producer, group) in apart:
                        continue
                    try:
                        group = self.merged([producer, group])
                        changed = True
                    except Unfit:
                        apart.add((producer, group))

    def trim(self):
        """Views at the end of a group cost PyTorch nothing and would cost the kernel a second result; groups of nothing
        else are none."""
        for group in self.groups():
            kept = set(group.nodes)
            for node in reversed(group.nodes):
                if packet_of(node) in SEEN and not any(user in kept for user in node.users):
                    kept.remove(node)
            nodes = [node for node in group.nodes if node in kept]
            work = [
                node
                for node in nodes
                if packet_of(node) not in VIEWS | NOTHING | CASTS | MOVES
                and node.target is not operator.getitem
                and not _aten_products.is_hosted(node)
            ]
            if work and len(nodes) < len(group.nodes):
                try:
                    check_group(nodes)
                except Unfit:
                    continue
            if work and nodes == group.nodes:
                continue
            for node in group.nodes:
                del self.group[node]
                alone = _aten_products.is_hosted(node)
                self.why[node] = "a product and nothing behind it" if alone else "a copy and nothing else"
            trimmed = Group(nodes)
            for node in nodes if work else ():
                self.group[node] = trimmed
                self.why.pop(node, None)


def is_view(node):
    schema = getattr(node.target, "_schema", None)
    alias = schema.returns[0].alias_info if schema is not None and schema.returns else None
    return alias is not None and not alias.is_write


def _is_free(node):
    """A view, a number about shapes, a constant: nothing runs on the device for it."""
    return (
        is_view(node)
        or tensor_of(node) is None
        or packet_of(node) in NOTHING | VIEWS
        or constant_of(node) is not None
    )


def _see_outside(graph, groups):
    """Whatever needs a view from outside of its group gets one of its own, of the group's result or operand: so it
    shares memory with what it is a view of."""
    for group in groups:
        inside = set(group.nodes)
        for node in reversed(group.nodes):
            users = [user for user in node.users if user not in inside]
            if packet_of(node) in SEEN and users:
                with graph.inserting_after(node):
                    view = graph.node_copy(node)
                for user in users:
                    user.replace_input_with(node, view)


def partition(graph, gemm=False):
    """The groups of a graph, and what is left to PyTorch: a Counter of (operation, why). Views and the graph's own
    nodes are not counted. `gemm`: matrix products may be part of groups."""
    if gemm:
        _aten_products.mark(graph)
    partitioner = _Partitioner(graph)
    groups = partitioner.run()
    left = collections.Counter()
    for node in graph.nodes:
        why = partitioner.why.get(node)
        if why and node not in partitioner.group and not _is_free(node):
            left[name_of(node), why] += 1
    _see_outside(graph, groups)
    return groups, left


def in_order(graph, groups):
    """Nodes and groups in an order in which each stands behind what it needs; otherwise as the graph has them."""
    partitioner = _Partitioner(graph)
    owner = {node: group for group in groups for node in group.nodes}
    items = list(dict.fromkeys(owner.get(node, node) for node in graph.nodes))
    place = {item: i for i, item in enumerate(items)}
    last = {
        item: max(partitioner.index[node] for node in (item.nodes if isinstance(item, Group) else [item]))
        for item in items
    }
    users, missing = collections.defaultdict(list), {}
    for item in items:
        nodes = item.nodes if isinstance(item, Group) else [item]
        needed = {owner.get(need, need) for node in nodes for need in partitioner.needs(node)} - {item}
        missing[item] = len(needed)
        for need in needed:
            users[need].append(item)
    ready = [(last[item], place[item]) for item in items if not missing[item]]
    heapq.heapify(ready)
    while ready:
        item = items[heapq.heappop(ready)[1]]
        yield item
        for user in users[item]:
            missing[user] -= 1
            if not missing[user]:
                heapq.heappush(ready, (last[user], place[user]))
