// Sampling and comparison.
#include "verify.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <limits>
#include <random>

#include "convert.hpp"

namespace epifuse::tool {
namespace {

constexpr std::int64_t kBoxElements = 1 << 16;
constexpr int kRandomBoxes = 30;

struct Box {
  Dims start;
  Dims extent;
};

// As many whole inner dimensions as fit, a piece of the next one, single steps of the rest. `where(n)` chooses among n
// places.
template <class Where>
Box choose_box(const Dims& shape, const Where& where) {
  Box box{shape, shape};
  std::int64_t left = kBoxElements;
  for (int i = shape.size(); i-- > 0;) {
    box.extent[i] = std::min(shape[i], left);
    box.start[i] = where(shape[i] - box.extent[i] + 1);
    left /= box.extent[i];
    left = std::max<std::int64_t>(left, 1);
  }
  return box;
}

std::vector<Box> choose_boxes(const Dims& shape, std::uint64_t seed) {
  std::vector<Box> boxes = {choose_box(shape, [](std::int64_t) { return std::int64_t{0}; })};
  if (boxes[0].extent == shape) return boxes;
  boxes.push_back(choose_box(shape, [](std::int64_t places) { return places - 1; }));
  std::mt19937_64 random(seed);
  for (int i = 0; i < kRandomBoxes; ++i) {
    boxes.push_back(choose_box(shape, [&](std::int64_t places) {
      return static_cast<std::int64_t>(random() % static_cast<std::uint64_t>(places));
    }));
  }
  return boxes;
}

// The part of an operand that broadcasts to the box.
TensorView part_of(const TensorView& view, const Box& box) {
  TensorView part = view;
  const auto* data = static_cast<const std::byte*>(view.data);
  const int missing = box.start.size() - view.shape.size();
  for (int i = 0; i < view.shape.size(); ++i) {
    if (view.shape[i] == 1) continue;
    data += box.start[i + missing] * view.strides[i] * static_cast<std::int64_t>(size_of(view.dtype));
    part.shape[i] = box.extent[i + missing];
  }
  part.data = data;
  return part;
}

// What rounding explains, relative to the largest value of the box: one or two units in the last place of a small type;
// in f32 and f64 what a chain makes of differences of an ulp between the devices' functions.
double tolerance(DType type) {
  switch (type) {
    case DType::f64:
      return 1e-10;
    case DType::f32:
      return 2e-5;
    case DType::f16:
      return 0x1p-9;
    case DType::bf16:
      return 0x1p-6;
    case DType::f8e4m3:
      return 0x1p-2;
    case DType::f8e5m2:
    case DType::f8e8m0:
    case DType::f4e2m1:
      return 0x1p-1;
    default:
      return 0;  // integers: see below
  }
}

bool is_integer(DType type) { return !is_floating(type) && type != DType::boolean; }

void compare(Verification& sum, const TensorView& found_view, const TensorView& expected_view) {
  const std::vector<double> found = to_doubles(found_view);
  const std::vector<double> expected = to_doubles(expected_view);
  double scale = std::numeric_limits<double>::min();
  for (const double value : expected) {
    if (std::isfinite(value)) scale = std::max(scale, std::fabs(value));
  }
  // An integer may be rounded the other way.
  const double allowed =
      is_integer(found_view.dtype) ? std::max(1.0, scale * 2e-5) : scale * tolerance(found_view.dtype);
  sum.checked += found.size();
  for (std::size_t i = 0; i < found.size(); ++i) {
    if (found[i] == expected[i] || (std::isnan(found[i]) && std::isnan(expected[i]))) continue;
    const double difference = std::fabs(found[i] - expected[i]);
    if (difference <= allowed) {
      sum.worst = std::max(sum.worst, difference / scale);
    } else {
      ++sum.different;
      sum.worst =
          std::isfinite(difference) ? std::max(sum.worst, difference / scale) : std::numeric_limits<double>::infinity();
    }
  }
}

// A chain with reductions is computed again as a whole: any part of a result may depend on all of an operand. So is one
// over packed tensors, of which no box can be cut.
Verification verify_whole(const Task& task, const HostData& data) {
  std::vector<TensorView> inputs;
  std::vector<HostTensor> expected;
  std::vector<OutputView> outputs;
  for (const HostTensor& input : data.inputs) inputs.push_back(input.view());
  for (std::size_t i = 0; i < task.outputs.size(); ++i) {
    const TensorInfo& output = task.outputs[i];
    const auto under = task.input_under(i);
    const Dims strides = under ? output.strides : row_major(output.shape);
    expected.push_back(HostTensor::uninitialised({output.name, output.dtype, output.shape, strides, output.offset}));
    outputs.push_back(expected.back().view());
    if (!under) continue;
    // What is written at indices is written again, into a copy.
    const HostTensor& written = data.inputs[*under];
    std::memcpy(expected.back().memory(), written.memory(), written.storage().bytes);
    inputs[*under] = expected.back().view();
  }
  Engine(Device::cpu()).launch(task.tail, nullptr, outputs, inputs, task.scalars);
  Verification sum;
  for (std::size_t i = 0; i < expected.size(); ++i) compare(sum, result_of(task, data, i).view(), expected[i].view());
  return sum;
}

}  // namespace

Verification verify(const Task& task, const HostData& data, std::uint64_t seed) {
  const auto is_packed_tensor = [](const TensorInfo& info) { return is_packed(info.dtype); };
  const bool has_packed = std::ranges::any_of(task.outputs, is_packed_tensor) ||
                          std::ranges::any_of(data.inputs, is_packed_tensor, &HostTensor::info);
  if (!task.tail.is_elementwise() || has_packed) return verify_whole(task, data);
  Verification sum;
  const Dims& shape = task.outputs[0].shape;
  if (element_count(shape) == 0) return sum;
  Engine reference(Device::cpu());
  for (const Box& box : choose_boxes(shape, seed)) {
    std::vector<TensorView> inputs;
    std::vector<HostTensor> expected;
    std::vector<OutputView> outputs;
    for (const HostTensor& input : data.inputs) inputs.push_back(part_of(input.view(), box));
    for (const TensorInfo& output : task.outputs) {
      expected.push_back(HostTensor::uninitialised({output.name, output.dtype, box.extent, row_major(box.extent), 0}));
      outputs.push_back(expected.back().view());
    }
    reference.launch(task.tail, nullptr, outputs, inputs, task.scalars);
    for (std::size_t i = 0; i < expected.size(); ++i) {
      compare(sum, part_of(result_of(task, data, i).view(), box), expected[i].view());
    }
  }
  return sum;
}

}  // namespace epifuse::tool
