// Example 8: the scores of attention, q · kᵀ for every head, then softmax(where(mask, x * scale, -inf)). The chain is
// given as text here, and the mask broadcasts over the heads.
#include <cmath>
#include <limits>

#include "common/linear.hpp"
#include "common/reference.hpp"
#include "common/session.hpp"

namespace {

namespace ef = epifuse;
using Bias = examples::Linear::Bias;

struct Attention {
  std::int64_t batch;
  std::int64_t heads;
  std::int64_t queries;
  std::int64_t keys;
  std::int64_t head_size;
};
constexpr Attention kFull{.batch = 16, .heads = 12, .queries = 1024, .keys = 1024, .head_size = 64};
constexpr Attention kSmall{.batch = 2, .heads = 3, .queries = 33, .keys = 48, .head_size = 64};
/// With keys of deviation 1 this would be 1/sqrt(head_size); these have a deviation of that much already, and a few
/// times their scores make rows that are far from flat.
constexpr double kScale = 3;

/// Query q sees the keys up to its own, of a sequence that is shorter in every further element of the batch.
ef::Array causal_mask(ef::Engine& engine, const Attention& shape) {
  const ef::Dims dims{shape.batch, 1, shape.queries, shape.keys};
  std::vector<std::uint8_t> host(static_cast<std::size_t>(examples::count_of(dims)));
  auto element = host.begin();
  for (std::int64_t b = 0; b < shape.batch; ++b) {
    const std::int64_t length = shape.keys - b * shape.keys / (2 * shape.batch);
    for (std::int64_t q = 0; q < shape.queries; ++q) {
      for (std::int64_t k = 0; k < shape.keys; ++k) *element++ = k <= q && k < length ? 1 : 0;
    }
  }
  return engine.array(ef::DType::boolean, dims, host.data());
}

/// The tail in plain double precision, from one row's y and mask.
examples::Values reference(const examples::Values& in) {
  std::vector<double> t = in[0];
  for (std::size_t i = 0; i < t.size(); ++i) {
    t[i] = in[1][i] != 0 ? t[i] * kScale : -std::numeric_limits<double>::infinity();
  }
  return {examples::softmax_of(t)};
}

void run(examples::Session& session, ef::DType dtype) {
  ef::Engine& engine = session.engine();
  const ef::Stream stream = session.stream();
  const Attention shape = session.pick(kFull, kSmall);

  // The scores: for every head of every sequence a product of all queries with all keys, in one call of cuBLASLt.
  examples::Linear scores(
      engine,
      {.rows = shape.queries, .inputs = shape.head_size, .outputs = shape.keys, .batches = shape.batch * shape.heads},
      dtype, Bias::none);
  const auto produce = [&](const ef::OutputView& y) { scores.forward(y, stream); };

  // The tail: `input` states the order of the operands, in which the session gives them.
  const ef::Epilogue tail = ef::Epilogue::parse(
      "input x, mask; scalar scale;"
      "softmax(where(mask, x * scale, -inf), axis=-1)");
  const ef::Array mask = causal_mask(engine, shape);
  const auto finish = [&](const ef::OutputView& y, std::span<const ef::OutputView> out) {
    engine.launch(tail, stream, out[0], {{"x", y}, {"mask", mask}, {"scale", kScale}});
  };

  session.run({.producer = scores.describe(),
               .library = examples::Linear::library(),
               .layout = "row-major",
               .y = {nullptr, dtype, {shape.batch, shape.heads, shape.queries, shape.keys}},
               .results = {dtype},
               .tail = tail,
               .operands = {mask},
               .produce = produce,
               .finish = finish,
               .expected =
                   [&](const ef::Dims& at) {
                     return scores.expected({at[0] * shape.heads + at[1], at[2], at[3]});
                   },
               .reference = examples::Reference{{1, 1, 1, shape.keys}, reference}});
}

}  // namespace

int main(int argc, char** argv) {
  return examples::run_example("8_masked_softmax", argc, argv, [](examples::Session& session) {
    for (const ef::DType dtype : {ef::DType::f32, ef::DType::f16}) run(session, dtype);
  });
}
