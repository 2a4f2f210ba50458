// Built as chains and not parsed, as fixed_cases.cpp.
#include "support/reduction_cases.hpp"

#include <functional>
#include <limits>

#include "support/composites.hpp"
#include "support/scope_cases.hpp"

namespace epifuse::test {
namespace {

Operand f32(const Dims& shape) { return Operand::dense(DType::f32, shape); }

Operand channels_last(DType type, const Dims& shape) {
  Operand operand = Operand::dense(type, shape);
  operand.strides = Dims{shape[1] * shape[2] * shape[3], 1, shape[3] * shape[1], shape[1]};
  return operand;
}

Case laid_channels_last(Case test) {
  for (auto* operands : {&test.inputs, &test.outputs}) {
    for (Operand& operand : *operands) {
      if (operand.shape.size() == 4) operand = channels_last(operand.dtype, operand.shape);
    }
  }
  return test;
}

Case in_place(Case test) {
  test.in_place[0] = 0;
  return test;
}

TailCase tail(int id, std::string_view text, std::vector<std::string_view> names, const std::vector<Dims>& shapes,
              const std::function<int(Chain&)>& build) {
  std::vector<Operand> inputs;
  for (const Dims& shape : shapes) inputs.push_back(f32(shape));
  return {id, text, std::move(names), built(inputs, [&](Chain& c) { return std::vector<int>{build(c)}; })};
}

// Inputs are the first steps of a chain.
constexpr int kX = 0, kSecond = 1, kThird = 2;

}  // namespace

std::vector<TailCase> reduction_tails() {
  const auto f = [](Chain& c, std::string_view name, int a) { return c.op(name, {a}); };
  return {
      tail(17, "instance_norm(x) / 2.0", {"x"}, {{4, 8, 18, 18}},
           [&](Chain& c) {
             return c.op("div", {instance_norm(c, kX, kNoOperand, kNoOperand, 1e-5), c.constant(2)});
           }),
      tail(19, "group_norm(gelu(x), 8, gamma, beta)", {"x", "gamma", "beta"}, {{2, 16, 18, 18}, {16}, {16}},
           [&](Chain& c) { return group_norm(c, f(c, "gelu", kX), 8, kSecond, kThird, 1e-5); }),
      tail(21, "group_norm(sigmoid((x + bias) * scale), 8, gamma, beta)", {"x", "bias", "scale", "gamma", "beta"},
           {{2, 16, 14, 14}, {16, 1, 1}, {16, 1, 1}, {16}, {16}},
           [&](Chain& c) {
             const int inner = c.op("mul", {c.op("add", {kX, 1}), 2});
             return group_norm(c, f(c, "sigmoid", inner), 8, 3, 4, 1e-5);
           }),
      tail(23, "mean(group_norm(x, 8, gamma, beta), axis=(1,2,3,4))", {"x", "gamma", "beta"},
           {{4, 24, 2, 6, 6}, {24}, {24}},
           [&](Chain& c) {
             return c.reduce(Reduction::mean, group_norm(c, kX, 8, kSecond, kThird, 1e-5), {{1, 2, 3, 4}}, false);
           }),
      tail(25, "tanh(tanh(amin(x, axis=1, keepdim=true)))", {"x"}, {{4, 16, 14, 14}},
           [&](Chain& c) { return f(c, "tanh", f(c, "tanh", c.reduce(Reduction::amin, kX, {{1}}, true))); }),
      tail(27, "mean(group_norm(hardswish(x), 4, gamma, beta), axis=(2,3,4))", {"x", "gamma", "beta"},
           {{4, 16, 3, 7, 7}, {16}, {16}},
           [&](Chain& c) {
             const int norm = group_norm(c, f(c, "hardswish", kX), 4, kSecond, kThird, 1e-5);
             return c.reduce(Reduction::mean, norm, {{2, 3, 4}}, false);
           }),
      tail(37, "group_norm(sigmoid(x) * x + bias, 64, gamma, beta)", {"x", "bias", "gamma", "beta"},
           {{8, 512}, {512}, {512}, {512}},
           [&](Chain& c) {
             const int inner = c.op("add", {c.op("mul", {f(c, "sigmoid", kX), kX}), 1});
             return group_norm(c, inner, 64, 2, 3, 1e-5);
           }),
      tail(45, "logsumexp(x, axis=1)", {"x"}, {{16, 1024}}, [&](Chain& c) { return logsumexp(c, kX, {{1}}, false); }),
      tail(49, "sigmoid(softmax(x, axis=1))", {"x"}, {{2, 16, 3, 6, 6}},
           [&](Chain& c) { return f(c, "sigmoid", softmax(c, kX, {{1}})); }),
      tail(51, "gelu(logsumexp(mean(x - subtract, axis=1, keepdim=true), axis=1, keepdim=true))", {"x", "subtract"},
           {{16, 512}, {512}},
           [&](Chain& c) {
             const int mean = c.reduce(Reduction::mean, c.op("sub", {kX, kSecond}), {{1}}, true);
             return f(c, "gelu", logsumexp(c, mean, {{1}}, true));
           }),
      tail(67, "mean(gelu(x), axis=(2,3))", {"x"}, {{4, 16, 14, 14}},
           [&](Chain& c) {
             return c.reduce(Reduction::mean, f(c, "gelu", kX), {{2, 3}}, false);
           }),
      tail(75, "amin(group_norm(x, 512, gamma, beta), axis=1, keepdim=true)", {"x", "gamma", "beta"},
           {{8, 2048}, {2048}, {2048}},
           [&](Chain& c) {
             return c.reduce(Reduction::amin, group_norm(c, kX, 512, kSecond, kThird, 1e-5), {{1}}, true);
           }),
      tail(83, "clamp(group_norm(x, 8, gamma, beta), 0, 1)", {"x", "gamma", "beta"}, {{4, 16, 3, 6, 6}, {16}, {16}},
           [&](Chain& c) {
             return c.op("clamp", {group_norm(c, kX, 8, kSecond, kThird, 1e-5), c.constant(0), c.constant(1)});
           }),
      tail(91, "sigmoid((softmax(x, axis=1) + bias) * 2.0)", {"x", "bias"}, {{2, 128, 9, 9}, {128, 1, 1}},
           [&](Chain& c) {
             return f(c, "sigmoid", c.op("mul", {c.op("add", {softmax(c, kX, {{1}}), kSecond}), c.constant(2)}));
           }),
      tail(99, "softmax(gelu(x), axis=1)", {"x"}, {{16, 1024}},
           [&](Chain& c) { return softmax(c, f(c, "gelu", kX), {{1}}); }),
  };
}

std::vector<Case> norm_cases() {
  const Build bodies[] = {
      [](Chain& c) { return std::vector{softmax(c, kX, {{1}})}; },
      [](Chain& c) { return std::vector{log_softmax(c, kX, {{-1}})}; },
      [](Chain& c) { return std::vector{logsumexp(c, kX, {{-1}}, true)}; },
      [](Chain& c) {
        return std::vector{layer_norm(c, kX, kNoOperand, kNoOperand, 1e-5, {{-2, -1}})};
      },
      [](Chain& c) { return std::vector{rms_norm(c, kX, kNoOperand, 0x1p-23, {{-1}})}; },
      [](Chain& c) { return std::vector{normalize(c, kX, 1e-12, {{1}})}; },
      [](Chain& c) { return std::vector{instance_norm(c, kX, kNoOperand, kNoOperand, 1e-5)}; },
      [](Chain& c) { return std::vector{group_norm(c, kX, 4, kNoOperand, kNoOperand, 1e-5)}; },
  };
  std::vector<Case> cases;
  for (const Build& body : bodies) {
    for (const DType type : {DType::f32, DType::f16, DType::f64}) {
      for (const Dims& shape : {Dims{2, 8, 5, 33}, Dims{3, 64, 4, 4}}) {
        const Case plain = built({Operand::dense(type, shape)}, body, {type});
        cases.push_back(plain);
        cases.push_back(laid_channels_last(plain));
        if (plain.outputs[0].shape == shape) cases.push_back(in_place(plain));
      }
    }
  }
  // With weights; a linear layer's row; a long row; a mask.
  const auto weighted = [](Chain& c) { return std::vector{layer_norm(c, kX, kSecond, kThird, 1e-5, {{-1}})}; };
  for (const int columns : {1, 3, 31, 32, 33, 768, 1025, 5000}) {
    const Operand vector = Operand::dense(DType::f32, {columns});
    cases.push_back(built({Operand::dense(DType::bf16, {5, columns}), vector, vector}, weighted, {DType::bf16}));
    cases.push_back(built({f32({5, columns})}, bodies[0]));
    cases.push_back(built({f32({columns, 5})}, [](Chain& c) { return std::vector{softmax(c, kX, {{0}})}; }));
  }
  cases.push_back(built({f32({2, 20'000})}, bodies[0]));
  cases.push_back(built({f32({4, 6, 40}), Operand::dense(DType::boolean, {6, 40})}, [](Chain& c) {
    const int scaled = c.op("mul", {kX, c.constant(0.125)});
    const int masked = c.op("where", {kSecond, scaled, c.constant(-std::numeric_limits<double>::infinity())});
    return std::vector{softmax(c, masked, {{-1}})};
  }));
  return cases;
}

std::vector<Case> statistic_cases() {
  std::vector<Case> cases;
  const AxisList lists[] = {{{0}}, {{1}}, {{2}}, {{0, 2}}, {{1, 2}}, {{0, 1}}, {{1}, true}, {}};
  constexpr Reduction kAll[] = {Reduction::sum,  Reduction::mean, Reduction::prod, Reduction::amax,
                                Reduction::amin, Reduction::var,  Reduction::any,  Reduction::all};
  for (const AxisList& axes : lists) {
    for (const bool keepdim : {false, true}) {
      // All reductions of one set of axes at once.
      cases.push_back(built({f32({5, 7, 36})}, [&](Chain& c) {
        std::vector<int> results;
        for (const Reduction reduction : kAll) {
          int value = kX;
          if (reduction == Reduction::prod)
            value = c.op("add", {c.op("mul", {kX, c.constant(0.0078125)}), c.constant(1)});
          if (reduction == Reduction::any) value = c.op("gt", {kX, c.constant(3.9)});
          if (reduction == Reduction::all) value = c.op("lt", {kX, c.constant(3.9)});
          results.push_back(c.reduce(reduction, value, axes, keepdim, keepdim ? 0 : 1));
        }
        return results;
      }));
    }
    cases.push_back(built({Operand::dense(DType::i32, {5, 7, 36})},
                          [&](Chain& c) { return std::vector{c.reduce(Reduction::sum, kX, axes, false)}; },
                          {DType::i32}));
  }
  // The scale of fp8 beside the value itself.
  cases.push_back(built({f32({33, 100}), f32({100})}, [](Chain& c) {
    const int y = c.op("silu", {c.op("add", {kX, kSecond})});
    return std::vector{y, c.reduce(Reduction::amax, c.op("abs", {y}), {}, false)};
  }));
  // What a backward pass keeps.
  for (const Dims& shape : {Dims{6, 200}, Dims{40, 3}}) {
    cases.push_back(built({f32(shape)}, [](Chain& c) {
      const Normalised norm = normalised(c, kX, 1e-5, {{-1}});
      return std::vector{norm.value, norm.mean, norm.inverse_deviation};
    }));
  }
  // A statistic of everything beside a row's norm.
  cases.push_back(built({f32({12, 130})},
                        [](Chain& c) {
                          const int y = rms_norm(c, kX, kNoOperand, 1e-6, {{1}});
                          return std::vector{y, c.reduce(Reduction::amax, c.op("abs", {y}), {}, false)};
                        },
                        {DType::f8e4m3, DType::f32}));
  return cases;
}

std::vector<Case> hard_row_cases() {
  const Build bodies[] = {
      [](Chain& c) { return std::vector{softmax(c, kX, {{1}})}; },
      // Exponentials of many sizes, which a thread may keep, are a result too.
      [](Chain& c) {
        const int y = softmax(c, c.op("mul", {kX, c.constant(25)}), {{1}});
        return std::vector{y, c.steps[static_cast<std::size_t>(y)].args[0]};
      },
      [](Chain& c) { return std::vector{log_softmax(c, kX, {{1}})}; },
      [](Chain& c) { return std::vector{logsumexp(c, kX, {{1}}, false)}; },
      [](Chain& c) { return std::vector{layer_norm(c, kX, kNoOperand, kNoOperand, 1e-5, {{1}})}; },
      [](Chain& c) {
        return std::vector{c.reduce(Reduction::var, kX, {{1}}, false), c.reduce(Reduction::mean, kX, {{1}}, false),
                           c.reduce(Reduction::sum, kX, {{1}}, false)};
      },
  };
  std::vector<Case> cases;
  std::uint64_t seed = 1;
  for (const Build& body : bodies) {
    for (const int columns : {1, 2, 7, 300, 3000}) {
      // Rows of all kinds, of f32 and f64; and the same of outer reductions.
      for (const DType type : {DType::f32, DType::f64}) {
        Case test = built({Operand::dense(type, {columns > 1000 ? 24 : 60, columns})}, body, {type});
        test.fill = Fill::rows;
        test.row_dims = 2;
        test.data_seed = seed++;
        cases.push_back(test);
        test.inputs[0].strides = {1, test.inputs[0].shape[0]};
        cases.push_back(test);
      }
    }
  }
  // Of 16 bits in the registers of a warp, or of fewer lanes: the mean comes first.
  for (const Build& body : {bodies[4], bodies[5]}) {
    for (const int columns : {32, 256, 768}) {
      for (const DType type : {DType::f16, DType::bf16}) {
        for (const DType result : {type, DType::f32}) {
          Case test = built({Operand::dense(type, {61, columns})}, body, {result, result, result});
          test.fill = Fill::rows;
          test.row_dims = 2;
          test.data_seed = seed++;
          cases.push_back(test);
        }
      }
    }
  }
  // No elements in a row, and no rows.
  const Build empty = [](Chain& c) {
    std::vector<int> results;
    for (const Reduction reduction :
         {Reduction::sum, Reduction::mean, Reduction::prod, Reduction::var, Reduction::any, Reduction::all}) {
      results.push_back(c.reduce(reduction, kX, {{1}}, false));
    }
    return results;
  };
  cases.push_back(built({f32({5, 0})}, empty));
  cases.push_back(built({f32({0, 5})}, empty));
  cases.push_back(built({f32({0, 5})}, bodies[0]));
  // Results of grid reductions of which there are none: outside, inside, and with an operand per row.
  const auto across = [](int first, int then) {
    return [first, then](Chain& c) {
      const int mean = c.reduce(Reduction::mean, kX, {{first}}, true);
      return std::vector{c.reduce(Reduction::prod, mean, {{then}}, true), c.reduce(Reduction::sum, mean, {}, false)};
    };
  };
  cases.push_back(built({f32({3, 0, 5})}, [&](Chain& c) { return std::vector{across(2, 1)(c)[0]}; }));
  cases.push_back(built({f32({1, 0, 5})}, across(2, 1)));
  cases.push_back(built({f32({3, 0, 900})}, [&](Chain& c) { return std::vector{across(2, 1)(c)[0]}; }));
  cases.push_back(built({f32({5, 0})}, [&](Chain& c) { return std::vector{across(0, 1)(c)[0]}; }));
  cases.push_back(built({f32({0, 4, 7})}, [&](Chain& c) { return std::vector{across(1, 0)(c)[0]}; }));
  // A mean of nothing is NaN, not 0: what it divides by counts no rows either.
  const auto means = [](int first, int then) {
    return [first, then](Chain& c) {
      const int mean = c.reduce(Reduction::mean, kX, {{first}}, true);
      return std::vector{c.reduce(Reduction::mean, mean, {{then}}, true),
                         c.reduce(Reduction::var, mean, {{then}}, true)};
    };
  };
  cases.push_back(built({f32({3, 0, 5})}, means(2, 1)));
  cases.push_back(built({f32({0, 2})}, means(1, 0)));
  cases.push_back(built({f32({5, 0})}, means(0, 1)));
  cases.push_back(built({f32({0, 4, 7})}, means(1, 0)));
  cases.push_back(built({f32({3, 0, 5}), f32({3, 0, 1})}, [](Chain& c) {
    const int scaled = c.op("mul", {c.reduce(Reduction::mean, kX, {{2}}, true), kSecond});
    return std::vector{c.reduce(Reduction::prod, scaled, {{1}}, true)};
  }));
  return cases;
}

// Rows that are full for those who share them, and rows that lack one vector, one element, most of a round, or
// everything: in registers of lanes, with a row too few for the block, of a block and of a cluster, in the shared
// memory of one and of many blocks, in rounds.
std::vector<Case> full_row_cases() {
  const Build along = [](Chain& c) { return std::vector{softmax(c, kX, {{-1}})}; };
  const Build outer = [](Chain& c) { return std::vector{softmax(c, kX, {{1}})}; };
  const Build statistic = [](Chain& c) {
    const int y = c.op("sub", {kX, c.reduce(Reduction::mean, kX, {{1}}, true)});
    return std::vector{y, c.reduce(Reduction::amax, c.op("abs", {y}), {}, false)};
  };
  const Build weighted = [](Chain& c) { return std::vector{layer_norm(c, kX, kSecond, kThird, 1e-5, {{1}})}; };
  const Build norm = [](Chain& c) { return std::vector{group_norm(c, kX, 2, kSecond, kThird, 1e-5)}; };
  const Build sums = [](Chain& c) { return std::vector{c.reduce(Reduction::sum, kX, {{1}}, false)}; };
  std::vector<Case> cases;
  for (const DType type : {DType::f32, DType::f16}) {
    const int vector = type == DType::f32 ? 4 : 8;
    for (const int length : {64, 4096, 4096 - vector, 4095, 3, 0}) {
      const Operand row = Operand::dense(type, {length});
      cases.push_back(built({Operand::dense(type, {3, length}), row, row}, weighted, {type}));
      cases.push_back(built({Operand::dense(type, {5, length})}, sums, {type}));
      if (length == 0) continue;  // has no largest element
      cases.push_back(built({Operand::dense(type, {5, length})}, along, {type}));
      cases.push_back(built({Operand::dense(type, {6, length})}, statistic, {type, type}));
    }
    for (const int length : {65'536, 65'536 - vector, 65'535}) {
      cases.push_back(built({Operand::dense(type, {2, length})}, along, {type}));
      cases.push_back(built({Operand::dense(type, {2, length})}, sums, {type}));
    }
    if (type == DType::f32) continue;
    // Columns and rows, each full or not.
    for (const auto& [rows, columns] :
         {std::pair{64, 128}, {63, 128}, {64, 128 - vector}, {64, 127}, {3, 128}, {512, 64}})
      cases.push_back(built({Operand::dense(type, {2, rows, columns})}, outer, {type}));
    cases.push_back(built({Operand::dense(type, {1, 16'384, 16})}, outer, {type}));
    cases.push_back(built({Operand::dense(type, {1, 16'383, 16})}, outer, {type}));
    // Lines that are multiples of a vector, and lines within one, in rows that are full or not.
    const Operand channels = Operand::dense(type, {8});
    for (const auto& [height, width] : {std::pair{16, 16}, {64, 64}, {8, 7}, {7, 7}, {64, 62}, {128, 130}})
      cases.push_back(built({Operand::dense(type, {2, 8, height, width}), channels, channels}, norm, {type}));
  }
  // Thread groups without a row must not write the first one again: in place its elements are gone. In registers, and
  // read together.
  cases.push_back(built({f32({5, 64})}, along));
  cases.back().in_place = {0};
  cases.push_back(laid_channels_last(built({f32({3, 24, 48, 64}), f32({24}), f32({24})}, [](Chain& c) {
    return std::vector{group_norm(c, kX, 6, kSecond, kThird, 1e-5)};
  })));
  cases.back().in_place = {0};
  return cases;
}

std::vector<Case> schedule_cases() {
  const Build norm = [](Chain& c) { return std::vector{group_norm(c, kX, 2, kSecond, kThird, 1e-5)}; };
  const Build along = [](Chain& c) { return std::vector{softmax(c, kX, {{-1}})}; };
  const Build across = [](Chain& c) {
    const int y = softmax(c, kX, {{1}});
    return std::vector{y, c.reduce(Reduction::sum, kX, {{1}}, false),
                       c.reduce(Reduction::amax, c.op("abs", {y}), {}, false)};
  };
  std::vector<Case> cases;
  for (const DType type : {DType::f32, DType::f16}) {
    // Rows in short runs side by side; rows in the shared memory of a cluster, also at odd addresses; lines of odd
    // length of outer reductions.
    const Operand weight = Operand::dense(type, {16});
    cases.push_back(laid_channels_last(built({Operand::dense(type, {1, 16, 48, 49}), weight, weight}, norm, {type})));
    const Build pairs = [](Chain& c) { return std::vector{group_norm(c, kX, 8, kSecond, kThird, 1e-5)}; };
    cases.push_back(laid_channels_last(built({Operand::dense(type, {1, 16, 80, 81}), weight, weight}, pairs, {type})));
    cases.push_back(built({Operand::dense(type, {2, 70'000})}, along, {type}));
    cases.push_back(built({Operand::dense(type, {3, 40'003})}, along, {type}));
    cases.push_back(built({Operand::dense(type, {2, 40, 13, 11})}, across, {type}));
    // Channels that end within the elements of a thread, of a warp, and between them.
    const Operand six = Operand::dense(type, {6});
    cases.push_back(built({Operand::dense(type, {4, 6, 90, 91}), six, six}, norm, {type}));
    // An operand with a bias, along and of outer reductions: in f32 their sum is held.
    const Build biased = [](Chain& c) {
      return std::vector{c.op("sigmoid", {softmax(c, c.op("add", {kX, kSecond}), {{1}})})};
    };
    cases.push_back(built({Operand::dense(type, {2, 40, 9, 12}), Operand::dense(type, {40, 1, 1})}, biased, {type}));
    cases.push_back(built({Operand::dense(type, {2, 70, 13, 11}), Operand::dense(type, {70, 1, 1})}, biased, {type}));
    cases.push_back(built({Operand::dense(type, {5, 257}), Operand::dense(type, {257})}, biased, {type}));
    // A sum of two operands that all later passes need.
    cases.push_back(
        built({Operand::dense(type, {3, 9000}), Operand::dense(type, {3, 9000}), Operand::dense(type, {9000})},
              [](Chain& c) {
                const int h = c.op("add", {kX, kSecond});
                return std::vector{h, rms_norm(c, h, kThird, 1e-6, {{1}})};
              },
              {type}));
  }
  // Six steps of a thread in shared memory: batches of copies that are no power of two.
  cases.push_back(built({Operand::dense(DType::f64, {9, 10'128})}, along, {DType::f64}));
  // Pieces so short that fewer lanes of a warp share a row than a cluster has blocks.
  const auto of_channels = [](int channels) { return Operand::dense(DType::f16, {channels}); };
  cases.push_back(laid_channels_last(
      built({Operand::dense(DType::f16, {5, 64, 80, 80}), of_channels(64), of_channels(64)},
            [](Chain& c) { return std::vector{group_norm(c, kX, 16, kSecond, kThird, 1e-5)}; }, {DType::f16})));
  // Rows that several blocks hold: at any address, in place, with an expensive value, with a result of all rows.
  cases.push_back(built({f32({2, 70'001})}, along));
  cases.push_back(built({f32({2, 70'001})}, along));
  cases.back().in_place = {0};
  for (const auto& [type, result] : {std::pair{DType::f32, DType::f32},
                                     {DType::f16, DType::f32},
                                     {DType::f16, DType::f16},
                                     {DType::bf16, DType::bf16}}) {
    const Operand channels = Operand::dense(type, {4});
    cases.push_back(built({Operand::dense(type, {1, 4, 100, 170}), channels, channels},
                          [](Chain& c) {
                            const int y = group_norm(c, c.op("gelu", {kX}), 2, kSecond, kThird, 1e-5);
                            return std::vector{y, c.reduce(Reduction::amax, c.op("abs", {y}), {}, false)};
                          },
                          {result, result}));
  }
  cases.push_back(built({Operand::dense(DType::f16, {3, 60'003})}, along, {DType::f16}));
  // All rows of each of many results in one block.
  cases.push_back(built({f32({140, 512}), f32({512}), f32({512})}, [](Chain& c) {
    const int y = group_norm(c, kX, 128, kSecond, kThird, 1e-5);
    return std::vector{c.reduce(Reduction::amin, y, {{1}}, true), c.reduce(Reduction::mean, y, {{1}}, false)};
  }));
  // And in two passes, also of results with the elements and with the rows.
  cases.push_back(built({f32({134, 4096}), f32({4096}), f32({4096})}, [](Chain& c) {
    const int y = group_norm(c, kX, 256, kSecond, kThird, 1e-5);
    return std::vector{c.reduce(Reduction::amin, y, {{1}}, true), y, c.reduce(Reduction::mean, y, {{1}}, false)};
  }));
  cases.push_back(built({f32({134, 256, 15})}, [](Chain& c) {
    const int mean = c.reduce(Reduction::mean, kX, {{2}}, true);
    return std::vector{c.op("sub", {kX, mean}), mean, c.reduce(Reduction::amax, mean, {{1}}, false)};
  }));
  // Terms of long sums, alone and with the value itself used again.
  for (const std::string_view name : {"gelu", "sigmoid", "silu", "tanh", "mish"}) {
    cases.push_back(built({f32({3, 5000})}, [&](Chain& c) {
      const int y = c.op(name, {kX});
      return std::vector{c.reduce(Reduction::mean, y, {{1}}, false), c.reduce(Reduction::var, y, {{1}}, false)};
    }));
    cases.push_back(built({f32({2, 4, 64, 70}), f32({4}), f32({4})}, [&](Chain& c) {
      return std::vector{group_norm(c, c.op(name, {kX}), 2, kSecond, kThird, 1e-5)};
    }));
  }
  // Division by one number per row, of all sizes.
  for (const double scale : {1.0, 0x1p-100, 0x1p+100, 0x1p-140}) {
    cases.push_back(built({f32({9, 300})}, [&](Chain& c) {
      const int scaled = c.op("mul", {kX, c.constant(scale)});
      return std::vector{c.op("div", {scaled, c.reduce(Reduction::amax, scaled, {{1}}, true)})};
    }));
  }
  // Zeros of both signs, divided by a positive and by a negative number.
  cases.push_back(built({f32({9, 300})}, [&](Chain& c) {
    const int zero = c.op("mul", {kX, c.constant(0)});
    return std::vector{c.op("div", {zero, c.reduce(Reduction::amax, kX, {{1}}, true)}),
                       c.op("div", {zero, c.reduce(Reduction::amin, kX, {{1}}, true)})};
  }));
  return cases;
}

namespace {

enum class Permutation { to_rows, to_channels };

// Operands of four dimensions in one order, results in the other.
Case transposed(Case test, Permutation permutation = Permutation::to_rows) {
  for (Operand& operand : permutation == Permutation::to_rows ? test.inputs : test.outputs) {
    if (operand.shape.size() == 4) operand = channels_last(operand.dtype, operand.shape);
  }
  return test;
}

Build group_norms(int groups) {
  return [groups](Chain& c) { return std::vector{group_norm(c, c.op("silu", {kX}), groups, kSecond, kThird, 1e-5)}; };
}

}  // namespace

std::vector<Case> transposed_reductions() {
  const Build over_channels = [](Chain& c) { return std::vector{softmax(c, kX, {{1}})}; };
  const Build per_image = [](Chain& c) {
    return std::vector{c.op("div", {instance_norm(c, kX, kNoOperand, kNoOperand, 1e-5), c.constant(2)})};
  };
  struct Groups {
    Dims shape;
    int groups;
  };
  std::vector<Case> cases;
  for (const DType type : {DType::f32, DType::f16}) {
    const auto x = [&](const Dims& shape) { return Operand::dense(type, shape); };
    // Rows along the operand and across the result: of images of odd size, of channels that no vector divides, of few
    // pixels.
    for (const Dims& shape : {Dims{2, 24, 5, 13}, Dims{1, 129, 9, 9}, Dims{3, 16, 1, 32}, Dims{1, 4, 1, 70},
                              Dims{2, 256, 6, 6}, Dims{1, 1000, 6, 7}, Dims{2, 64, 8, 16}}) {
      cases.push_back(transposed(built({x(shape)}, over_channels, {type})));
      cases.push_back(transposed(built({x(shape)}, over_channels, {type}), Permutation::to_channels));
    }
    // Rows in runs: of one vector and of several, also of odd numbers of them.
    for (const auto& [shape, groups] :
         {Groups{{2, 16, 48, 49}, 2}, Groups{{1, 12, 40, 41}, 2}, Groups{{1, 20, 33, 36}, 2}, Groups{{2, 6, 9, 31}, 2},
          Groups{{2, 64, 20, 20}, 8}, Groups{{1, 96, 8, 9}, 3}, Groups{{2, 32, 18, 18}, 1}}) {
      const Operand weight = x({shape[1]});
      cases.push_back(transposed(built({x(shape), weight, weight}, group_norms(groups), {type})));
    }
    // Rows across the operand: held by a block, by a cluster, and shared.
    for (const Dims& shape : {Dims{2, 16, 8, 9}, Dims{2, 40, 31, 31}, Dims{1, 24, 70, 71}, Dims{1, 8, 130, 131},
                              Dims{1, 5, 20, 21}, Dims{2, 64, 32, 32}}) {
      cases.push_back(transposed(built({x(shape)}, per_image, {type})));
      cases.push_back(transposed(built({x(shape)}, per_image, {type}), Permutation::to_channels));
    }
  }
  // Other types, two results in both orders, results per row beside them, addresses that allow nothing wide.
  for (const DType type : {DType::f64, DType::bf16, DType::f8e4m3}) {
    for (const DType result : {type, DType::f32}) {
      cases.push_back(transposed(built({Operand::dense(type, {2, 32, 9, 8})}, over_channels, {result})));
      cases.push_back(transposed(built({Operand::dense(type, {1, 16, 40, 40})}, per_image, {result})));
      cases.push_back(
          transposed(built({Operand::dense(type, {1, 16, 40, 40}), f32({16}), f32({16})}, group_norms(4), {result})));
    }
  }
  for (const int axis : {1, 2}) {
    Case test = transposed(built({f32({2, 16, 8, 32}), f32({2, 16, 8, 32})}, [&](Chain& c) {
      const AxisList axes = axis == 1 ? AxisList{{1}} : AxisList{{2, 3}};
      const Normalised norm = normalised(c, c.op("add", {kX, kSecond}), 1e-5, axes);
      return std::vector{norm.value, norm.mean, norm.inverse_deviation, c.op("relu", {norm.value}), norm.value};
    }));
    test.outputs[3] = channels_last(DType::f32, test.outputs[3].shape);
    cases.push_back(test);
    test.in_place[3] = 0;
    cases.push_back(test);
    for (const std::size_t i : {0, 1, 2, 4}) test.outputs[i].lead = 3;
    cases.push_back(test);
  }
  // Written by the pass that accumulates: not transposed.
  for (const AxisList& axes : {AxisList{{1}}, AxisList{{2, 3}}}) {
    for (const bool again : {false, true}) {
      cases.push_back(transposed(built({f32({2, 16, 8, 32})}, [&](Chain& c) {
        const int y = c.op("relu", {kX});
        const int mean = c.reduce(Reduction::mean, again ? normalised(c, y, 1e-5, axes).value : y, axes, true);
        return std::vector{y, mean};
      })));
    }
  }
  return cases;
}

std::vector<Case> reduction_cases() {
  std::vector<Case> cases;
  const auto add = [&](const std::vector<Case>& more) { cases.insert(cases.end(), more.begin(), more.end()); };
  for (const TailCase& tail : reduction_tails()) cases.push_back(tail.test);
  add(norm_cases());
  add(statistic_cases());
  add(scope_cases());
  add(empty_cases());
  add(hard_row_cases());
  add(schedule_cases());
  add(full_row_cases());
  add(transposed_reductions());
  return cases;
}

}  // namespace epifuse::test
