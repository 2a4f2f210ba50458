// The fingerprints of a Program: hashes of all that tells programs, or their kernels, apart. program.cpp calls
// set_fingerprints() whenever a Program is made or changed.
#include <bit>
#include <cstdint>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#define XXH_INLINE_ALL
#include <xxhash.h>

#include "ir/program.hpp"

namespace epifuse::ir {
namespace {

// Feeds a hash with values of known size, so that no padding or pointer enters it.
class Hasher {
 public:
  Hasher() { XXH3_128bits_reset(&state_); }
  template <class T>
  requires std::is_arithmetic_v<T>
  void add(T value) { XXH3_128bits_update(&state_, &value, sizeof value); }
  void add(std::string_view text) {
    add(text.size());
    XXH3_128bits_update(&state_, text.data(), text.size());
  }
  Fingerprint digest() const {
    const XXH128_hash_t hash = XXH3_128bits_digest(&state_);
    return {hash.low64, hash.high64};
  }

 private:
  XXH3_state_t state_{};
};

Fingerprint fingerprint_of(const std::vector<Node>& nodes, const std::vector<std::string>& inputs,
                           const std::vector<std::string>& scalars, const std::vector<Result>& results,
                           const std::vector<View>& views, Math math) {
  Hasher hash;
  hash.add(static_cast<int>(math));
  for (const auto* names : {&inputs, &scalars}) {
    hash.add(names->size());
    for (const auto& name : *names) hash.add(std::string_view(name));
  }
  for (const Node& node : nodes) {
    hash.add(static_cast<int>(node.op));
    for (const Value arg : node.args) hash.add(arg);
    hash.add(node.ordinal);
    hash.add(std::bit_cast<std::uint64_t>(node.constant));
    hash.add(static_cast<int>(node.dtype));
    const bool has_axes = is_reduction(node.op) || node.op == Op::count || node.op >= Op::unflatten;
    if (!has_axes) continue;
    const Axes& axes = node.shaping.axes;
    for (int i = 0; i < axes.count; ++i) hash.add(static_cast<int>(axes.at[static_cast<std::size_t>(i)]));
    hash.add(static_cast<int>(axes.count) + (axes.rest ? 100 : 0) + (node.shaping.keepdim ? 1000 : 0));
    for (const std::int64_t size : node.shaping.sizes) hash.add(size);
    if (node.op != Op::conv2d) continue;
    const Windows2d& windows = node.shaping.windows;
    for (const auto* numbers : {&windows.stride, &windows.padding, &windows.dilation}) {
      for (const std::int32_t number : *numbers) hash.add(number);
    }
  }
  for (const Result& result : results) {
    hash.add(std::string_view(result.name));
    hash.add(result.value);
  }
  for (const View& view : views) hash.add(std::string_view(print_view(view, "")));
  return hash.digest();
}

}  // namespace

// Without bounds both are one.
void Program::set_fingerprints() {
  fingerprint_ = fingerprint_of(nodes_, inputs_, scalars_, results_, views_, math_);
  code_fingerprint_ = fingerprint_;
  if (!bounds_.empty() || !scatters_.empty()) add_bounds_to_fingerprints();
  if (viewed_.empty()) return;
  Hasher all;
  all.add(fingerprint_.low);
  all.add(fingerprint_.high);
  for (const Viewed& one : viewed_) {
    all.add(one.tensor);
    all.add(one.offset);
  }
  for (const int of : slices_of_) all.add(of);
  fingerprint_ = all.digest();
}

// Kernels get the numbers of bounds as parameters, so these are no part of the code's.
void Program::add_bounds_to_fingerprints() {
  Hasher code;
  Hasher all;
  for (Hasher* const hash : {&code, &all}) {
    hash->add(fingerprint_.low);
    hash->add(fingerprint_.high);
    for (const Bounds& bounds : bounds_) {
      hash->add(static_cast<int>(bounds.kind));
      hash->add(bounds.by.size());
      for (const int by : bounds.by) hash->add(by);
      if (bounds.is_of_windows) hash->add(1);
      for (const Bounds::Gather& gather : bounds.gathers) {
        hash->add(gather.index);
        if (!gather.computed.exists()) continue;
        for (const std::int64_t number : {gather.computed.times, gather.computed.factor, gather.computed.shift})
          hash->add(number);
      }
      for (const Bounds::Wrap& wrap : bounds.wraps) hash->add(wrap.behind);
      if (hash == &code) continue;
      hash->add(bounds.first);
      hash->add(bounds.count);
      for (const Bounds::Gather& gather : bounds.gathers) {
        hash->add(gather.stride);
        hash->add(gather.extent);
        hash->add(static_cast<int>(gather.wraps));
      }
      for (const Bounds::Wrap& wrap : bounds.wraps) {
        hash->add(wrap.extent);
        hash->add(wrap.before);
      }
    }
    for (const Scatter& scatter : scatters_) {
      hash->add(scatter.along.size());
      for (const Scatter::Along& along : scatter.along) {
        hash->add(along.index);
        for (const std::int64_t number : {along.computed.times, along.computed.modulus}) hash->add(number);
        if (hash == &all) hash->add(along.dimension);
      }
      if (hash == &code) continue;
      for (const std::int64_t extent : scatter.shape) hash->add(extent);
      for (const int dimension : scatter.own) hash->add(dimension);
    }
  }
  code_fingerprint_ = code.digest();
  fingerprint_ = all.digest();
}

}  // namespace epifuse::ir
