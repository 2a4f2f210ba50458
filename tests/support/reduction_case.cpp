// Dimensions, operands and extents of random chains with reductions; reduction_chain.cpp draws the chains.
#include "support/reduction_case.hpp"

#include <algorithm>

#include "support/random_case.hpp"
#include "support/reduction_chain.hpp"
#include "support/shapes.hpp"

namespace epifuse::test {
namespace {

unsigned draw_mask(Random& random, int rank) {
  const unsigned all = (1u << rank) - 1;
  if (random.percent(35)) return 1u << (rank - 1);
  if (random.percent(25)) return all & ~((1u << random.below(rank)) - 1);  // the last ones
  const auto mask = static_cast<unsigned>(random.bits()) & all;
  return mask == 0 ? 1u << random.below(rank) : mask;
}

Frame draw_frame(Random& random) {
  Frame frame;
  const bool split = random.percent(25);
  frame.rank = split ? random.between(2, 5) : random.percent(85) ? random.between(1, 4) : 5;
  if (split) {
    frame.split = random.below(frame.rank - 1);
    frame.groups = random.pick({1, 2, 3, 4, 8});
  }
  frame.inner = draw_mask(random, frame.rank);
  // As group_norm reduces: the second part of the split dimension and all behind it.
  if (split && random.percent(70)) frame.inner = frame.all() & ~((2u << frame.split) - 1);
  frame.outer = frame.inner;
  if (random.percent(40)) frame.outer |= static_cast<unsigned>(random.bits()) & frame.all();
  return frame;
}

Source draw_source(Random& random, const Frame& frame) {
  Source source;
  source.after_split = frame.split >= 0 && random.percent(30);
  if (!source.after_split && random.percent(25)) {
    source.along = random.below(frame.base_rank());
    return source;
  }
  if (random.percent(40)) return source;
  const int rank = source.after_split ? frame.rank : frame.base_rank();
  const unsigned all = (1u << rank) - 1;
  source.repeated = random.percent(60) ? all & ~(1u << random.below(rank)) : static_cast<unsigned>(random.bits()) & all;
  while (source.dropped < rank && ((source.repeated >> source.dropped) & 1u) != 0 && random.percent(70))
    ++source.dropped;
  return source;
}

}  // namespace

unsigned Frame::base_mask(unsigned mask) const noexcept {
  if (split < 0) return mask;
  const unsigned before = mask & ((1u << split) - 1);
  const unsigned both = ((mask >> split) & 3u) == 3u ? 1u << split : 0;
  return before | both | (mask >> (split + 2)) << (split + 1);
}

Dims Frame::base(const Dims& extents) const {
  if (split < 0) return extents;
  Dims out;
  for (int d = 0; d < extents.size(); ++d) {
    if (d == split + 1) {
      out[split] *= extents[d];
    } else {
      out.push_back(extents[d]);
    }
  }
  return out;
}

ReductionFamily::ReductionFamily(std::uint64_t seed) : random_(seed) {
  do {
    frame_ = draw_frame(random_);
    std::vector<Source> sources = {Source{}};
    const int others = random_.percent(45) ? 0 : random_.between(1, 3);
    for (int i = 0; i < others; ++i) sources.push_back(draw_source(random_, frame_));
    std::vector<bool> truths(sources.size(), false);
    inputs_.clear();
    const DType main_type = draw_type(random_);
    for (std::size_t i = 0; i < sources.size(); ++i) {
      Storage storage;
      storage.dtype = i == 0 || random_.percent(50) ? main_type : draw_type(random_);
      truths[i] = storage.dtype == DType::boolean;
      inputs_.push_back(storage);
    }
    // What remains of the inputs keeps the type that the chain was drawn for.
    for (std::size_t i = 0; i < sources.size(); ++i) sources[i].ordinal = static_cast<int>(i);
    const DrawnChain drawn = draw_reduction_chain(random_, frame_, sources, truths);
    chain_ = drawn.chain;
    sources_ = drawn.sources;
  } while (!chain_.has_shaping() || sources_.empty() || !sources_[0].is_full());
  std::vector<Storage> held;
  for (const Source& source : sources_) held.push_back(inputs_[static_cast<std::size_t>(source.ordinal)]);
  inputs_ = held;
  draw_operands();
}

void ReductionFamily::draw_operands() {
  // Operands of one order and results of another, as after a convolution in channels-last order.
  const bool transposed = frame_.base_rank() > 1 && random_.percent(20);
  // Extents that tell all dimensions apart.
  Dims extents;
  for (int d = 0; d < frame_.rank; ++d) extents.push_back(d == frame_.split ? frame_.groups : 11 + 2 * d);
  const std::vector<Dims> shapes = input_shapes(extents);
  const std::vector<Dims> inferred = infer_shapes(chain_, shapes);
  std::vector<Dims> results;
  for (const int result : chain_.results) results.push_back(inferred[static_cast<std::size_t>(result)]);
  for (std::size_t i = 0; i < inputs_.size(); ++i) {
    const Source& source = sources_[i];
    inputs_[i].order = dense_order(source.along >= 0 ? 1 : source.after_split ? frame_.rank : frame_.base_rank());
    inputs_[i].aligned = random_.percent(50);
    if (transposed && i == 0) {
      inputs_[i].order.kind = 1;
      auto& order = inputs_[i].order.order;
      std::rotate(order.begin(), order.begin() + random_.between(1, frame_.base_rank() - 1), order.end());
    } else if (i > 0 && source.is_full() && !source.after_split && random_.percent(transposed ? 90 : 50)) {
      inputs_[i].order = inputs_[0].order;
    } else if (random_.percent(40)) {
      draw_kind(inputs_[i].order, random_, false);
    }
  }
  for (const Dims& shape : results) {
    Storage storage;
    storage.dtype = random_.percent(50) ? inputs_[0].dtype : draw_type(random_);
    storage.aligned = random_.percent(50);
    storage.order = dense_order(shape.size());
    const bool like_input = shape == shapes[0] && inputs_[0].order.kind < 6 && random_.percent(transposed ? 10 : 60);
    if (like_input) {
      storage.order = inputs_[0].order;
    } else if (random_.percent(35)) {
      draw_kind(storage.order, random_, true);
    }
    outputs_.push_back(storage);
  }
  in_place_.assign(results.size(), -1);
  if (!random_.percent(20)) return;
  const auto input = static_cast<std::size_t>(random_.below(static_cast<int>(inputs_.size())));
  // Of full shape only: an operand of a row is read as long as the row is worked on.
  const auto output = std::ranges::find(results, shapes[input]);
  if (output == results.end() || !sources_[input].is_full()) return;
  Storage& storage = outputs_[static_cast<std::size_t>(output - results.begin())];
  in_place_[static_cast<std::size_t>(output - results.begin())] = static_cast<int>(input);
  inputs_[input].order = storage.order;
  if (size_of(storage.dtype) != size_of(inputs_[input].dtype)) storage.dtype = inputs_[input].dtype;
}

Dims ReductionFamily::draw_frame_extents(int elements) {
  std::vector<int> order;
  for (int d = frame_.rank; d-- > 0;) order.push_back(d);
  // Whoever comes first gets the large extents: the reduced dimensions, the others, the inner ones.
  if (random_.percent(70)) {
    const bool reduced_first = random_.percent(60);
    std::stable_partition(order.begin(), order.end(),
                          [&](int d) { return (((frame_.inner >> d) & 1u) != 0) == reduced_first; });
  }
  Dims extents = draw_extents(random_, order, random_.percent(4) ? elements * std::int64_t{8} : elements);
  if (frame_.split >= 0) {
    extents[frame_.split] = frame_.groups;
    extents[frame_.split + 1] = std::min<std::int64_t>(extents[frame_.split + 1], 257);
  }
  const int empty = random_.below(frame_.rank);
  if (random_.percent(2) && frame_.split < 0) extents[empty] = 0;
  return extents;
}

std::vector<Dims> ReductionFamily::input_shapes(const Dims& extents) const {
  const Dims base = frame_.base(extents);
  std::vector<Dims> shapes;
  for (const Source& source : sources_) {
    const Dims& own = source.after_split ? extents : base;
    Dims shape;
    if (source.along >= 0) shape.push_back(own[source.along]);
    for (int d = source.dropped; source.along < 0 && d < own.size(); ++d)
      shape.push_back(((source.repeated >> d) & 1u) != 0 ? 1 : own[d]);
    shapes.push_back(shape);
  }
  return shapes;
}

Operand ReductionFamily::make(const Storage& storage, const Dims& shape, int dropped) {
  Operand operand;
  operand.dtype = storage.dtype;
  operand.shape = shape;
  operand.strides = strides_of(storage.order, random_, shape, dropped);
  operand.lead = storage.aligned ? 0 : random_.between(0, 17);
  return operand;
}

Case ReductionFamily::next(int elements) {
  Case test;
  test.chain = chain_;
  std::vector<Dims> shapes, results;
  while (true) {
    shapes = input_shapes(draw_frame_extents(elements));
    try {
      const std::vector<Dims> inferred = infer_shapes(chain_, shapes);
      for (const int result : chain_.results) results.push_back(inferred[static_cast<std::size_t>(result)]);
      break;
    } catch (const ShapeError&) {
      // The largest of no elements: other extents.
    }
  }
  for (std::size_t i = 0; i < inputs_.size(); ++i)
    test.inputs.push_back(make(inputs_[i], shapes[i], sources_[i].along >= 0 ? 0 : sources_[i].dropped));
  for (std::size_t i = 0; i < outputs_.size(); ++i) {
    Operand output = make(outputs_[i], results[i], 0);
    if (in_place_[i] >= 0) {
      const Operand& input = test.inputs[static_cast<std::size_t>(in_place_[i])];
      output.strides = input.strides;
      output.lead = input.lead;
    }
    test.outputs.push_back(output);
  }
  test.in_place = in_place_;
  const int fill = random_.below(100);
  test.fill = fill < 60 ? Fill::plain : fill < 90 ? Fill::rows : random_.pick({Fill::specials, Fill::bits});
  const unsigned held = frame_.base_mask(frame_.all() & ~frame_.inner);
  for (int d = 0; d < frame_.base_rank(); ++d) test.row_dims |= ((held >> d) & 1u) << (frame_.base_rank() - 1 - d);
  test.data_seed = random_.bits();
  return test;
}

std::vector<Case> random_reductions(std::uint64_t seed, std::size_t count, int per_family, int elements) {
  return draw_cases<ReductionFamily>(seed, count, per_family, elements);
}

}  // namespace epifuse::test
