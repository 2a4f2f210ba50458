// A product whose chain has reductions, on the CPU: the emitted text by the models of sm_90a or of warps that multiply,
// the chains of its partial results on the CPU device, and all results beside chains of one result each, which the CPU
// device computes behind the product.
#pragma once

#include <cmath>
#include <cstring>
#include <random>
#include <string>
#include <vector>

#include "emitted/gemm_run.hpp"
#include "plan/gemm/inside.hpp"
#include "support/as_written.hpp"

namespace epifuse::test {

// By their names: x is the left factor, w and v are right ones, u is one with a batch where rows have one. t and
// m are a left and a right factor whose depth comes first; b, g, h vary along columns, c along rows, r along both.
struct HostedChain {
  const char* values;                ///< what the results are made of
  std::vector<const char*> results;  ///< the tensor may stand anywhere
  std::vector<DType> types;
  int groups = 1;  ///< columns are multiples of this
};

struct Tensor {
  DType type;
  Dims shape;
  std::vector<std::byte> memory;

  TensorView view() const { return {memory.data(), type, shape}; }
  OutputView output() { return {memory.data(), type, shape}; }
  double at(std::size_t i) const { return static_cast<double>(decode(type, memory.data() + i * size_of(type))); }
  std::size_t elements() const { return memory.size() / size_of(type); }
};

inline Tensor filled(DType type, const Dims& shape, std::byte byte) {
  std::int64_t elements = 1;
  for (const std::int64_t extent : shape) elements *= extent;
  return {type, shape, std::vector<std::byte>(static_cast<std::size_t>(elements) * size_of(type), byte)};
}

// Small multiples of 1/8, whose products f32 sums without rounding.
inline Tensor drawn(std::mt19937& random, DType type, const Dims& shape) {
  Tensor made = filled(type, shape, {});
  std::uniform_int_distribution<int> value(-16, 16);
  for (std::size_t i = 0; i < made.elements(); ++i)
    encode(type, value(random) / 8.0, made.memory.data() + i * size_of(type));
  return made;
}

class HostedProblem {
 public:
  HostedProblem(const HostedChain& chain, const Dims& rows, std::int64_t columns, std::int64_t depth, unsigned seed,
                DType factor = DType::bf16)
      : chain_(chain), rows_(rows), random_(seed), whole_(as_written(text(chain.results))) {
    const auto with = [&](std::int64_t last) {
      Dims shape = rows;
      shape.push_back(last);
      return shape;
    };
    for (const std::string& name : whole_.inputs()) {
      const bool is_right = name == "w" || name == "v" || name == "u" || name == "m";
      const bool is_left = name == "x" || name == "t";
      const Dims shape = name == "u" && rows.size() > 1 ? Dims{rows[0], columns, depth}
                         : name == "m"                  ? Dims{depth, columns}
                         : name == "t"                  ? Dims{depth, rows[0]}
                         : is_right                     ? Dims{columns, depth}
                         : name == "x"                  ? with(depth)
                         : is_of_columns(name)          ? Dims{columns}
                         : name == "c"                  ? with(1)
                                                        : with(columns);
      operands_.push_back(drawn(random_, is_right || is_left ? factor : DType::bf16, shape));
      views_.push_back(operands_.back().view());
    }
    for (std::size_t i = 0; i < chain.results.size(); ++i) {
      const Epilogue one = as_written(text({chain.results[i]}));
      const auto operands = operands_of(one);
      const std::vector<Dims> shapes = one.result_shapes(operands);
      expected_.push_back(filled(chain.types[i], shapes.at(0), {}));
      found_.push_back(filled(chain.types[i], shapes.at(0), std::byte{0x7f}));
      Engine(Device::cpu()).launch(one, nullptr, expected_.back().output(), operands);
    }
  }

  plan::Inside inside(const plan::Machine& machine) {
    const plan::WithoutProducts split = plan::split_products(whole_.program(), views_);
    auto planned = plan::plan_one_kernel(split, outputs(), views_, machine);
    if (auto* const why = std::get_if<std::string>(&planned)) throw std::runtime_error(*why);
    return std::get<plan::Inside>(std::move(planned));
  }

  std::optional<std::string> run(plan::Inside& inside, const CompiledText& compiled, When when) {
    std::vector<std::byte> partials(static_cast<std::size_t>(inside.plan.partial_bytes()), std::byte{0xff});
    inside.plan.workspace = partials.data();
    if (const auto wrong = test::run(inside.plan, inside.chain(), compiled, when)) return wrong;
    for (const plan::Finish& finish : inside.hosted.finishes) {
      const auto operands = inside.operands(finish, partials.data(), views_);
      const Epilogue tail = as_written(ir::print(finish.program));
      Engine(Device::cpu())
          .launch(tail, nullptr, inside.outputs(finish, outputs()),
                  std::vector<TensorView>(operands.begin(), operands.end()));
    }
    return judge();
  }

 private:
  static bool is_of_columns(const std::string& name) { return name == "b" || name == "g" || name == "h"; }
  std::string text(const std::vector<const char*>& results) const {
    std::string made = std::string(chain_.values) + "return ";
    for (const char* const result : results) made += (result == results[0] ? "" : ", ") + std::string(result);
    const std::string others = rows_.size() == 1 ? "0" : "(0, 1)";
    for (auto at = made.find("ROWS"); at != made.npos; at = made.find("ROWS")) made.replace(at, 4, others);
    return made;
  }
  std::vector<TensorView> operands_of(const Epilogue& tail) const {
    std::vector<TensorView> own;
    for (const std::string& name : tail.inputs()) {
      for (std::size_t i = 0; i < views_.size(); ++i) {
        if (whole_.inputs()[i] == name) own.push_back(views_[i]);
      }
    }
    return own;
  }
  std::vector<OutputView> outputs() {
    std::vector<OutputView> all;
    for (Tensor& result : found_) all.push_back(result.output());
    return all;
  }
  std::optional<std::string> judge() const {
    for (std::size_t k = 0; k < found_.size(); ++k) {
      for (std::size_t i = 0; i < found_[k].elements(); ++i) {
        const double got = found_[k].at(i);
        const double want = expected_[k].at(i);
        const double unit = is_floating(found_[k].type) ? static_cast<double>(spacing(found_[k].type, want)) : 1;
        if (std::abs(got - want) <= unit + std::abs(want) * 1e-5 + 1e-6) continue;
        return fmt::format("result {} at {} is {}, expected {}", k, i, got, want);
      }
    }
    return std::nullopt;
  }

  const HostedChain& chain_;
  Dims rows_;
  std::mt19937 random_;
  Epilogue whole_;
  std::vector<Tensor> operands_;
  std::vector<TensorView> views_;
  std::vector<Tensor> expected_, found_;
};

}  // namespace epifuse::test
