// Arrays of integers by the places of their elements, with which tests write definitions down.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <numeric>
#include <string>
#include <vector>

#include "support/views.hpp"

namespace epifuse::test {

using Place = std::vector<std::int64_t>;
using At = std::function<double(const Place&)>;

inline std::int64_t count_of(const Place& shape) {
  return std::accumulate(shape.begin(), shape.end(), std::int64_t{1}, std::multiplies<>());
}

// Calls visit(place) for all places of a shape, in row-major order.
template <class Visit>
void each_place(const Place& shape, Visit visit) {
  Place place(shape.size(), 0);
  for (std::int64_t i = 0; i < count_of(shape); ++i) {
    visit(place);
    for (std::size_t d = shape.size(); d-- > 0;) {
      if (++place[d] < shape[d]) break;
      place[d] = 0;
    }
  }
}

inline IntegerArray made(const Place& shape, const At& at) {
  IntegerArray array;
  for (const std::int64_t extent : shape) array.shape.push_back(extent);
  each_place(shape, [&](const Place& place) { array.values.push_back(at(place)); });
  return array;
}

inline double value_at(const IntegerArray& array, const Place& place) {
  std::size_t i = 0;
  for (int d = 0; d < array.shape.size(); ++d)
    i = i * static_cast<std::size_t>(array.shape[d]) + static_cast<std::size_t>(place[static_cast<std::size_t>(d)]);
  return array.values[i];
}

/// Sums along one dimension of what has that shape.
inline IntegerArray summed(const Place& shape, std::size_t axis, const At& value) {
  Place kept = shape;
  kept.erase(kept.begin() + static_cast<std::ptrdiff_t>(axis));
  return made(kept, [&](const Place& place) {
    double sum = 0;
    for (std::int64_t i = 0; i < shape[axis]; ++i) {
      Place at = place;
      at.insert(at.begin() + static_cast<std::ptrdiff_t>(axis), i);
      sum += value(at);
    }
    return sum;
  });
}

inline std::string list(const Place& numbers) {
  std::string text;
  for (const std::int64_t number : numbers) text += std::to_string(number) + ", ";
  return "(" + text.substr(0, text.size() - (numbers.size() == 1 ? 1 : 2)) + ")";
}

}  // namespace epifuse::test
