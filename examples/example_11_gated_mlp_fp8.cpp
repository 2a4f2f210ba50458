// Example 11: the two tails of a language model in fp8, each between two products. Attention's output projection, then
// residual + RMSNorm + fp8; the MLP's first product, then silu(gate) * up in fp8. Both write a scale for each 128
// numbers where the next product looks for it. Without a GPU the CPU device computes small shapes and verifies them.
#include <algorithm>
#include <cmath>
#include <vector>

#include <epifuse/scale_layouts.hpp>

#include "common/linear_fp8.hpp"
#include "common/reference.hpp"
#include "common/session.hpp"

namespace {

namespace ef = epifuse;
using examples::Fp8;
using examples::kScaleBlock;
using examples::LinearFp8;

/// The sizes of DeepSeek-V3's dense layers: `width` numbers for each token, `hidden` inside the MLP.
struct Mlp {
  std::int64_t rows;
  std::int64_t width;
  std::int64_t hidden;
};
constexpr Mlp kFull{.rows = 4096, .width = 7168, .hidden = 18'432};
constexpr Mlp kSmall{.rows = 48, .width = 256, .hidden = 384};

constexpr double kLargest = 448;        // of f8e4m3
constexpr double kLeastOfBlock = 1e-4;  // what the largest of a block counts as at least

/// A tail, and the same in plain double precision for one row of its operands.
struct Tail {
  const char* chain;  ///< its last results are the values and their scales
  std::vector<ef::TensorView> operands;
  std::vector<ef::DType> results;
  std::function<examples::Values(const examples::Values&)> reference;
};

/// Appends what a row becomes in fp8, before it is rounded, and its scales.
void append_quantised(std::vector<double> row, examples::Values& results) {
  std::vector<double> scales;
  for (auto block = row.begin(); block != row.end(); block += kScaleBlock) {
    double largest = kLeastOfBlock;
    std::for_each(block, block + kScaleBlock, [&](double v) { largest = std::max(largest, std::abs(v)); });
    scales.push_back(largest / kLargest);
    std::for_each(block, block + kScaleBlock, [&](double& v) { v /= scales.back(); });
  }
  results.insert(results.end(), {row, scales});
}

/// The kernel stores h rounded, but goes on with the sum that it holds.
examples::Values norm_reference(const examples::Values& in) {
  std::vector<double> h = in[0];
  for (std::size_t i = 0; i < h.size(); ++i) h[i] += in[1][i];
  examples::Values results = {h};
  append_quantised(examples::rms_normalized(h, in[2], 1e-6), results);
  return results;
}

examples::Values gate_reference(const examples::Values& in) {
  const std::size_t half = in[0].size() / 2;
  std::vector<double> gated(half);
  for (std::size_t i = 0; i < half; ++i) gated[i] = in[0][i] / (1 + std::exp(-in[0][i])) * in[0][half + i];
  examples::Values results;
  append_quantised(gated, results);
  return results;
}

/// Random numbers in fp8: what a layer further in front would have written.
struct RandomFp8 {
  RandomFp8(examples::Session& session, std::int64_t rows, std::int64_t columns)
      : values(session.engine().empty(ef::DType::f8e4m3, {rows, columns})),
        scales(session.engine().empty(ef::DType::f32, {columns / kScaleBlock, ef::padded_rows(rows)})) {
    const ef::Array x = examples::normal(session.engine(), ef::DType::bf16, {rows, columns}, 1, 4);
    const ef::Epilogue tail = ef::Epilogue::parse("q, s = quantize(x, f8e4m3, 128); return q, s");
    const ef::OutputView transposed =
        ef::transposed_scales(scales.view().writable(), ef::DType::f32, rows, columns / kScaleBlock);
    session.engine().launch(tail, session.stream(), {values, transposed}, {{"x", x.view()}});
    session.engine().synchronize(session.stream());
    view = {values.view(), transposed};
  }

  ef::Array values;
  ef::Array scales;
  Fp8 view;
};

/// The tail's last two results are what the product behind it takes.
Fp8 quantised(std::span<const ef::OutputView> results) { return {results[results.size() - 2], results.back()}; }

void run(examples::Session& session, LinearFp8& before, const Tail& tail, LinearFp8& behind, std::int64_t inputs) {
  ef::Engine& engine = session.engine();
  const ef::Stream stream = session.stream();
  const ef::OutputView y = before.result();
  const RandomFp8 x(session, y.shape[0], inputs);
  const ef::Epilogue chain = ef::Epilogue::parse(tail.chain);

  // Scales are written transposed, as cuBLASLt takes them; the other results are row-major.
  std::vector<ef::TensorView> operands{y};
  operands.insert(operands.end(), tail.operands.begin(), tail.operands.end());
  std::vector<ef::Dims> strides;
  for (const ef::Dims& shape : chain.result_shapes(operands)) strides.push_back(ef::row_major(shape));
  const ef::Dims scales = chain.result_shapes(operands).back();
  strides.back() = ef::transposed_scales(nullptr, ef::DType::f32, scales[0], scales[1]).strides;

  const auto finish = [&](const ef::OutputView& product, std::span<const ef::OutputView> out) {
    std::vector<ef::TensorView> given{product};
    given.insert(given.end(), tail.operands.begin(), tail.operands.end());
    engine.launch(chain, stream, out, given);
  };
  const examples::Consumer consumer{
      .what = behind.describe(),
      .z = behind.result(),
      .consume = [&](auto in, const auto& z) { behind.forward(quantised(in), z, stream); },
      .expected = [&](auto in, const auto& at) { return behind.expected(quantised(in), at); }};
  session.run({.producer = before.describe(),
               .library = before.library(),
               .layout = "row-major",
               .y = y,
               .results = tail.results,
               .strides = strides,
               .tail = chain,
               .operands = tail.operands,
               .produce = [&](const auto& to) { before.forward(x.view, to, stream); },
               .finish = finish,
               .expected = [&](const ef::Dims& at) { return before.expected(x.view, at); },
               .reference = examples::Reference{{1, y.shape[1]}, tail.reference},
               .consumer = consumer});
  session.note(before.describe() + ", then " + tail.chain + ", then " + behind.describe());
}

void run_all(examples::Session& session) {
  ef::Engine& engine = session.engine();
  const Mlp size = session.pick(kFull, kSmall);
  const auto [rows, width, hidden] = size;

  LinearFp8 projection(engine, {.rows = rows, .inputs = width, .outputs = width}, 11);
  LinearFp8 gate_and_up(engine, {.rows = rows, .inputs = width, .outputs = 2 * hidden}, 12);
  LinearFp8 down(engine, {.rows = rows, .inputs = hidden, .outputs = width}, 13);
  if (!down.refusal().empty()) session.note("EpiFuse multiplies, in f32: " + down.refusal());

  const ef::Array residual = examples::normal(engine, ef::DType::bf16, {rows, width}, 1, 5);
  const ef::Array weight = examples::normal(engine, ef::DType::bf16, {width}, 1, 6);
  const Tail norm{
      .chain = "input y, r, w; h = y + r; q, s = quantize(rms_norm(h, w, eps=1e-6), f8e4m3, 128); return h, q, s",
      .operands = {residual, weight},
      .results = {ef::DType::bf16, ef::DType::f8e4m3, ef::DType::f32},
      .reference = norm_reference};
  run(session, projection, norm, gate_and_up, width);

  // The first half of a row of y is the gate's, the second what it multiplies.
  const Tail gate{.chain = "gate, up = chunk(y, 2, -1); q, s = quantize(silu(gate) * up, f8e4m3, 128); return q, s",
                  .operands = {},
                  .results = {ef::DType::f8e4m3, ef::DType::f32},
                  .reference = gate_reference};
  run(session, gate_and_up, gate, down, width);
}

}  // namespace

int main(int argc, char** argv) {
  return examples::run_example("11_gated_mlp_fp8", argc, argv, run_all, examples::Without::check);
}
