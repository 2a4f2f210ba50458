"""How many instructions a compiled kernel spends per element, read from its SASS: along the path from entry to exit on which most
bytes are stored. Needs nvdisasm, of a CUDA toolkit or of Triton's package; a cubin in, three numbers out. For the benchmarks.

Loops count once, which is what the pointwise kernels do with a tile."""
import dataclasses
import functools
import importlib.util
import os
import pathlib
import re
import shutil
import subprocess
import tempfile

# Of a multiprocessor's four schedulers, each issues one instruction for 32 threads per cycle; exponentials, reciprocals and roots
# go to units a quarter as wide (CUDA C++ Programming Guide, throughput of native arithmetic instructions: 16 per cycle on sm_90).
ISSUED_PER_CYCLE = 128
SPECIAL_PER_CYCLE = 16

LABEL = re.compile(r"^\s*(\.L_[\w.$]+):")
# The address precedes each instruction: /*0010*/  @!P0 LDG.E.128 R4, desc[UR4][R2.64] ;
INSTRUCTION = re.compile(r"^\s*/\*[0-9a-f]{4,}\*/\s+(?:(@!?U?P\w+)\s+)?([A-Z][\w.]*)\s*([^;]*);")
TARGET = re.compile(r"`\((\.L_[\w.$]+)\)")
ENDS = ("EXIT", "RET", "BRX", "JMX")
WIDTHS = {"128": 16, "64": 8, "U16": 2, "S16": 2, "U8": 1, "S8": 1}


@dataclasses.dataclass(frozen=True)
class Spent:
    """Along the path: instructions in all, those of the special units, bytes stored. Sums, and ordered by what is stored."""
    instructions: int = 0
    special: int = 0
    stored: int = 0

    def __add__(self, other):
        return Spent(self.instructions + other.instructions, self.special + other.special, self.stored + other.stored)

    def is_better(self, other):
        return other is None or (self.stored, -self.instructions) > (other.stored, -other.instructions)


@functools.cache
def disassembler():
    """None where there is none."""
    found = shutil.which("nvdisasm")
    folders = [os.environ.get("CUDA_HOME", ""), "/usr/local/cuda"]
    triton = importlib.util.find_spec("triton")
    candidates = [f"{folder}/bin/nvdisasm" for folder in folders if folder]
    if triton and triton.origin:
        candidates.append(str(pathlib.Path(triton.origin).parent / "backends/nvidia/bin/nvdisasm"))
    return found or next((path for path in candidates if os.access(path, os.X_OK)), None)


def disassemble(cubin):
    with tempfile.NamedTemporaryFile(suffix=".cubin") as file:
        file.write(cubin)
        file.flush()
        return subprocess.run([disassembler(), "--print-code", file.name], capture_output=True, text=True,
                              check=True).stdout


def stored_bytes(opcode, store="STG"):
    parts = opcode.split(".")
    return next((WIDTHS[part] for part in parts if part in WIDTHS), 4) if parts[0] == store else 0


def code_of(text):
    """Basic blocks in the order of the code, each a list of (predicate, opcode, operands); and the labels' blocks."""
    labels, blocks = {}, [[]]
    for line in text.splitlines():
        label = LABEL.match(line)
        if label:
            if blocks[-1]:
                blocks.append([])
            labels[label[1]] = len(blocks) - 1
            continue
        found = INSTRUCTION.match(line)
        if not found:
            continue
        predicate, opcode, operands = found.groups()
        blocks[-1].append((predicate, opcode, operands))
        if opcode.split(".")[0] in ("BRA", *ENDS):
            blocks.append([])
    return blocks, labels


def blocks_of(text):
    """Basic blocks in the order of the code: (what is spent, numbers of the blocks that may follow)."""
    blocks, labels = code_of(text)
    store = "STS" if "UBLKCP.G.S" in text else "STG"  # lines copied from shared memory as a whole: what threads put there
    found = []
    for number, block in enumerate(blocks):
        code = [(opcode, opcode.split(".")[0]) for _, opcode, _ in block]
        spent = Spent(sum(base != "NOP" for _, base in code), sum(base == "MUFU" for _, base in code),
                      sum(stored_bytes(opcode, store) for opcode, _ in code))
        found.append((spent, followers(number, block, labels, len(blocks))))
    return found


def followers(number, block, labels, count):
    following = [number + 1] if number + 1 < count else []
    if not block:
        return following
    predicate, opcode, operands = block[-1]
    base = opcode.split(".")[0]
    # A uniform branch names its predicate among its operands: BRA.U UP0, `(.L_x_1)
    conditional = predicate is not None or operands.lstrip().startswith(("P", "UP", "!P", "!UP"))
    if base == "BRA":
        target = TARGET.search(operands)
        jump = [labels[target[1]]] if target and target[1] in labels else []
        return jump + (following if conditional else [])
    return following if base not in ENDS or conditional else []


def spent_on_hot_path(text):
    """What the path costs that stores most, of those the one with the fewest instructions. Branches back are not taken."""
    blocks = blocks_of(text)
    best = [None] * len(blocks)
    for number in reversed(range(len(blocks))):
        spent, following = blocks[number]
        ahead = None
        for follower in following:
            if follower > number and best[follower] is not None and best[follower].is_better(ahead):
                ahead = best[follower]
        ends = not following or all(follower <= number for follower in following)
        if ahead is not None or ends:
            best[number] = spent + (ahead or Spent())
    return best[0]


def per_element(cubin, result_bytes):
    """{"instructions", "special"} per element of results that take `result_bytes` together; None without a disassembler."""
    if disassembler() is None:
        return None
    spent = spent_on_hot_path(disassemble(cubin))
    if spent is None or spent.stored == 0:
        return None
    elements = spent.stored / result_bytes
    return {"instructions": spent.instructions / elements, "special": spent.special / elements}
