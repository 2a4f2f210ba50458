// Calls of the CUDA runtime whose failure ends the program. For the sweeps of this folder that run on a GPU.
#pragma once

#include <cuda_runtime.h>

#include <cstdio>
#include <cstdlib>

#define CHECK(call)                                                                                     \
  do {                                                                                                  \
    cudaError_t e = (call);                                                                             \
    if (e != cudaSuccess) std::fprintf(stderr, "%s: %s\n", #call, cudaGetErrorString(e)), std::exit(2); \
  } while (0)
