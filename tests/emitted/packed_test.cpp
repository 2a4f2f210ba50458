// Chains over tensors of 4-bit elements: the emitted text and the CPU device against the same chain over the numbers
// that these tensors hold, bit for bit, and against the definition of NVFP4. Data are small multiples of 1/8, so that
// sums are exact in any order.
#include <gtest/gtest.h>

#include <cmath>
#include <deque>
#include <memory>
#include <random>
#include <span>
#include <string>
#include <vector>

#include "emitted/workshop.hpp"
#include "support/as_written.hpp"
#include "support/block_formats.hpp"
#include "support/packed.hpp"
#include "support/storage.hpp"

namespace epifuse::test {
namespace {

struct PackedCase {
  std::string chain;                          // "T" stands for the packed type
  std::vector<std::pair<char, Dims>> inputs;  // 'q': packed, 'x': f32, 'h': f16
  Dims result;
  bool is_packed;
};

std::vector<PackedCase> packed_cases() {
  std::vector<PackedCase> cases;
  for (const std::int64_t columns : {16, 48, 256, 1040}) {
    const Dims shape = {24, columns};
    cases.push_back({"cast(x * 1.5, T)", {{'x', shape}}, shape, true});
    cases.push_back({"cast(x + y, T)", {{'h', shape}, {'x', {columns}}}, shape, true});
    cases.push_back({"x + q", {{'h', shape}, {'q', shape}}, shape, false});
    cases.push_back({"q * x", {{'q', {columns}}, {'h', shape}}, shape, false});
    cases.push_back({"cast(q + q2, T)", {{'q', shape}, {'q', shape}}, shape, true});
    cases.push_back({"amax(q, -1)", {{'q', shape}}, {24}, false});
    cases.push_back({"sum(q, 0)", {{'q', shape}}, {columns}, false});
    cases.push_back({"cast(x - amax(x, -1, keepdim=true), T)", {{'h', shape}}, shape, true});
    cases.push_back({"cast(q + x - sum(q + x, 0, keepdim=true), T)", {{'q', shape}, {'x', shape}}, shape, true});
    cases.push_back({"q[3:9] * 2", {{'q', shape}}, {6, columns}, false});
    cases.push_back({"unflatten(q, -1, (-1, 16)) - 1", {{'q', shape}}, {24, columns / 16, 16}, false});
    cases.push_back({"cast(cat((x, x), 0), T)", {{'h', {12, columns}}}, shape, true});
    // Beside a view, both packed rows have the strides of one parameter.
    cases.push_back({"q * x[3:9] + q2", {{'q', {columns}}, {'x', shape}, {'q', {columns}}}, {6, columns}, false});
  }
  // A row in shared memory, in several blocks, and in many passes.
  for (const std::int64_t columns : {24'576, 131'072})
    cases.push_back({"cast(q - amax(q, -1, keepdim=true), T)", {{'q', {2, columns}}}, {2, columns}, true});
  return cases;
}

// Operands of a case, packed and as numbers.
struct Bound {
  Bound(const PackedCase& given, DType packed, std::mt19937& random) : of(given), type(packed) {
    text = with_type(to_string(type));
    numbers_text = with_type("f32");
    for (const auto& [kind, shape] : of.inputs) add(kind, shape, random);
    std::size_t elements = 1;
    for (const std::int64_t extent : of.result) elements *= static_cast<std::size_t>(extent);
    expected.resize(elements);
    for (Found* one : {&emitted, &on_cpu}) {
      one->numbers.resize(elements);
      one->packed = std::make_unique<PackedTensor>(type, of.is_packed ? of.result : Dims{16});
    }
  }
  std::string with_type(std::string_view name) const {
    std::string chain = of.chain;
    if (const std::size_t position = chain.find('T'); position != chain.npos) chain.replace(position, 1, name);
    return chain;
  }
  struct Found {
    std::unique_ptr<PackedTensor> packed;
    std::vector<float> numbers;
  };
  OutputView output(Found& found) const {
    return of.is_packed ? found.packed->view() : OutputView(found.numbers.data(), DType::f32, of.result);
  }
  void judge(const Found& found, const char* where) const {
    if (of.is_packed) {
      EXPECT_EQ(found.packed->bytes, packed_codes(type, expected)) << where << ": " << text;
    } else {
      EXPECT_EQ(found.numbers, expected) << where << ": " << text << " of " << to_string(type);
    }
  }
  void add(char kind, const Dims& shape, std::mt19937& random) {
    memory.emplace_back(type, shape);
    PackedTensor& packed = memory.back();
    packed.fill(random);
    std::vector<float> values = packed.numbers();
    if (kind != 'q') {
      for (float& value : values) value = static_cast<float>(static_cast<int>(random() % 97) - 48) / 8;
    }
    numbers.push_back(values);
    numbers_inputs.emplace_back(numbers.back().data(), DType::f32, shape);
    if (kind == 'h') {
      halves.emplace_back(values.size() * 2);
      for (std::size_t i = 0; i < values.size(); ++i)
        encode(DType::f16, static_cast<double>(values[i]), halves.back().data() + 2 * i);
      inputs.emplace_back(halves.back().data(), DType::f16, shape);
    } else if (kind == 'q') {
      inputs.push_back(packed.view());
    } else {
      inputs.push_back(numbers_inputs.back());
    }
  }

  const PackedCase& of;
  DType type;
  std::string text, numbers_text;
  std::deque<PackedTensor> memory;
  std::deque<std::vector<float>> numbers;
  std::deque<std::vector<std::uint8_t>> halves;
  std::vector<TensorView> inputs, numbers_inputs;
  std::vector<float> expected;
  Found emitted, on_cpu;
};

TEST(EmittedPacked, AreTheNumbersThatTheyHold) {
  std::mt19937 random(2026);
  const std::vector<PackedCase> cases = packed_cases();
  Engine cpu(Device::cpu());
  std::deque<Bound> bound;
  std::deque<Epilogue> tails;
  std::deque<OutputView> outputs;
  std::vector<Emitted> launches;
  for (const PackedCase& one : cases) {
    for (const DType type : kPackedDTypes) {
      Bound& made = bound.emplace_back(one, type, random);
      const Epilogue numbers = as_written(made.numbers_text);
      cpu.launch(numbers, nullptr, OutputView(made.expected.data(), DType::f32, one.result), made.numbers_inputs);
      const Epilogue& tail = tails.emplace_back(as_written(made.text).with(Math::precise));
      cpu.launch(tail, nullptr, made.output(made.on_cpu), made.inputs);
      made.judge(made.on_cpu, "on the CPU device");
      launches.push_back({tail, std::span(&outputs.emplace_back(made.output(made.emitted)), 1), made.inputs});
    }
  }
  const auto problems = run_emitted(launches);
  for (std::size_t i = 0; i < launches.size(); ++i) {
    EXPECT_FALSE(problems[i]) << problems[i].value_or("") << "\n" << bound[i].text;
    bound[i].judge(bound[i].emitted, "emitted");
  }
}

// Every code of a wide type, and what lies between the numbers of the narrow ones.
TEST(EmittedPacked, ConversionsAreToNearestAndSaturate) {
  std::vector<float> x;
  for (int i = -320; i <= 320; ++i) x.push_back(static_cast<float>(i) / 16);
  for (const float value :
       {0.0F, -0.0F, 1e-38F, -1e-45F, 3e38F, INFINITY, -INFINITY, NAN, -NAN, std::nextafter(0.25F, 1.0F),
        std::nextafter(0.25F, 0.0F), std::nextafter(5.0F, 6.0F), std::nextafter(5.0F, 4.0F)})
    x.push_back(value);
  while (x.size() % 16 != 0) x.push_back(1.25F);
  const Dims shape = {static_cast<std::int64_t>(x.size())};
  const TensorView input(x.data(), DType::f32, shape);
  for (const DType type : kPackedDTypes) {
    const Epilogue tail = Epilogue::parse("cast(x, " + std::string(to_string(type)) + ")");
    const std::vector<std::uint8_t> expected = packed_codes(type, x);
    PackedTensor emitted(type, shape);
    PackedTensor on_cpu(type, shape);
    const OutputView output = emitted.view();
    run_emitted(tail, std::span(&output, 1), std::span(&input, 1));
    Engine(Device::cpu()).launch(tail, nullptr, on_cpu.view(), {input});
    EXPECT_EQ(emitted.bytes, expected) << to_string(type);
    EXPECT_EQ(on_cpu.bytes, expected) << to_string(type);
  }
}

// Blocks of many sizes, some of zeros.
std::vector<float> data_of_blocks(std::size_t elements) {
  std::mt19937 random(7);
  std::vector<float> x(elements);
  for (std::size_t i = 0; i < elements; ++i) {
    const auto whole = static_cast<float>(static_cast<int>(random() % 4001) - 2000);
    const int exponent = -static_cast<int>(random() % 16);
    x[i] = i / 16 % 5 == 0 ? 0 : std::ldexp(whole, exponent);
  }
  return x;
}

std::vector<float> over_largest_of_row(std::vector<float> x, std::size_t columns) {
  for (std::size_t first = 0; first < x.size(); first += columns) {
    const auto row = std::span(x).subspan(first, columns);
    const float largest = largest_of(row);
    for (float& value : row) value /= largest;
  }
  return x;
}

// Alone, and behind a norm whose rows the blocks are segments of.
TEST(EmittedPacked, NvQuantizeIsTheDefinitionBitForBit) {
  const Epilogue alone = as_written("q, s = nv_quantize(x, g); return q, s").with(Math::precise);
  const Epilogue normed =
      as_written("y = x / amax(abs(x), -1, keepdim=true); q, s = nv_quantize(y, g); return q, s").with(Math::precise);
  for (const std::int64_t columns : {16, 256, 2048}) {
    const Dims shape = {6, columns};
    const std::vector<float> x = data_of_blocks(static_cast<std::size_t>(6 * columns));
    const float global = 448 * 6 / largest_of(x);
    const std::vector<TensorView> inputs = {{x.data(), DType::f32, shape}, {&global, DType::f32, {}}};
    for (const bool is_normed : {false, true}) {
      if (is_normed && columns == 16) continue;  // rows of zeros
      const Epilogue& tail = is_normed ? normed : alone;
      const MxBlocks expected =
          nv_blocks(is_normed ? over_largest_of_row(x, static_cast<std::size_t>(columns)) : x, global);
      PackedTensor q(DType::f4e2m1, shape);
      std::vector<std::uint8_t> s(x.size() / 16);
      const std::vector<OutputView> outputs = {q.view(), {s.data(), DType::f8e4m3, {6, columns / 16}}};
      for (const bool is_emitted : {true, false}) {
        std::ranges::fill(q.bytes, std::uint8_t{0xa5});
        if (is_emitted) {
          run_emitted(tail, outputs, inputs);
        } else {
          Engine(Device::cpu()).launch(tail, nullptr, outputs, inputs);
        }
        EXPECT_EQ(s, expected.scales) << columns << ' ' << is_normed << ' ' << is_emitted;
        EXPECT_EQ(q.bytes, expected.values) << columns << ' ' << is_normed << ' ' << is_emitted;
      }
    }
  }
}

// MXFP4 alone and behind a sum: scales round up or down, and the values are the nearest of the type's eight magnitudes.
TEST(EmittedPacked, MxQuantizeIsTheDefinitionBitForBit) {
  const std::vector<float> x = data_of_blocks(std::size_t{6} * 2048);
  std::vector<float> sum;
  for (const float value : x) sum.push_back(value + 0.25F * value);
  struct Launch {
    Epilogue tail;
    MxBlocks expected;
    TensorView input;
    PackedTensor q;
    std::vector<std::uint8_t> s;
    std::vector<OutputView> outputs;
  };
  std::deque<Launch> launches;
  std::vector<Emitted> emitted;
  for (const bool is_up : {true, false}) {
    for (const bool is_sum : {false, true}) {
      const std::string text = std::string("q, s = mx_quantize(") + (is_sum ? "x + 0.25 * x" : "x") + ", f4e2m1, '" +
                               (is_up ? "up" : "floor") + "'); return q, s";
      const std::int64_t columns = is_up ? 2048 : 96;
      const Dims shape = {static_cast<std::int64_t>(x.size()) / columns, columns};
      Launch& launch = launches.emplace_back(Launch{Epilogue::parse(text),
                                                    mx4_blocks(is_sum ? sum : x, is_up),
                                                    TensorView(x.data(), DType::f32, shape),
                                                    PackedTensor(DType::f4e2m1, shape),
                                                    std::vector<std::uint8_t>(x.size() / 32),
                                                    {}});
      launch.outputs = {launch.q.view(), {launch.s.data(), DType::f8e8m0, {shape[0], columns / 32}}};
      emitted.push_back({launch.tail, launch.outputs, std::span(&launch.input, 1)});
    }
  }
  const auto problems = run_emitted(emitted);
  for (std::size_t i = 0; i < launches.size(); ++i) {
    EXPECT_FALSE(problems[i]) << problems[i].value_or("");
    EXPECT_EQ(launches[i].s, launches[i].expected.scales) << launches[i].tail.str();
    EXPECT_EQ(launches[i].q.bytes, launches[i].expected.values) << launches[i].tail.str();
  }
}

}  // namespace
}  // namespace epifuse::test
