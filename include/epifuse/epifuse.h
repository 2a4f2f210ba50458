/* The C interface: EpiFuse for C99 and for all that calls C (Rust, Go, Zig, Julia…). It needs no other header.
 *
 * Every function that can fail returns an epifuse_status; EPIFUSE_OK is 0. What went wrong stands in
 * epifuse_last_error(), a sentence of the calling thread's last failed call. No exception leaves a function. A function
 * that fails writes nothing to where its result should go.
 *
 * Objects are opaque. What a function named _create, _parse or _with_… gives is the caller's, who ends it with the
 * function named _free; NULL may be freed. Strings that a function returns belong to the object and live as long as it,
 * but for those of epifuse_plan_text and epifuse_cuda_source, which epifuse_text_free ends.
 *
 * Threads: an epilogue never changes, and any thread may use it. Any thread may use an engine at any time; only freeing
 * it needs that nobody else uses it. docs/guide/c.md has an example. */
#ifndef EPIFUSE_EPIFUSE_H
#define EPIFUSE_EPIFUSE_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Later versions may add functions and numbers. What stands here stays, and structures do not grow; tests/c/abi.txt
 * has it all. */

enum {
  EPIFUSE_OK = 0,
  EPIFUSE_INVALID_EXPRESSION = 1, /* the chain itself: syntax, unknown function, wrong argument count */
  EPIFUSE_INVALID_ARGUMENT = 2,   /* shape, type, pointer, overlap, missing operand; a NULL where none may be */
  EPIFUSE_UNSUPPORTED = 3,        /* well-formed, but beyond a documented limit */
  EPIFUSE_NO_DRIVER = 4,          /* libcuda is not installed */
  EPIFUSE_DRIVER_TOO_OLD = 5,     /* libcuda is older than what EpiFuse calls */
  EPIFUSE_NO_DEVICE = 6,          /* the driver found no such GPU */
  EPIFUSE_NO_COMPILER = 7,        /* NVRTC is not installed */
  EPIFUSE_COMPILE_FAILED = 8,     /* NVRTC rejected an emitted source: a bug of EpiFuse */
  EPIFUSE_OUT_OF_MEMORY = 9,      /* of the device or the host */
  EPIFUSE_DEVICE_FAILED = 10,     /* the driver reported an error, possibly one of earlier work on the context */
  EPIFUSE_IO = 11,                /* a file could not be read or written */
  EPIFUSE_INTERNAL = 12           /* anything else: a bug of EpiFuse */
};
typedef int32_t epifuse_status;

/* How one element is stored. */
enum {
  EPIFUSE_F64 = 0,
  EPIFUSE_F32 = 1,
  EPIFUSE_F16 = 2,    /* IEEE binary16 */
  EPIFUSE_BF16 = 3,   /* the upper half of an f32 */
  EPIFUSE_F8E4M3 = 4, /* OCP, without infinities */
  EPIFUSE_F8E5M2 = 5, /* OCP */
  EPIFUSE_I8 = 6,
  EPIFUSE_U8 = 7,
  EPIFUSE_I32 = 8,
  EPIFUSE_I64 = 9,
  EPIFUSE_BOOL = 10,   /* one byte; nonzero is true; written as 0 or 1 */
  EPIFUSE_F8E8M0 = 11, /* OCP scales: powers of two, and NaN */
  EPIFUSE_I16 = 12,
  EPIFUSE_U16 = 13,
  EPIFUSE_U32 = 14,
  EPIFUSE_F4E2M1 = 15, /* OCP, 4 bits; a byte holds two of this and of the next, the first in its lower half */
  EPIFUSE_I4 = 16,
  EPIFUSE_U4 = 17
};
typedef int32_t epifuse_dtype;

/* How exactly a GPU computes (docs/guide/accuracy.md); the CPU device computes as EPIFUSE_PRECISE. */
enum { EPIFUSE_PRECISE = 0, EPIFUSE_STANDARD = 1, EPIFUSE_FAST = 2 };
typedef int32_t epifuse_math;

#define EPIFUSE_MAX_RANK 8

/* A view of memory that the caller owns: of the device that runs the launch, host memory for the CPU device. Element 0
 * is at `data`. Extents and strides stand outermost first; strides are in elements and may be 0 or negative. */
typedef struct epifuse_tensor {
  void* data; /* read alone where it is an operand */
  epifuse_dtype dtype;
  int32_t rank; /* 0 to EPIFUSE_MAX_RANK */
  int64_t shape[EPIFUSE_MAX_RANK];
  int64_t strides[EPIFUSE_MAX_RANK];
} epifuse_tensor;

typedef struct epifuse_epilogue epifuse_epilogue;
typedef struct epifuse_engine epifuse_engine;

/* The version of the library that runs: "0.1.0". */
const char* epifuse_version(void);
/* What went wrong in the calling thread's last call that failed, in words; "" before the first. It lives until the next
 * call of this thread that fails. */
const char* epifuse_last_error(void);

/* A dense row-major view. `rank` must be 0 to EPIFUSE_MAX_RANK; `shape` has so many extents. */
epifuse_status epifuse_tensor_dense(void* data, epifuse_dtype dtype, int32_t rank, const int64_t* shape,
                                    epifuse_tensor* out);

/* ---- epilogues */

/* From the text language, "sigmoid((x + bias) * scale)" (docs/guide/language.md). `text` ends with a zero byte. */
epifuse_status epifuse_epilogue_parse(const char* text, epifuse_epilogue** out);
/* The same epilogue, computed with another exactness. */
epifuse_status epifuse_epilogue_with_math(const epifuse_epilogue* epilogue, epifuse_math math, epifuse_epilogue** out);
/* The same epilogue, which takes the operands in this order: `names` has each operand's name once. Two or more operands
 * need such a call, or a text that states their order, "input x, bias; x + bias". Without either, functions that take
 * their tensors return EPIFUSE_INVALID_ARGUMENT: the order of first use differs between "x + bias" and "bias + x". */
epifuse_status epifuse_epilogue_with_inputs(const epifuse_epilogue* epilogue, const char* const* names, size_t count,
                                            epifuse_epilogue** out);
void epifuse_epilogue_free(epifuse_epilogue* epilogue);
/* The chain as text, which parses to the same epilogue. It states the order of the operands where that is stated. */
const char* epifuse_epilogue_text(const epifuse_epilogue* epilogue);
/* Tensor operands, run-time scalars and results, in the order in which launches take them: operands as stated, scalars
 * as the text declares them. The names' index must be below the count; NULL otherwise. A NULL epilogue has none. */
size_t epifuse_epilogue_input_count(const epifuse_epilogue* epilogue);
const char* epifuse_epilogue_input_name(const epifuse_epilogue* epilogue, size_t index);
size_t epifuse_epilogue_scalar_count(const epifuse_epilogue* epilogue);
const char* epifuse_epilogue_scalar_name(const epifuse_epilogue* epilogue, size_t index);
size_t epifuse_epilogue_result_count(const epifuse_epilogue* epilogue);
const char* epifuse_epilogue_result_name(const epifuse_epilogue* epilogue, size_t index);
/* The operand whose memory the result is, since 'index_copy' writes into it: its view is the output, too. NULL where
 * the result has memory of its own. */
const char* epifuse_epilogue_result_destination(const epifuse_epilogue* epilogue, size_t index);
/* What the results are for such operands: their shapes, and the types that they have by default, PyTorch's promotion
 * (docs/guide/language.md). `results` has epifuse_epilogue_result_count() elements, of which dtype, rank, shape and
 * dense row-major strides are written; data stays. A launch takes outputs of any types. */
epifuse_status epifuse_epilogue_results(const epifuse_epilogue* epilogue, const epifuse_tensor* inputs,
                                        size_t input_count, epifuse_tensor* results);

/* ---- engines: plan, compile on first need, cache, launch */

/* `device` is "auto" (a GPU, or the CPU where there is none), "cpu", "cuda" or "cuda:N". On a GPU the engine works in
 * the calling thread's current context if that belongs to the device, else in the primary one. */
epifuse_status epifuse_engine_create(const char* device, epifuse_engine** out);
/* How an engine gets its kernels. The functions that set one option may be called in any order; what is not set is as
 * in epifuse_engine_create(). */
typedef struct epifuse_options epifuse_options;
typedef int32_t epifuse_compile;
enum {
  EPIFUSE_COMPILE_ON_NEED = 0, /* what no bundle and no cache has */
  EPIFUSE_COMPILE_NEVER = 1    /* EPIFUSE_NO_COMPILER instead, with the line to add to the list of `epifuse bundle` */
};
epifuse_status epifuse_options_create(epifuse_options** out);
void epifuse_options_free(epifuse_options* options);
/* Kernels that `epifuse bundle` compiled: a file, or its bytes, which stay where they are. Looked at in this order. */
epifuse_status epifuse_options_add_bundle(epifuse_options* options, const char* file);
epifuse_status epifuse_options_add_bundle_memory(epifuse_options* options, const void* bytes, size_t size);
epifuse_status epifuse_options_set_compile(epifuse_options* options, epifuse_compile when);
/* 0 keeps kernels in memory only. `directory` may be NULL: the user's own. */
epifuse_status epifuse_options_set_disk_cache(epifuse_options* options, int32_t enabled, const char* directory);
/* The options may be freed afterwards. A bundle that cannot be used is EPIFUSE_IO. */
epifuse_status epifuse_engine_create_with(const char* device, const epifuse_options* options, epifuse_engine** out);
/* After the launches have completed. */
void epifuse_engine_free(epifuse_engine* engine);
/* "cpu", "cuda:0" */
const char* epifuse_engine_device(const epifuse_engine* engine);

/* All that a launch takes. Zero what is not used: `epifuse_launch launch = {0};`. */
typedef struct epifuse_launch {
  const epifuse_tensor* outputs; /* one for each result, in order, of exactly its shape and of any type */
  size_t output_count;
  const epifuse_tensor* inputs; /* one for each operand, in order; they broadcast as in NumPy */
  size_t input_count;
  const double* scalars; /* one for each run-time scalar, in order */
  size_t scalar_count;
  void* stream;           /* a CUstream or cudaStream_t; NULL is the legacy default stream */
  void* workspace;        /* device memory aligned to 256 bytes, or NULL: from the device's pool where it is needed */
  size_t workspace_bytes; /* at least epifuse_engine_workspace_bytes(); 0 with a NULL workspace */
} epifuse_launch;

/* Computes the results. On a GPU it is asynchronous on the stream, and the first launch of a kernel's class compiles;
 * on the CPU the call returns when the results are written. An output may be the same view as an input; any other
 * overlap is refused. Nothing is written where anything does not fit. */
epifuse_status epifuse_engine_launch(epifuse_engine* engine, const epifuse_epilogue* epilogue,
                                     const epifuse_launch* launch);
/* Compiles, or loads from the cache, the kernel that the launch would use, and launches nothing. */
epifuse_status epifuse_engine_prepare(epifuse_engine* engine, const epifuse_epilogue* epilogue,
                                      const epifuse_launch* launch);
/* Bytes of device memory that the launch needs beside its tensors. */
epifuse_status epifuse_engine_workspace_bytes(epifuse_engine* engine, const epifuse_epilogue* epilogue,
                                              const epifuse_launch* launch, size_t* out);
/* Waits for the work on the stream; nothing to do on the CPU. */
epifuse_status epifuse_engine_synchronize(epifuse_engine* engine, void* stream);

/* ---- looking inside; no GPU is needed. Tensors may have NULL data here: they stand for aligned memory of their own */

/* The plan for people, and the CUDA source, for an architecture such as 90. epifuse_text_free() ends the text. */
epifuse_status epifuse_plan_text(const epifuse_epilogue* epilogue, const epifuse_launch* launch, int32_t architecture,
                                 char** out);
epifuse_status epifuse_cuda_source(const epifuse_epilogue* epilogue, const epifuse_launch* launch, int32_t architecture,
                                   char** out);
void epifuse_text_free(char* text);

#ifdef __cplusplus
}
#endif

#endif /* EPIFUSE_EPIFUSE_H */
