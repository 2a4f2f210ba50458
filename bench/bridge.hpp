// What the C functions of bridge.cpp and cublaslt.cpp share: tensors from Python, and errors to it.
#pragma once

#include <cstdint>
#include <exception>
#include <span>
#include <string>
#include <vector>

#include <epifuse/epifuse.hpp>

#define EPIFUSE_BENCH_API extern "C" __attribute__((visibility("default")))

namespace epifuse {

// A tensor by value, so that Python has no arrays to keep alive. bridge.py has the same lines.
struct BridgeTensor {
  void* data;
  std::int32_t dtype;
  std::int32_t rank;
  std::int64_t shape[kMaxRank];
  std::int64_t strides[kMaxRank];
};

// What went wrong in this thread's last call that failed: the caller copies it at once.
inline thread_local std::string last_error;

// No exception may reach Python: `failure` is returned instead, and epifuse_bench_error() has the sentence.
template <class Result, class Action>
Result guarded(Result failure, const Action& action) noexcept {
  try {
    return action();
  } catch (const std::exception& problem) {
    last_error = problem.what();
  } catch (...) {
    last_error = "an exception that is no std::exception";
  }
  return failure;
}

template <class View>
View view_of(const BridgeTensor& tensor) {
  const auto rank = static_cast<std::size_t>(tensor.rank);
  return View(tensor.data, static_cast<DType>(tensor.dtype), Dims(std::span(tensor.shape, rank)),
              Dims(std::span(tensor.strides, rank)));
}

template <class View>
std::vector<View> views_of(const BridgeTensor* tensors, std::int32_t count) {
  std::vector<View> views;
  for (const BridgeTensor& tensor : std::span(tensors, static_cast<std::size_t>(count))) {
    views.push_back(view_of<View>(tensor));
  }
  return views;
}

}  // namespace epifuse
