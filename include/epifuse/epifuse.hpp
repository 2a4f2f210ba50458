// EpiFuse: the epilogue of a GEMM or a convolution as one CUDA kernel, generated at run time.
// This header is the whole library.
#pragma once

#include <epifuse/dtype.hpp>
#include <epifuse/engine.hpp>
#include <epifuse/epilogue.hpp>
#include <epifuse/error.hpp>
#include <epifuse/expr.hpp>
#include <epifuse/gradient.hpp>
#include <epifuse/inspect.hpp>
#include <epifuse/log.hpp>
#include <epifuse/math.hpp>
#include <epifuse/precompile.hpp>
#include <epifuse/scale_layouts.hpp>
#include <epifuse/tensor.hpp>
#include <epifuse/ties.hpp>

namespace epifuse {

/// "0.1.0"
const char* version() noexcept;

}  // namespace epifuse
