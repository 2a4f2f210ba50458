// Deterministic cases, built as chains and not parsed, so that the oracle's side stays independent of the parser.
#include "support/fixed_cases.hpp"

#include <algorithm>
#include <array>
#include <functional>
#include <utility>

#include "support/random_case.hpp"
#include "support/regressions.hpp"

namespace epifuse::test {
namespace {

DType type_number(int i) { return kAllDTypes[static_cast<std::size_t>(i) % kAllDTypes.size()]; }
constexpr int kTypes = static_cast<int>(kAllDTypes.size());

// A chain of functions, for tails that are written as one.
struct Epilogue {
  Chain c;
  int x = c.input(0);

  int number(double value) { return c.constant(value); }
  int f(std::string_view name, int a) { return c.op(name, {a}); }
  int f(std::string_view name, int a, int b) { return c.op(name, {a, b}); }
  int f(std::string_view name, int a, int b, int d) { return c.op(name, {a, b, d}); }
  Chain ending(int value) {
    c.results = {value};
    return c;
  }
};

TailCase epilogue(int id, std::string_view text, const Dims& shape, const Dims& second,
                  const std::function<int(Epilogue&)>& build) {
  Epilogue t;
  const int result = build(t);
  std::vector<Operand> inputs = {Operand::dense(DType::f32, shape)};
  std::vector<std::string_view> names = {"x"};
  if (!second.empty()) {
    inputs.push_back(Operand::dense(DType::f32, second));
    names.emplace_back(id == 95 ? "add" : "bias");
  }
  return {id, text, names, simple_case(t.ending(result), inputs, {DType::f32}, shape)};
}

Operand aligned_at(DType dtype, const Dims& shape, int lead) {
  Operand operand = Operand::dense(dtype, shape);
  operand.lead = lead;
  return operand;
}

Chain sum_of_two() {
  Chain chain;
  const int a = chain.input(0);
  const int b = chain.input(1);
  chain.results = {chain.op("add", {a, b})};
  return chain;
}

}  // namespace

std::vector<TailCase> tail_cases() {
  const Dims none;
  return {
      epilogue(1, "relu(x) + bias", {4, 8, 26, 26}, {8, 1, 1},
               [](Epilogue& t) { return t.f("add", t.f("relu", t.x), t.c.input(1)); }),
      epilogue(5, "tanh(x - bias)", {2, 8, 33, 33}, {8, 1, 1},
               [](Epilogue& t) { return t.f("tanh", t.f("sub", t.x, t.c.input(1))); }),
      epilogue(7, "sigmoid(gelu(leaky_relu(relu(x), 0.01))) + bias", {2, 4, 6, 14, 14}, {4, 1, 1, 1},
               [](Epilogue& t) {
                 const int leaky = t.f("leaky_relu", t.f("relu", t.x), t.number(0.01));
                 return t.f("add", t.f("sigmoid", t.f("gelu", leaky)), t.c.input(1));
               }),
      epilogue(9, "relu((x - 2.0) * 1.5)", {16, 512}, none,
               [](Epilogue& t) { return t.f("relu", t.f("mul", t.f("sub", t.x, t.number(2)), t.number(1.5))); }),
      epilogue(29, "mish(mish(x))", {16, 512}, none, [](Epilogue& t) { return t.f("mish", t.f("mish", t.x)); }),
      epilogue(31, "(minimum(x, 0.5) + bias) * 2.0", {4, 8, 26, 26}, {8, 1, 1},
               [](Epilogue& t) {
                 return t.f("mul", t.f("add", t.f("minimum", t.x, t.number(0.5)), t.c.input(1)), t.number(2));
               }),
      epilogue(47, "tanh(mish(x))", {2, 8, 6, 14, 14}, none, [](Epilogue& t) { return t.f("tanh", t.f("mish", t.x)); }),
      epilogue(53, "gelu(hardtanh(x * 0.5, -2, 2))", {16, 512}, none,
               [](Epilogue& t) {
                 return t.f("gelu", t.f("hardtanh", t.f("mul", t.x, t.number(0.5)), t.number(-2), t.number(2)));
               }),
      epilogue(57, "r = relu(x); r * clamp((r + 3) / 6, 0, 1)", {4, 8, 26, 26}, none,
               [](Epilogue& t) {
                 const int r = t.f("relu", t.x);
                 return t.f(
                     "mul", r,
                     t.f("clamp", t.f("div", t.f("add", r, t.number(3)), t.number(6)), t.number(0), t.number(1)));
               }),
      epilogue(59, "x * sigmoid(x) * 2.0", {16, 1024}, none,
               [](Epilogue& t) { return t.f("mul", t.f("mul", t.x, t.f("sigmoid", t.x)), t.number(2)); }),
      epilogue(63, "relu(x) / 2.0", {16, 512}, none,
               [](Epilogue& t) { return t.f("div", t.f("relu", t.x), t.number(2)); }),
      epilogue(69, "relu(hardswish(x))", {4, 8, 26, 26}, none,
               [](Epilogue& t) { return t.f("relu", t.f("hardswish", t.x)); }),
      epilogue(71, "leaky_relu(x / 2, 0.01)", {4, 8, 26, 26}, none,
               [](Epilogue& t) { return t.f("leaky_relu", t.f("div", t.x, t.number(2)), t.number(0.01)); }),
      epilogue(81, "clamp(tanh(clamp(silu(x) / 2, -1, 1)), -1, 1)", {16, 512}, none,
               [](Epilogue& t) {
                 const int inner = t.f("clamp", t.f("div", t.f("silu", t.x), t.number(2)), t.number(-1), t.number(1));
                 return t.f("clamp", t.f("tanh", inner), t.number(-1), t.number(1));
               }),
      epilogue(87, "mish(x - 0.5 - 0.2)", {4, 8, 54, 54}, none,
               [](Epilogue& t) { return t.f("mish", t.f("sub", t.f("sub", t.x, t.number(0.5)), t.number(0.2))); }),
      epilogue(93, "gelu(minimum(x + 0.5, 0)) * 2.0", {4, 8, 30, 30}, none,
               [](Epilogue& t) {
                 return t.f("mul", t.f("gelu", t.f("minimum", t.f("add", t.x, t.number(0.5)), t.number(0))),
                            t.number(2));
               }),
      epilogue(95, "hardtanh(gelu(tanh(silu(x + add))), -1, 1)", {16, 512}, {512},
               [](Epilogue& t) {
                 const int inner = t.f("tanh", t.f("silu", t.f("add", t.x, t.c.input(1))));
                 return t.f("hardtanh", t.f("gelu", inner), t.number(-1), t.number(1));
               }),
  };
}

std::vector<Case> special_value_cases(int transpose) {
  constexpr std::size_t kResults = 16;  // operations that share a kernel
  const auto n = static_cast<std::int64_t>(special_values().size());
  // One argument: the list; two: all pairs; three: all pairs of the first third with some of the third.
  const std::vector<std::vector<Dims>> shapes = {{{n}}, {{n, 1}, {1, n}}, {{n, 1, 1}, {1, 24, 1}, {1, 1, 16}}};
  const std::vector<Dims> results = {{n}, {n, n}, {n, 24, 16}};
  std::vector<Case> cases;
  for (int t = 0; t < kTypes; ++t) {
    for (int arity = 1; arity <= 3; ++arity) {
      Chain chain;
      std::vector<DType> types;
      const auto a = static_cast<std::size_t>(arity - 1);
      const auto flush = [&] {
        if (chain.results.empty()) return;
        std::vector<Operand> inputs;
        for (const Dims& shape : shapes[a]) inputs.push_back(Operand::dense(type_number(t), shape));
        cases.push_back(simple_case(std::exchange(chain, {}), inputs, std::exchange(types, {}), results[a]));
        cases.back().fill = Fill::listed;
      };
      int number = 0;
      for (const Definition& definition : definitions()) {
        ++number;
        if (definition.arity != arity || (definition.kinds[0] == 'n' && type_number(t) == DType::boolean)) continue;
        std::vector<int> args;
        for (int i = 0; i < arity; ++i) args.push_back(chain.input(i));
        chain.results.push_back(chain.op(definition.name, args));
        types.push_back(type_number(t + transpose + number));
        if (types.size() == kResults) flush();
      }
      flush();
    }
  }
  return cases;
}

std::vector<Case> conversion_cases() {
  std::vector<Case> cases;
  for (const DType from : kAllDTypes) {
    const Dims shape = {size_of(from) == 1 ? 256 : 65536};
    const auto add = [&](auto result_of, auto output_of) {
      Chain chain;
      std::vector<DType> outputs;
      const int x = chain.input(0);
      for (const DType to : kAllDTypes) {
        const int result = result_of(chain, x, to);
        if (result < 0) continue;
        chain.results.push_back(result);
        outputs.push_back(output_of(to));
      }
      cases.push_back(simple_case(chain, {Operand::dense(from, shape)}, outputs, shape));
      cases.back().fill = Fill::codes;
    };
    const auto identity = [](Chain&, int x, DType) { return x; };
    const auto cast = [](Chain& chain, int x, DType to) { return chain.cast(x, to); };
    const auto cast_in_f32 = [](Chain& chain, int x, DType to) { return to == DType::f64 ? -1 : chain.cast(x, to); };
    const auto same = [](DType to) { return to; };
    const auto f64 = [](DType) { return DType::f64; };
    add(identity, same);
    add(cast_in_f32, f64);
    add(cast, f64);
  }
  return cases;
}

std::vector<Case> long_cases() {
  std::vector<Case> cases;
  {
    Chain chain;
    int value = chain.input(0);
    const int other = chain.input(1);
    for (int i = 0; i < 100; ++i) {
      value = chain.op("mul", {value, chain.constant(0.75)});
      value = chain.op("add", {value, other});
      value = chain.op("maximum", {value, chain.constant(-3 - i * 0.01)});
      value = chain.op("minimum", {chain.constant(5 + i * 0.01), value});
      value = chain.op("sub", {value, chain.constant(0.125)});
    }
    chain.results = {value};
    cases.push_back(simple_case(chain, {Operand::dense(DType::f32, {7, 129}), Operand::dense(DType::f16, {129})},
                                {DType::f32}, {7, 129}));
  }
  {
    Random random(500);
    const std::vector<DType> types = {DType::f32, DType::bf16, DType::i8};
    std::vector<int> inputs, scalars;
    const Chain chain = without_dead_steps(random_chain(random, 500, types, 0, 3, true), inputs, scalars);
    std::vector<Operand> operands;
    for (const int i : inputs) operands.push_back(Operand::dense(types[static_cast<std::size_t>(i)], {513}));
    cases.push_back(simple_case(chain, operands, {DType::f32, DType::f16, DType::i32}, {513}));
  }
  {
    const std::vector<Dims> shapes = {{3, 5, 64}, {64}, {5, 1}, {3, 1, 1}, {1, 5, 64}, {1}};
    Chain chain;
    std::vector<Operand> operands;
    int sum = chain.constant(0);
    for (int i = 0; i < 30; ++i) {
      sum = chain.op("add", {sum, chain.input(i)});
      const DType type = type_number(i);
      operands.push_back(
          Operand::dense(type == DType::f64 ? DType::f32 : type, shapes[static_cast<std::size_t>(i) % shapes.size()]));
    }
    chain.results = {sum};
    cases.push_back(simple_case(chain, operands, {DType::f32}, {3, 5, 64}));
  }
  return cases;
}

std::vector<Case> alignment_cases() {
  std::vector<Case> cases;
  for (const DType type : {DType::i8, DType::f16, DType::f32, DType::f64}) {
    const int width = static_cast<int>(16 / size_of(type));
    for (int length = 0; length <= 2 * width + 1; ++length) {
      for (int lead = 0; lead < width; ++lead) {
        const Dims shape = {length};
        for (const int output_lead : {lead, 0}) {
          cases.push_back(simple_case(
              sum_of_two(), {aligned_at(type, shape, lead), aligned_at(type, shape, output_lead)}, {type}, shape));
          cases.back().outputs[0].lead = output_lead;
        }
        if (length == 0) continue;
        // Row by row: `lead` now is what follows each row of the output.
        const Dims rows = {3, length};
        cases.push_back(
            simple_case(sum_of_two(), {Operand::dense(type, rows), Operand::dense(type, shape)}, {type}, rows));
        cases.back().outputs[0].strides = Dims{length + 1 + lead, 1};
        cases.back().outputs[0].lead = lead;
      }
    }
  }
  return cases;
}

std::vector<Case> odd_extent_cases() {
  std::vector<Case> cases;
  for (const DType type : {DType::f32, DType::f16, DType::bf16, DType::i8}) {
    for (const Dims& shape : {Dims{2, 3, 25, 25}, Dims{2, 4, 125, 125}, Dims{5, 3, 1, 7}, Dims{3, 7, 1, 1}}) {
      const Dims bias = {shape[1], 1, 1};
      cases.push_back(
          simple_case(sum_of_two(), {Operand::dense(type, shape), Operand::dense(DType::f32, bias)}, {type}, shape));
      // Channels last, and a bias that then runs along the innermost dimension.
      Case nhwc = cases.back();
      const Dims strides = {shape[1] * shape[2] * shape[3], 1, shape[3] * shape[1], shape[1]};
      nhwc.inputs[0].strides = nhwc.outputs[0].strides = strides;
      cases.push_back(nhwc);
    }
  }
  return cases;
}

// In place, and with fewer groups than a block has threads: what takes the place of a group that does not exist must
// not be stored.
std::vector<Case> divisible_row_cases() {
  std::vector<Case> cases;
  for (const DType type : {DType::f32, DType::f64, DType::f16, DType::i8}) {
    for (const Dims& shape : {Dims{3, 5, 16}, Dims{1, 2, 16}, Dims{7, 9, 48}}) {
      for (const bool in_place : {false, true}) {
        cases.push_back(simple_case(
            sum_of_two(), {Operand::dense(type, shape), Operand::dense(DType::f32, Dims{shape[1], 1})}, {type}, shape));
        if (in_place) cases.back().in_place[0] = 0;
      }
    }
  }
  // A bias along the row, at any address: the kernel asks, unless all vectors are aligned.
  for (const DType type : {DType::f32, DType::f16, DType::i8}) {
    for (const int lead : {0, 1, 4}) {
      Operand bias = Operand::dense(DType::f16, Dims{48});
      bias.lead = lead;
      cases.push_back(simple_case(sum_of_two(), {Operand::dense(type, Dims{7, 48}), bias}, {type}, Dims{7, 48}));
    }
  }
  // Two steps of half an access each: the vector's elements are wider.
  for (const DType type : {DType::f8e4m3, DType::i8}) {
    for (const Dims& shape : {Dims{3, 16}, Dims{37, 136}}) {
      for (const bool in_place : {false, true}) {
        cases.push_back(simple_case(
            sum_of_two(), {Operand::dense(type, shape), Operand::dense(DType::f32, Dims{shape[1]})}, {type}, shape));
        if (in_place) cases.back().in_place[0] = 0;
      }
    }
  }
  return cases;
}

std::vector<Case> odd_layout_cases() {
  std::vector<Case> cases;
  const auto add = [&](const std::vector<Operand>& inputs, DType output, const Dims& shape) {
    cases.push_back(simple_case(sum_of_two(), inputs, {output}, shape));
  };
  for (const DType type : {DType::f32, DType::f16, DType::i8, DType::f64}) {
    // Rank 8: one operand stands still in every other dimension, the other in all.
    const Dims shape = {2, 3, 2, 2, 3, 1, 2, 5};
    Operand every_other = Operand::dense(type, shape);
    every_other.strides = {0, 60, 0, 30, 0, 7, 0, 1};
    Operand still = Operand::dense(type, shape);
    still.strides = {0, 0, 0, 0, 0, 0, 0, 0};
    add({every_other, still}, type, shape);
    add({Operand::dense(type, shape), every_other}, type, shape);
    // One element, with no dimension and with eight.
    const Dims ones = {1, 1, 1, 1, 1, 1, 1, 1};
    add({Operand::dense(type, {}), Operand::dense(type, {})}, type, {});
    add({Operand::dense(type, ones), Operand::dense(type, {})}, type, ones);
    // Prime extents.
    for (const Dims& prime : {Dims{7919}, Dims{13, 11, 7, 5, 3}, Dims{2, 3, 1009}, Dims{1009, 2}}) {
      const Dims bias = {prime[prime.size() - 1]};
      add({Operand::dense(type, prime), Operand::dense(type, bias)}, type, prime);
    }
  }
  return cases;
}

std::vector<Case> tiled_2d_cases() {
  std::vector<Case> cases;
  for (const DType type : {DType::f32, DType::f16, DType::i8, DType::f64}) {
    // Channels-last images into row-major results: whole tiles and less, rows that no vector fits, thin planes.
    for (const Dims& extents : {Dims{2, 64, 128}, Dims{3, 33, 65}, Dims{1, 130, 36}, Dims{2, 8, 4}, Dims{5, 4, 200}}) {
      const auto [n, c, pixels] = std::array{extents[0], extents[1], extents[2]};
      const Operand last{type, extents, {c * pixels, 1, c}, 0};
      cases.push_back(simple_case(sum_of_two(), {last, Operand::dense(type, {c, 1})}, {type}, extents));
      // Beside an operand that lies as the result does; with gaps between pixels; at an odd address; into another type.
      cases.push_back(simple_case(sum_of_two(), {Operand::dense(DType::f32, extents), last}, {DType::f16}, extents));
      const Operand gaps{type, extents, {(c + 7) * pixels, 1, c + 7}, 3};
      cases.push_back(simple_case(sum_of_two(), {gaps, last}, {type}, extents));
      cases.back().outputs[0].lead = 1;
    }
    // The tiled dimension is not the last but one, and there are five.
    const Dims shape = {6, 3, 2, 5, 40};
    const Operand transposed{type, shape, {1, 6 * 40, 6 * 40 * 3, 6 * 40 * 6, 6}, 0};
    cases.push_back(simple_case(sum_of_two(), {transposed, Operand::dense(type, {5, 40})}, {type}, shape));
    // Three operands that cross along two dimensions: one is taken.
    const Dims cube = {12, 20, 28};
    const Operand first{type, cube, {1, 12, 240}, 0};
    const Operand second{type, cube, {28 * 20, 1, 20}, 0};
    cases.push_back(simple_case(sum_of_two(), {first, second}, {type}, cube));
  }
  return cases;
}

std::vector<Case> transpose_cases() {
  std::vector<Case> cases;
  int transpose = 0;
  // Channels: groups of every width, one line and many, more than a tile has. Pixels: lines that are a piece of a tile,
  // one and several; aligned, and beginning at every address.
  for (const std::int64_t c : {4, 8, 24, 33, 66, 130, 272}) {
    for (const std::int64_t pixels : {8, 36, 64, 75, 124, 129, 392}) {
      const Dims shape = {2, c, pixels};
      const DType type = type_number(transpose);
      const DType result = type_number(transpose / kTypes + 3 * transpose);
      const Operand x{type, shape, {c * pixels, 1, c}, 0};
      const Operand apart{type_number(transpose + 5), shape, {(c + 3) * (pixels + 1), 1, c + 3}, 1};
      // Beside it: one element per channel, at an aligned address and at an odd one; per pixel; per image; the same for
      // all; another such.
      const std::array others = {Operand::dense(type, {c, 1}),
                                 aligned_at(type, {c, 1}, 1),
                                 Operand::dense(DType::f32, {pixels}),
                                 Operand::dense(type, {2, 1, 1}),
                                 Operand::dense(type, {}),
                                 x,
                                 apart};
      for (std::size_t i = 0; i < 3; ++i) {
        const Operand& other = others[(static_cast<std::size_t>(transpose) + 2 * i) % others.size()];
        cases.push_back(simple_case(sum_of_two(), {x, other}, {result}, shape));
        cases.back().outputs[0].lead = (transpose + static_cast<int>(i)) % 3;
      }
      ++transpose;
    }
  }
  // Lines shorter than an access, in groups of one element.
  for (const DType type : {DType::i8, DType::f8e4m3, DType::f16}) {
    for (const std::int64_t pixels : {4, 8, 16, 17}) {
      const Dims shape = {2, 33, pixels};
      const Operand x{type, shape, {33 * pixels, 1, 33}, 0};
      cases.push_back(simple_case(sum_of_two(), {x, Operand::dense(type, {33, 1})}, {type}, shape));
    }
  }
  // Two results of different types, one with gaps between its lines; the other's lines in another order of images.
  Chain two;
  const int sum = two.op("add", {two.input(0), two.input(1)});
  two.results = {sum, two.op("gt", {sum, two.constant(0.25)})};
  for (const DType type : {DType::f32, DType::bf16, DType::f8e4m3, DType::f64}) {
    for (const std::int64_t pixels : {64, 67}) {
      const Dims shape = {3, 48, pixels};
      const Operand x{type, shape, {48 * pixels, 1, 48}, 0};
      for (const DType truth : {DType::boolean, DType::i8, DType::f16}) {
        cases.push_back(simple_case(two, {x, Operand::dense(type, {48, 1})}, {type, truth}, shape));
        cases.back().outputs[0].strides = {48 * (pixels + 5), pixels + 5, 1};
        cases.back().outputs[1].strides = {pixels, 3 * pixels, 1};
      }
    }
  }
  return cases;
}

std::vector<Case> small_type_cases() {
  std::vector<Case> cases;
  for (const Definition& definition : definitions()) {
    if (definition.arity - static_cast<int>(definition.defaults.size()) != 1) continue;
    for (const DType type : {DType::f16, DType::bf16, DType::f8e4m3, DType::f8e5m2, DType::i8, DType::u8}) {
      Chain chain;
      std::vector<int> args = {chain.input(0)};
      for (const double value : definition.defaults) args.push_back(chain.constant(value));
      chain.results = {chain.op(definition.name, args)};
      const Dims shape = {size_of(type) == 1 ? 256 : 65536};
      cases.push_back(simple_case(chain, {Operand::dense(type, shape)}, {type}, shape));
      cases.back().fill = Fill::codes;
    }
  }
  return cases;
}

std::vector<Case> tails_over_all_values() {
  std::vector<Case> cases;
  for (const TailCase& tail : tail_cases()) {
    for (const DType type : {DType::f16, DType::bf16}) {
      const bool alone = tail.test.inputs.size() == 1;
      const Dims values = {65536};
      const Dims others = {5, 1};
      const Dims results = {5, 65536};
      std::vector<Operand> operands = {Operand::dense(type, values)};
      if (!alone) operands.push_back(Operand::dense(type, others));
      cases.push_back(simple_case(tail.test.chain, operands, {type}, alone ? values : results));
      cases.back().fill = Fill::codes_of_first;
    }
  }
  return cases;
}

std::vector<Case> truth_cases() {
  std::vector<Case> cases;
  const Dims shape = {257};
  const auto add = [&](const auto& number_of) {
    Chain chain;
    const int truth = chain.op("gt", {chain.input(0), chain.constant(0.5)});
    chain.results = {chain.op("neg", {number_of(chain, truth)}), chain.op("floor", {number_of(chain, truth)})};
    cases.push_back(simple_case(chain, {Operand::dense(DType::f32, shape)}, {DType::f32, DType::i8}, shape));
  };
  add([](Chain& chain, int truth) { return chain.op("mul", {truth, chain.constant(1)}); });
  add([](Chain& chain, int truth) { return chain.op("sub", {truth, chain.constant(0)}); });
  add([](Chain& chain, int truth) { return chain.op("add", {truth, truth}); });
  add([](Chain& chain, int truth) { return chain.cast(truth, DType::f32); });
  return cases;
}

std::vector<Case> fixed_cases(int transposes) {
  std::vector<Case> cases;
  const auto add = [&](const std::vector<Case>& more) { cases.insert(cases.end(), more.begin(), more.end()); };
  for (const TailCase& tail : tail_cases()) cases.push_back(tail.test);
  for (int transpose = 0; transpose < transposes; ++transpose) add(special_value_cases(transpose));
  add(conversion_cases());
  add(long_cases());
  add(alignment_cases());
  add(odd_extent_cases());
  add(divisible_row_cases());
  add(truth_cases());
  add(odd_layout_cases());
  add(tiled_2d_cases());
  add(transpose_cases());
  add(regression_cases());
  return cases;
}

}  // namespace epifuse::test
