// Example 10: the chain inside the product's kernel, beside the pair of cuBLASLt and a tail. Needs an sm_90 GPU.
#include <cmath>
#include <cstdio>
#include <string>
#include <vector>

#include <epifuse/gemm.hpp>

#include "common/hosted.hpp"
#include "common/linear.hpp"
#include "common/session.hpp"
#include "common/timing.hpp"

namespace {

namespace ef = epifuse;

struct Work {
  const char* chain;
  examples::LinearShape full, small;
  bool residual;
};
constexpr Work kWork[] = {
    {"relu(x + b)", {.rows = 1024, .inputs = 8192, .outputs = 8192}, {.rows = 33, .inputs = 64, .outputs = 48}, false},
    {"gelu(x + b) + r",
     {.rows = 8192, .inputs = 4096, .outputs = 4096},
     {.rows = 300, .inputs = 72, .outputs = 264},
     true},
};

/// The results at sampled positions against the chain in f64 on sums in f64: the first that is off, as a sentence.
std::string verify(const examples::Linear& linear, const ef::Epilogue& tail, const ef::TensorView& out,
                   std::span<const ef::TensorView> operands) {
  const std::vector<ef::Dims> at = examples::sample_positions(out, 32, 192);
  std::vector<std::vector<double>> values(1);
  for (const ef::Dims& position : at) values[0].push_back(linear.expected(position));
  for (const ef::TensorView& operand : operands) values.push_back(examples::gather(operand, at));
  const ef::Dims shape = {static_cast<std::int64_t>(at.size())};
  std::vector<ef::TensorView> inputs;
  for (const auto& each : values) inputs.emplace_back(each.data(), ef::DType::f64, shape);
  std::vector<double> want(at.size());
  const ef::OutputView result(want.data(), ef::DType::f64, shape);
  ef::Engine(ef::Device::cpu()).launch(tail, nullptr, std::span(&result, 1), inputs);
  const std::vector<double> got = examples::gather(out, at);
  const double unit = out.dtype == ef::DType::bf16 ? 0x1p-8 : 0x1p-10;
  for (std::size_t i = 0; i < at.size(); ++i) {
    if (std::abs(got[i] - want[i]) <= unit * std::abs(want[i]) + 1e-3) continue;
    return "at " + ef::to_string(at[i]) + " found " + std::to_string(got[i]) + ", expected " + std::to_string(want[i]);
  }
  return {};
}

void run(examples::Session& session, const Work& work, ef::DType dtype) {
  ef::Engine& engine = session.engine();
  const examples::LinearShape shape = session.pick(work.full, work.small);
  examples::Linear linear(engine, shape, dtype, examples::Linear::Bias::none);
  const ef::Epilogue tail = ef::Epilogue::parse(work.chain);
  const ef::Array y = engine.empty(dtype, linear.result().shape);
  const ef::Array apart = engine.empty(dtype, linear.result().shape);
  const ef::Array inside = engine.empty(dtype, linear.result().shape);
  const ef::Array b = examples::normal(engine, dtype, {shape.outputs}, 1, 4);
  const ef::Array r = examples::normal(engine, dtype, linear.result().shape, 1, 5);
  std::vector<ef::TensorView> operands = {b.view()};
  if (work.residual) operands.push_back(r.view());

  // Apart: the product is rounded to 16 bits, written, and read again.
  std::vector<ef::TensorView> inputs = {y.view()};
  inputs.insert(inputs.end(), operands.begin(), operands.end());
  const auto produce = [&] { linear.forward(y.view(), session.stream()); };
  const auto pair = [&] {
    produce();
    const ef::OutputView out = apart;
    engine.launch(tail, session.stream(), std::span(&out, 1), inputs);
  };

  // Inside: one kernel, and the product stays in registers.
  const ef::GemmKernel kernel(tail, "x", linear.x(), linear.w(), inside, inputs);
  const examples::HostedProduct hosted(kernel);
  const auto host = [&] { hosted.launch(session.stream()); };

  pair();
  host();
  engine.synchronize(session.stream());
  const std::string problem = verify(linear, tail, inside.view(), operands);
  if (!problem.empty()) throw examples::Failure(std::string(work.chain) + " inside the product: " + problem);
  constexpr int kRounds = 31;
  const std::vector<double> ms = examples::measure(session.stream(), kRounds, {produce, pair, host});
  std::printf("%-45s %-16s %-5s product %8.4f ms, and tail %8.4f ms, in one kernel %8.4f ms\n",
              linear.describe().c_str(), work.chain, std::string(ef::to_string(dtype)).c_str(), ms[0], ms[1], ms[2]);
}

}  // namespace

int main(int argc, char** argv) {
  return examples::run_example("10_linear_inside", argc, argv, [](examples::Session& session) {
    for (const Work& work : kWork) {
      for (const ef::DType dtype : {ef::DType::f16, ef::DType::bf16}) run(session, work, dtype);
    }
  });
}
