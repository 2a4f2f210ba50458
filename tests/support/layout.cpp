// Strides from the innermost dimension in memory outwards.
#include "support/layout.hpp"

#include <algorithm>

namespace epifuse::test {

Order dense_order(int rank) {
  Order order;
  for (int i = 0; i < rank; ++i) order.order.push_back(i);
  return order;
}

void draw_kind(Order& order, Random& random, bool output) {
  order.kind = random.between(1, output ? 5 : 6);
  if (order.kind == 1) {  // NHWC, column-major, any transposition
    for (int i = static_cast<int>(order.order.size()); i-- > 1;)
      std::swap(order.order[static_cast<std::size_t>(i)], order.order[static_cast<std::size_t>(random.below(i + 1))]);
  }
  if (order.kind == 2) std::ranges::reverse(order.order);
}

Dims strides_of(const Order& layout, Random& random, const Dims& shape, int dropped) {
  Dims strides = shape;
  std::int64_t step = 1;
  for (std::size_t k = layout.order.size(); k-- > 0;) {
    const int i = layout.order[k] - dropped;
    if (i < 0) continue;
    const bool sliced = layout.kind == 4 && random.percent(50);
    strides[i] = step * (sliced ? random.between(2, 3) : 1);
    step = strides[i] * std::max<std::int64_t>(shape[i], 1);
    if (layout.kind == 3 || layout.kind == 4) step += random.pick({0, 1, 3, 8});
  }
  for (int i = 0; i < shape.size(); ++i) {
    if (layout.kind == 5 && random.percent(50)) strides[i] = -strides[i];
    if (layout.kind == 6 && random.percent(40)) strides[i] = 0;
    // The stride of a single element means nothing.
    if (shape[i] == 1 && random.percent(10)) strides[i] = random.between(-1000, 1000);
  }
  return strides;
}

}  // namespace epifuse::test
