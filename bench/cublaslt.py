"""cuBLASLt called by ctypes, for bench/products.py: a product by whichever of the algorithms that its heuristics list is the fastest on the operands at hand.
PyTorch takes the first of them. Numbers are those of cublasLt.h and library_types.h of CUDA 13."""
import ctypes
import statistics

import torch

WORKSPACE = 64 * 2**20  # bytes: as much as PyTorch takes on Hopper, and more than cuBLASLt's own advice of 32 MiB
MOST = 16  # algorithms that are asked for
ROUNDS = 9  # of each, to choose

COMPUTE_F32, COMPUTE_I32 = 68, 72
DESC_TRANSA = 3
PREFERENCE_WORKSPACE = 1
OP_T = 1
TYPES = {torch.float32: 0, torch.float16: 2, torch.int8: 3, torch.int32: 10, torch.bfloat16: 14, torch.float8_e4m3fn: 28}


class Algorithm(ctypes.Structure):
    _fields_ = [("data", ctypes.c_uint64 * 8)]


class Found(ctypes.Structure):
    """cublasLtMatmulHeuristicResult_t"""
    _fields_ = [("algorithm", Algorithm), ("workspace", ctypes.c_size_t), ("state", ctypes.c_int), ("waves", ctypes.c_float),
                ("reserved", ctypes.c_int * 4)]


def _library():
    for name in ("libcublasLt.so.13", "libcublasLt.so.12", "libcublasLt.so"):
        try:
            return ctypes.CDLL(name)
        except OSError:
            continue
    raise RuntimeError("no libcublasLt.so.13 or .12 is found")


class Product:
    """x @ w.t() into a tensor of its own: x is [rows, depth], w [columns, depth]. Of i8 the result is i32, of f8e4m3 bf16, else the factors' type."""

    def __init__(self, x, w):
        self.library = _library()
        self.handle = self._made("cublasLtCreate")
        is_i8 = x.dtype == torch.int8
        self.result_type = {torch.int8: torch.int32, torch.float8_e4m3fn: torch.bfloat16}.get(x.dtype, x.dtype)
        number = ctypes.c_int32 if is_i8 else ctypes.c_float
        self.one, self.none = number(1), number(0)
        scale = TYPES[torch.int32 if is_i8 else torch.float32]
        self.operation = self._made("cublasLtMatmulDescCreate", COMPUTE_I32 if is_i8 else COMPUTE_F32, scale)
        self._call("cublasLtMatmulDescSetAttribute", self.operation, DESC_TRANSA, ctypes.byref(ctypes.c_int32(OP_T)), ctypes.c_size_t(4))
        (rows, depth), columns = x.shape, w.shape[0]
        # Columns first: the transpose of the result is w times the transpose of x.
        self.layouts = [self._layout(w.dtype, depth, columns), self._layout(x.dtype, depth, rows), self._layout(self.result_type, columns, rows)]
        self.workspace = torch.empty(WORKSPACE, dtype=torch.uint8, device=x.device)
        self.algorithms = self._listed()
        self.times = [self._time(each, x, w) for each in self.algorithms]
        self.chosen = min(range(len(self.times)), key=self.times.__getitem__)

    def __call__(self, x, w):
        return self._multiply(self.algorithms[self.chosen], x, w)

    def _call(self, name, *arguments):
        status = getattr(self.library, name)(*arguments)
        if status != 0:
            raise RuntimeError(f"{name} gives status {status}")

    def _made(self, name, *arguments):
        made = ctypes.c_void_p()
        self._call(name, ctypes.byref(made), *arguments)
        return made

    def _layout(self, dtype, rows, columns):
        return self._made("cublasLtMatrixLayoutCreate", TYPES[dtype], ctypes.c_uint64(rows), ctypes.c_uint64(columns), ctypes.c_int64(rows))

    def _listed(self):
        preference = self._made("cublasLtMatmulPreferenceCreate")
        self._call("cublasLtMatmulPreferenceSetAttribute", preference, PREFERENCE_WORKSPACE, ctypes.byref(ctypes.c_uint64(WORKSPACE)), ctypes.c_size_t(8))
        found, count = (Found * MOST)(), ctypes.c_int()
        left, right, result = self.layouts
        self._call("cublasLtMatmulAlgoGetHeuristic", self.handle, self.operation, left, right, result, result, preference, MOST, found, ctypes.byref(count))
        return [found[i].algorithm for i in range(count.value) if found[i].state == 0]

    def _multiply(self, algorithm, x, w):
        made = torch.empty(x.shape[0], w.shape[0], dtype=self.result_type, device=x.device)
        pointer = lambda tensor: ctypes.c_void_p(tensor.data_ptr())
        left, right, result = self.layouts
        self._call("cublasLtMatmul", self.handle, self.operation, ctypes.byref(self.one), pointer(w), left, pointer(x), right, ctypes.byref(self.none),
                   pointer(made), result, pointer(made), result, ctypes.byref(algorithm), pointer(self.workspace), ctypes.c_size_t(WORKSPACE),
                   ctypes.c_void_p(torch.cuda.current_stream().cuda_stream))
        return made

    def _time(self, algorithm, x, w):
        """Milliseconds."""
        times = []
        for _ in range(2 + ROUNDS):
            begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
            begin.record()
            self._multiply(algorithm, x, w)
            end.record()
            end.synchronize()
            times.append(begin.elapsed_time(end))
        return statistics.median(times[2:])
