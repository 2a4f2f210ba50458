"""The instructions that a thread executes where nothing is cut off: along the path through a kernel's SASS on which most bytes of global memory are
loaded and stored, of such paths the shortest. For benchmarks that compare a kernel with one by hand.

sass.spent_on_hot_path looks at the blocks' connections alone. So it may leave out a test whose outcome it then relies on: where a flag is
0 unless the test has set it, the way around the test is shorter. Here every path is followed with what it knows: registers that it set to a constant,
predicates on which it has branched. A branch that contradicts them is not taken."""

import re

import sass

MOST_PATHS = 1 << 16
REGISTER = re.compile(r"^-?R(\d+|Z)(?:\.reuse)?$")
PREDICATE = re.compile(r"^(!?)(U?P(?:\d|T))$")
ANY_BYTES = (None,) * 4
MOVES = {"MOV": 1, "IMAD.MOV.U32": 3, "UMOV": 1}  # where the operand stands that is moved


class Known:
    """What a path knows: the bytes of registers that it set to a constant, and predicates. Immutable: paths share it."""

    def __init__(self, registers=None, predicates=None):
        self.registers, self.predicates = registers or {}, predicates or {}

    def bytes_of(self, operand):
        found = REGISTER.match(operand)
        if operand == "RZ":
            return (0,) * 4
        if found:
            return self.registers.get(operand.removesuffix(".reuse"), ANY_BYTES)
        if re.fullmatch(r"0x[0-9a-f]+", operand):
            return tuple(int(operand, 16).to_bytes(8, "little")[:4])
        return ANY_BYTES

    def truth(self, predicate):
        """True, False, or None where nobody knows. None is a predicate, too: that of what is always executed."""
        if predicate is None:
            return True
        negated, name = PREDICATE.match(predicate.removeprefix("@")).groups()
        value = True if name in ("PT", "UPT") else self.predicates.get(name)
        return value if value is None else value != bool(negated)

    def assuming(self, predicate, is_true):
        negated, name = PREDICATE.match(predicate.removeprefix("@")).groups()
        return Known(self.registers, self.predicates | {name: is_true != bool(negated)})

    def behind(self, predicate, opcode, operands):
        """What is known after an instruction."""
        given = [one.strip() for one in operands.split(",")]
        written = [one for one in given[:2] if PREDICATE.match(one) and not one.startswith("!")]
        first = next((one for one in given if not PREDICATE.match(one)), "")
        registers = dict(self.registers)
        predicates = {name: value for name, value in self.predicates.items() if name not in written}
        target = REGISTER.match(first)
        if target and target[1] != "Z" and not opcode.startswith(("ST", "ISETP", "FSETP", "BRA")):
            for one in range(int(target[1]), int(target[1]) + 4):
                if one == int(target[1]) or re.search(r"\.(WIDE|64|128)|CS2R", opcode):
                    registers.pop(f"R{one}", None)
            if self.truth(predicate):
                registers[first] = self.result(opcode, given)
        if self.truth(predicate) and re.fullmatch(r"ISETP\.(NE|EQ)(\.U32)?\.AND", opcode) and given[-1] == "PT":
            left, right = self.bytes_of(given[2]), self.bytes_of(given[3])
            if None not in (*left, *right):
                predicates[given[0]] = (left == right) == ("EQ" in opcode)
        return Known(registers, predicates)

    def result(self, opcode, given):
        if opcode in MOVES and len(given) > MOVES[opcode] and given[1 : MOVES[opcode]] == ["RZ"] * (MOVES[opcode] - 1):
            return self.bytes_of(given[MOVES[opcode]])
        if opcode.startswith("CS2R") and given[1] == "SRZ":
            return (0,) * 4
        if opcode == "PRMT" and given[2].startswith("0x"):
            source = self.bytes_of(given[1]) + self.bytes_of(given[3])
            return tuple(picked(source, int(given[2], 16) >> (4 * i) & 15) for i in range(4))
        return ANY_BYTES


def picked(source, selector):
    """One byte of PRMT: that with this number, or where the selector's highest bit is set eight times its sign."""
    byte = source[selector & 7]
    return byte if byte is None or selector < 8 else 255 * (byte >> 7)


def ways_on(block, known, following, number):
    """Blocks that may follow this one, each with what is then known; `known` is what is known before its last instruction."""
    predicate, opcode, operands = block[-1]
    if opcode.split(".")[0] not in ("BRA", *sass.ENDS):
        known = known.behind(predicate, opcode, operands)
        return [(one, known) for one in following]
    if predicate is None or predicate.startswith("@U") or operands.lstrip().startswith(("P", "!", "U")):
        return [(one, known) for one in following]  # always, or by a predicate that is not followed: either way
    truth = known.truth(predicate)
    ways = [(one, known.assuming(predicate, True)) for one in following if one != number + 1 and truth is not False]
    if truth is not True and number + 1 in following:
        ways.append((number + 1, known.assuming(predicate, False)))
    return ways


def paths_of(blocks, following):
    """Every path from the entry to an exit, as numbers of blocks. Branches back are not taken."""
    waiting, count = [((0,), Known())], 0
    while waiting:
        path, known = waiting.pop()
        block = blocks[path[-1]]
        for instruction in block[:-1]:
            known = known.behind(*instruction)
        if block[-1][1].split(".")[0] in sass.ENDS and known.truth(block[-1][0]) is not False:
            yield path
        ways = ways_on(block, known, following[path[-1]], path[-1])
        waiting += [((*path, one), then) for one, then in ways if one > path[-1]]
        count += 1
        if count > MOST_PATHS:
            raise SystemExit(f"sass_path.py: more than {MOST_PATHS} ways through a kernel")


def full_path(text):
    """The opcodes along the path. SystemExit where it has a loop, of which nobody says how often it runs."""
    blocks, labels = sass.code_of(text)
    blocks = [block or [(None, "NOP", "")] for block in blocks]
    following = [sass.followers(number, block, labels, len(blocks)) for number, block in enumerate(blocks)]
    opcodes = [[opcode for _, opcode, _ in block if opcode != "NOP"] for block in blocks]
    moved = [sum(sass.stored_bytes(one, access) for one in block for access in ("LDG", "STG")) for block in opcodes]
    best = max(
        paths_of(blocks, following),
        key=lambda path: (sum(moved[number] for number in path), -sum(len(opcodes[number]) for number in path)),
    )
    if any(one <= number and one in best for number in best for one in following[number]):
        raise SystemExit("sass_path.py: the path has a loop")
    return [opcode for number in best for opcode in opcodes[number]]
