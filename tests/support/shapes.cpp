// One small rule per kind of step.
#include "support/shapes.hpp"

#include <algorithm>

namespace epifuse::test {
namespace {

int resolve_one(int axis, int rank) {
  const int resolved = axis < 0 ? axis + rank : axis;
  if (resolved < 0 || resolved >= rank) {
    throw ShapeError("axis " + std::to_string(axis) + " of a value of " + std::to_string(rank) + " dimensions");
  }
  return resolved;
}

Dims reduced(const Step& step, const Dims& shape) {
  const unsigned mask = resolve(step.axes, shape.size());
  Dims out;
  for (int d = 0; d < shape.size(); ++d) {
    const bool gone = ((mask >> d) & 1u) != 0;
    if (!gone || step.keepdim) out.push_back(gone ? 1 : shape[d]);
  }
  const bool extreme = step.reduction == Reduction::amax || step.reduction == Reduction::amin;
  for (int d = 0; d < shape.size(); ++d) {
    if (extreme && ((mask >> d) & 1u) != 0 && shape[d] == 0) throw ShapeError("the largest of no elements");
  }
  return out;
}

Dims unflattened(const Step& step, const Dims& shape) {
  const int dim = resolve_one(step.axes.at[0], shape.size());
  const std::int64_t given = step.sizes[0] == -1 ? step.sizes[1] : step.sizes[0];
  const bool open = step.sizes[0] == -1 || step.sizes[1] == -1;
  const bool fits = open ? given > 0 && shape[dim] % given == 0 : step.sizes[0] * step.sizes[1] == shape[dim];
  if (!fits) throw ShapeError("unflatten of " + std::to_string(shape[dim]) + " elements");
  Dims out;
  for (int d = 0; d < shape.size(); ++d) {
    if (d != dim) {
      out.push_back(shape[d]);
      continue;
    }
    for (const std::int64_t size : step.sizes) out.push_back(size == -1 ? shape[dim] / given : size);
  }
  return out;
}

Dims flattened(const Step& step, const Dims& shape) {
  const int first = resolve_one(step.axes.at[0], shape.size());
  const int last = resolve_one(step.axes.at[1], shape.size());
  if (first > last) throw ShapeError("flatten from behind");
  Dims out;
  for (int d = 0; d < shape.size(); ++d) {
    if (d > first && d <= last) {
      out[first] *= shape[d];
    } else {
      out.push_back(shape[d]);
    }
  }
  return out;
}

// `shape`, which lacks the axes that a reduction of a value of `rank` dimensions dropped, with one element there.
Dims unsqueezed(const Step& step, const Dims& shape, int rank) {
  const unsigned mask = resolve(step.axes, rank);
  Dims out;
  int next = 0;
  for (int d = 0; d < rank; ++d) {
    const bool dropped = ((mask >> d) & 1u) != 0;
    if (!dropped && next >= shape.size()) throw ShapeError("unsqueeze_as of too few dimensions");
    out.push_back(dropped ? 1 : shape[next++]);
  }
  if (next != shape.size()) throw ShapeError("unsqueeze_as of too many dimensions");
  return out;
}

Dims reshaped(const Dims& shape, const Dims& other) {
  if (elements_of(shape) != elements_of(other))
    throw ShapeError("reshape_as of " + to_string(shape) + " to " + to_string(other));
  return other;
}

// Whether `narrow` broadcasts to `wide`; else an error.
void check_broadcast(const Dims& narrow, const Dims& wide) {
  if (broadcast(narrow, wide) != wide) throw ShapeError(to_string(narrow) + " is no part of " + to_string(wide));
}

Dims laid_along(const Step& step, const Dims& vector, int rank) {
  if (vector.size() > 1) throw ShapeError("along takes a vector");
  Dims out;
  for (int d = 0; d < rank; ++d) out.push_back(1);
  const int dim = resolve_one(step.axes.at[0], rank);
  if (!vector.empty()) out[dim] = vector[0];
  return out;
}

}  // namespace

Dims broadcast(const Dims& a, const Dims& b) {
  const Dims& longer = a.size() >= b.size() ? a : b;
  const Dims& shorter = a.size() >= b.size() ? b : a;
  Dims out = longer;
  for (int i = 1; i <= shorter.size(); ++i) {
    std::int64_t& extent = out[out.size() - i];
    const std::int64_t other = shorter[shorter.size() - i];
    if (extent == 1) extent = other;
    if (other != 1 && other != extent) throw ShapeError(to_string(a) + " and " + to_string(b) + " do not broadcast");
  }
  return out;
}

unsigned resolve(const AxisList& axes, int rank) {
  const unsigned all = (1u << rank) - 1;
  if (axes.at.empty()) return all;
  unsigned mask = 0;
  for (const int axis : axes.at) {
    const unsigned bit = 1u << resolve_one(axis, rank);
    if ((mask & bit) != 0) throw ShapeError("axis " + std::to_string(axis) + " is given twice");
    mask |= bit;
  }
  if (axes.rest) mask |= all & ~((1u << resolve_one(axes.at.back(), rank)) - 1);
  return mask;
}

std::int64_t elements_of(const Dims& shape) noexcept {
  std::int64_t count = 1;
  for (const std::int64_t extent : shape) count *= extent;
  return count;
}

std::vector<Dims> infer_shapes(const Chain& chain, std::span<const Dims> inputs) {
  std::vector<Dims> shapes;
  for (const Step& step : chain.steps) {
    const auto argument = [&](std::size_t i) -> const Dims& { return shapes[static_cast<std::size_t>(step.args[i])]; };
    Dims shape;
    switch (step.kind) {
      case Step::Kind::input:
        shape = inputs[static_cast<std::size_t>(step.ordinal)];
        break;
      case Step::Kind::reduce:
        shape = reduced(step, argument(0));
        break;
      case Step::Kind::unflatten:
        shape = unflattened(step, argument(0));
        break;
      case Step::Kind::flatten:
        shape = flattened(step, argument(0));
        break;
      case Step::Kind::along:
        shape = laid_along(step, argument(0), argument(1).size());
        break;
      case Step::Kind::count:
        static_cast<void>(resolve(step.axes, argument(0).size()));
        break;
      case Step::Kind::unsqueeze_as:
        shape = unsqueezed(step, argument(0), argument(1).size());
        break;
      case Step::Kind::reshape_as:
        shape = reshaped(argument(0), argument(1));
        break;
      case Step::Kind::sum_to:
        check_broadcast(argument(1), argument(0));
        shape = argument(1);
        break;
      case Step::Kind::expand_as:
        check_broadcast(argument(0), argument(1));
        shape = argument(1);
        break;
      default:
        for (std::size_t i = 0; i < step.args.size(); ++i) shape = broadcast(shape, argument(i));
    }
    shapes.push_back(shape);
  }
  return shapes;
}

}  // namespace epifuse::test
