// Example 10: the chain inside the product's kernel, beside the pair of cuBLASLt and a tail. One launch each: the first
// two are a linear layer with what stands behind it, the third is SwiGLU, two linear layers of one input. Needs an
// sm_90 GPU.
#include <cmath>
#include <cstdio>
#include <string>
#include <string_view>
#include <vector>

#include "common/linear.hpp"
#include "common/session.hpp"
#include "common/timing.hpp"

namespace {

namespace ef = epifuse;

struct Work {
  const char* inside;  ///< of x, w and what `operands` names
  const char* tail;    ///< the same of the product y
  const char* operands;
  examples::LinearShape full, small;
};
constexpr Work kWork[] = {
    {"relu(linear(x, w, b))",
     "relu(y + b)",
     "b",
     {.rows = 1024, .inputs = 8192, .outputs = 8192},
     {.rows = 33, .inputs = 64, .outputs = 48}},
    {"gelu(linear(x, w, b)) + r",
     "gelu(y + b) + r",
     "br",
     {.rows = 8192, .inputs = 4096, .outputs = 4096},
     {.rows = 300, .inputs = 72, .outputs = 264}},
    {"a, b = chunk(linear(x, w), 2, -1); return silu(a) * b",
     "a, b = chunk(y, 2, -1); return silu(a) * b",
     "",
     {.rows = 4096, .inputs = 4096, .outputs = 22'016},
     {.rows = 130, .inputs = 64, .outputs = 272}},
};

/// The results at sampled positions against the chain in f64 on sums in f64: the first that is off, as a sentence.
std::string verify(const examples::Linear& linear, const ef::Epilogue& tail, const ef::TensorView& out,
                   std::span<const ef::TensorView> operands) {
  const std::vector<ef::Dims> at = examples::sample_positions(out, 32, 192);
  const std::int64_t columns = linear.result().shape[1];
  const std::int64_t pieces = columns / out.shape[1];  // 2 where the chain takes both halves of a row
  std::vector<double> sums;
  for (const ef::Dims& position : at) {
    for (std::int64_t i = 0; i < pieces; ++i)
      sums.push_back(linear.expected({position[0], position[1] + i * out.shape[1]}));
  }
  const auto samples = static_cast<std::int64_t>(at.size());
  std::vector<std::vector<double>> values;
  for (const ef::TensorView& operand : operands) values.push_back(examples::gather(operand, at));
  std::vector<ef::TensorView> inputs = {{sums.data(), ef::DType::f64, {samples, pieces}}};
  for (const auto& each : values) inputs.emplace_back(each.data(), ef::DType::f64, ef::Dims{samples, 1});
  std::vector<double> want(at.size());
  const ef::OutputView result(want.data(), ef::DType::f64, {samples, 1});
  ef::Engine(ef::Device::cpu()).launch(tail, nullptr, result, inputs);
  const std::vector<double> got = examples::gather(out, at);
  const double unit = out.dtype == ef::DType::bf16 ? 0x1p-8 : 0x1p-10;
  for (std::size_t i = 0; i < at.size(); ++i) {
    if (std::abs(got[i] - want[i]) <= unit * std::abs(want[i]) + 1e-3) continue;
    return "at " + ef::to_string(at[i]) + " found " + std::to_string(got[i]) + ", expected " + std::to_string(want[i]);
  }
  return {};
}

/// The chain that takes these operands, and behind them those that the letters name.
ef::Epilogue in_order(const char* chain, std::vector<std::string> operands, std::string_view letters) {
  for (const char letter : letters) operands.emplace_back(1, letter);
  return ef::Epilogue::parse(chain).inputs(operands);
}

void run(examples::Session& session, const Work& work, ef::DType dtype) {
  ef::Engine& engine = session.engine();
  const examples::LinearShape shape = session.pick(work.full, work.small);
  examples::Linear linear(engine, shape, dtype, examples::Linear::Bias::none);
  const ef::Epilogue chain = in_order(work.inside, {"x", "w"}, work.operands);
  const ef::Epilogue tail = in_order(work.tail, {"y"}, work.operands);
  const ef::Array b = examples::normal(engine, dtype, {shape.outputs}, 1, 4);
  const ef::Array r = examples::normal(engine, dtype, linear.result().shape, 1, 5);
  std::vector<ef::TensorView> operands;
  for (const char name : std::string(work.operands)) operands.push_back(name == 'b' ? b.view() : r.view());

  // Apart: the product is rounded to 16 bits, written, and read again.
  const ef::Array y = engine.empty(dtype, linear.result().shape);
  std::vector<ef::TensorView> of_tail = {y.view()};
  of_tail.insert(of_tail.end(), operands.begin(), operands.end());
  const ef::Dims result = tail.result_shapes(of_tail)[0];
  const ef::Array apart = engine.empty(dtype, result);
  const auto produce = [&] { linear.forward(y.view(), session.stream()); };
  const auto pair = [&] {
    produce();
    engine.launch(tail, session.stream(), apart, of_tail);
  };

  // Inside: one kernel, and the product stays in registers.
  const ef::Array inside = engine.empty(dtype, result);
  std::vector<ef::TensorView> of_chain = {linear.x(), linear.w()};
  of_chain.insert(of_chain.end(), operands.begin(), operands.end());
  const auto host = [&] { engine.launch(chain, session.stream(), inside, of_chain); };

  pair();
  host();
  engine.synchronize(session.stream());
  const std::string problem = verify(linear, tail, inside.view(), operands);
  if (!problem.empty()) throw examples::Failure(std::string(work.inside) + ": " + problem);
  constexpr int kRounds = 31;
  const std::vector<double> ms = examples::measure(session.stream(), kRounds, {produce, pair, host});
  std::printf("%-36s %-54s %-5s product %8.4f ms, and tail %8.4f ms, in one kernel %8.4f ms\n",
              linear.describe().c_str(), work.inside, std::string(ef::to_string(dtype)).c_str(), ms[0], ms[1], ms[2]);
}

}  // namespace

int main(int argc, char** argv) {
  return examples::run_example("10_linear_inside", argc, argv, [](examples::Session& session) {
    for (const Work& work : kWork) {
      for (const ef::DType dtype : {ef::DType::f16, ef::DType::bf16}) run(session, work, dtype);
    }
  });
}
