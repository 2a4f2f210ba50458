// Random numbers of chains: the published words, and that emitted kernels of every schedule and the CPU device draw the
// numbers that the definition gives for an element's row-major index, whatever the layouts.
#include <gtest/gtest.h>

#include <cmath>
#include <cstdio>
#include <map>
#include <numeric>
#include <vector>

#include <epifuse/engine.hpp>
#include <epifuse/gradient.hpp>

#include "emitted/workshop.hpp"
#include "host_prelude.hpp"
#include "support/as_written.hpp"
#include "support/philox.hpp"
#include "support/random.hpp"

namespace epifuse::test {
namespace {

// ---- the generator

struct Known {
  std::array<std::uint32_t, 4> counter;
  std::array<std::uint32_t, 2> key;
  std::array<std::uint32_t, 4> words;
};
// Random123's kat_vectors, "philox4x32 10".
constexpr std::array kKnown = {
    Known{{0, 0, 0, 0}, {0, 0}, {0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}},
    Known{{0xffffffff, 0xffffffff, 0xffffffff, 0xffffffff},
          {0xffffffff, 0xffffffff},
          {0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}},
    Known{{0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344},
          {0xa4093822, 0x299f31d0},
          {0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}},
};

TEST(Philox, GivesThePublishedWords) {
  for (const Known& known : kKnown) {
    EXPECT_EQ(philox(known.counter, known.key), known.words);
    prelude::detail::Philox counter{};
    std::copy(known.counter.begin(), known.counter.end(), counter.word);
    const prelude::detail::Philox words = prelude::detail::philox(counter, known.key[0], known.key[1]);
    EXPECT_TRUE(std::equal(known.words.begin(), known.words.end(), words.word));
  }
}

// ---- one case: a chain over tensors of any layout, its scalars, and what each result is

struct Tensor {
  std::vector<float> memory;
  Dims shape, strides;
  std::int64_t base = 0;  // of element 0 in memory

  std::int64_t elements() const {
    return std::accumulate(shape.begin(), shape.end(), std::int64_t{1}, std::multiplies<>());
  }
  float& at(std::int64_t index) {
    std::int64_t place = base;
    for (int d = shape.size(); d-- > 0; index /= shape[d]) place += index % shape[d] * strides[d];
    return memory[static_cast<std::size_t>(place)];
  }
  TensorView view() const { return {memory.data() + base, DType::f32, shape, strides}; }
  OutputView output() { return {memory.data() + base, DType::f32, shape, strides}; }
};

// Dimensions in any order in memory, with gaps, and some of them in reverse order.
Tensor any_layout(const Dims& shape, Random& random, bool dense) {
  Tensor tensor;
  tensor.shape = tensor.strides = shape;
  std::vector<int> order(static_cast<std::size_t>(shape.size()));
  std::iota(order.begin(), order.end(), 0);
  if (!dense) {
    for (std::size_t i = order.size(); i > 1; --i)
      std::swap(order[i - 1], order[static_cast<std::size_t>(random.below(static_cast<int>(i)))]);
  }
  std::int64_t step = dense || random.percent(70) ? 1 : 2;
  for (std::size_t i = order.size(); i-- > 0;) {
    const int d = order[i];
    const bool reversed = !dense && random.percent(10);
    tensor.strides[d] = reversed ? -step : step;
    if (reversed) tensor.base += step * (shape[d] - 1);
    step *= shape[d] + (dense || random.percent(60) ? 0 : random.between(1, 5));
  }
  tensor.memory.assign(static_cast<std::size_t>(step), 0.0F);
  return tensor;
}

void fill(Tensor& tensor, Random& random) {
  for (float& value : tensor.memory) value = static_cast<float>(random.uniform(-1, 1));
}

constexpr std::uint64_t kSeed = (std::uint64_t{1} << 52) + 12345, kOffset = (std::uint64_t{1} << 33) + 7;
constexpr double kRate = 0.3;

// What a result must be, of x, r (0 or of x's shape) and the numbers of elements. Nothing: it is compared between
// devices.
using Expected = float (*)(float x, float number);

struct Form {
  const char* text;
  std::vector<Expected> results;  // null: of another definition than one by elements
  bool is_pointwise = false;
};

float draw(float, float number) { return number; }
float dropped(float x, float number) {
  return number >= static_cast<float>(kRate) ? x * static_cast<float>(1 / (1 - kRate)) : 0.0F;
}

const std::vector<Form>& forms() {
  static const std::vector<Form> all = {
      {"rand_like(x, s, o)", {draw}, true},
      {"dropout(x, 0.3, s, o)", {dropped}, true},
      {"return dropout(x, 0.3, s, o), relu(x) * 0 + rand_like(x, s, o)", {dropped, draw}, true},
      {"return softmax(x, axis=-1), rand_like(x, s, o)", {nullptr, draw}},
      {"return dropout(softmax(x, axis=0), 0.3, s, o), rand_like(x, s, o)", {nullptr, draw}},
      {"y = dropout(x, 0.3, s, o); return layer_norm(y), y", {nullptr, dropped}},
      {"y = dropout(x, 0.3, s, o); return y, sum(y, axis=0), amax(rand_like(x, s, o), axis=-1)",
       {dropped, nullptr, nullptr}},
      {"m = mean(x, axis=-1, keepdim=true); return x * 0 + rand_like(m, s, o), rand_like(x, s, o)", {nullptr, draw}},
      {"return group_norm(x, 2), rand_like(x, s, o)", {nullptr, draw}},
      {"return mean(dropout(x, 0.3, s, o), axis=(-2, -1)), dropout(x, 0.3, s, o)", {nullptr, dropped}},
  };
  return all;
}

std::vector<Tensor> results_of(const Epilogue& tail, const std::vector<TensorView>& inputs, Random& random,
                               bool dense) {
  std::vector<Tensor> results;
  for (const Dims& shape : tail.result_shapes(inputs)) results.push_back(any_layout(shape, random, dense));
  return results;
}

std::vector<OutputView> views_of(std::vector<Tensor>& tensors) {
  std::vector<OutputView> views;
  for (Tensor& tensor : tensors) views.push_back(tensor.output());
  return views;
}

// Schedules of the kernels that ran.
using Schedules = std::map<std::string, int>;

void check(const Form& form, const Dims& shape, Random& random, bool dense, const plan::Machine& machine,
           Schedules& ran) {
  SCOPED_TRACE(std::string(form.text) + " of " + to_string(shape));
  const Epilogue tail = as_written(form.text, std::vector<std::string>{"s", "o"});
  Tensor x = any_layout(shape, random, dense);
  fill(x, random);
  const std::vector<TensorView> inputs = {x.view()};
  const std::vector<double> scalars = {static_cast<double>(kSeed), static_cast<double>(kOffset)};
  std::vector<Tensor> emitted = results_of(tail, inputs, random, dense);
  std::vector<Tensor> host = emitted;
  const std::vector<OutputView> outputs = views_of(emitted);
  try {
    const std::string kernel_class = run_emitted(tail, outputs, inputs, scalars, machine).kernel_class;
    ++ran[kernel_class.substr(0, kernel_class.find_first_of(" ("))];
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::unsupported) << error.what();
    EXPECT_FALSE(form.is_pointwise) << error.what();
    return;
  }
  Engine cpu(Device::cpu());
  cpu.launch(tail, Stream(), views_of(host), inputs, scalars);
  for (std::size_t i = 0; i < emitted.size(); ++i) {
    for (std::int64_t e = 0; e < emitted[i].elements(); ++e) {
      const float found = emitted[i].at(e);
      const float other = host[i].at(e);
      if (form.results[i] == nullptr) {
        ASSERT_NEAR(found, other, 1e-4 * std::max(1.0F, std::abs(other))) << "result " << i << ", element " << e;
        continue;
      }
      const float expected = form.results[i](x.at(e), random_number(kSeed, kOffset, static_cast<std::uint64_t>(e)));
      ASSERT_EQ(found, expected) << "result " << i << ", element " << e << ", emitted";
      ASSERT_EQ(other, expected) << "result " << i << ", element " << e << ", CPU device";
    }
  }
}

TEST(RandomNumbers, AreThoseOfTheIndexInEveryLayout) {
  const std::uint64_t seed = test_seed(1);
  Random random(seed);
  SCOPED_TRACE("EPIFUSE_TEST_SEED=" + std::to_string(seed));
  Schedules ran;
  for (int round = 0; round < 6; ++round) {
    for (const Form& form : forms()) {
      Dims shape{random.pick({1, 2, 3, 5}), random.pick({2, 4, 6, 8}), random.pick({1, 7, 32, 33, 64})};
      if (random.percent(60)) shape.push_back(random.pick({1, 3, 16, 40, 65}));
      check(form, shape, random, random.percent(30), {}, ran);
      if (HasFatalFailure()) return;
    }
  }
  for (const char* const schedule : {"flat", "by_row", "resident"}) EXPECT_GT(ran[schedule], 5) << schedule;
}

// Rows that threads, blocks and clusters share, that stay in registers or shared memory, or that are read again.
TEST(RandomNumbers, AreThoseOfTheIndexInEveryScheduleOfRows) {
  Random random(7);
  const std::vector<Dims> shapes = {{3, 257},  {2, 4096},  {5, 10000}, {2, 70001},     {1, 300000},
                                    {640, 12}, {4096, 40}, {9, 33, 5}, {2, 16, 28, 28}};
  Schedules ran;
  for (const Dims& shape : shapes) {
    for (const std::size_t form : {3, 4, 5, 6}) {
      check(forms()[form], shape, random, true, random.percent(50) ? plan::Machine(90, 1) : plan::Machine{}, ran);
      if (HasFatalFailure()) return;
    }
  }
  for (const auto& [schedule, count] : ran) std::printf("%s: %d\n", schedule.c_str(), count);
}

// Operands that lie along another dimension than the results: tiles of two dimensions, and tiles that are transposed.
TEST(RandomNumbers, AreThoseOfTheIndexInTransposedTiles) {
  Random random(11);
  Schedules ran;
  for (const char* const text :
       {"dropout(x, 0.3, s, o)", "return x * 0 + rand_like(x, s, o), dropout(x + r, 0.3, s, o)"}) {
    for (const Dims& shape : {Dims{2, 96, 130}, Dims{64, 64}, Dims{3, 50, 7, 33}}) {
      SCOPED_TRACE(std::string(text) + " of " + to_string(shape));
      const Epilogue tail = as_written(text, std::vector<std::string>{"s", "o"});
      Tensor x = any_layout(shape, random, true);  // dense, with its first two or last two dimensions exchanged
      Dims order = shape;
      std::swap(order[1], order[shape.size() == 2 ? 0 : shape.size() - 1]);
      x.strides = row_major(order);
      std::swap(x.strides[1], x.strides[shape.size() == 2 ? 0 : shape.size() - 1]);
      fill(x, random);
      Tensor r = any_layout(shape, random, true);
      std::vector<TensorView> inputs = {x.view()};
      if (tail.inputs().size() > 1) inputs.push_back(r.view());
      const std::vector<double> scalars = {static_cast<double>(kSeed), static_cast<double>(kOffset)};
      std::vector<Tensor> results = results_of(tail, inputs, random, true);
      const std::string kernel_class = run_emitted(tail, views_of(results), inputs, scalars).kernel_class;
      ++ran[kernel_class.substr(0, kernel_class.find_first_of(" ("))];
      for (std::int64_t e = 0; e < x.elements(); ++e) {
        const float number = random_number(kSeed, kOffset, static_cast<std::uint64_t>(e));
        ASSERT_EQ(results.back().at(e), dropped(x.at(e), number)) << "element " << e;
        if (results.size() > 1) {
          ASSERT_EQ(results[0].at(e), number) << "element " << e;
        }
      }
    }
  }
  EXPECT_GT(ran["transpose"], 0);
  EXPECT_GT(ran["tiled_2d"], 0);
}

// A reference that broadcasts has the numbers of its own shape.
TEST(RandomNumbers, OfABroadcastReference) {
  const Epilogue tail = as_written("x * 0 + rand_like(b, 5, 6)");
  Random random(3);
  for (const Dims& of : {Dims{7}, Dims{6, 1}, Dims{4, 1, 7}, Dims{1, 1, 1}, Dims{6, 7}}) {
    Tensor x = any_layout({4, 6, 7}, random, false);
    Tensor b = any_layout(of, random, false);
    const std::vector<TensorView> inputs = {x.view(), b.view()};
    std::vector<Tensor> results = results_of(tail, inputs, random, false);
    run_emitted(tail, views_of(results), inputs);
    for (std::int64_t e = 0; e < results[0].elements(); ++e) {
      std::int64_t index = 0;
      std::int64_t step = 1;
      std::int64_t rest = e;
      for (int d = 3; d-- > 0;) {
        const Dims full{4, 6, 7};
        const int own = d - (3 - of.size());
        if (own >= 0 && of[own] > 1) index += rest % full[d] * step;
        if (own >= 0) step *= of[own];
        rest /= full[d];
      }
      ASSERT_EQ(results[0].at(e), random_number(5, 6, static_cast<std::uint64_t>(index)))
          << to_string(of) << ", element " << e;
    }
  }
}

// ---- statistics and gradients

std::vector<float> drawn(const char* text, std::int64_t count) {
  const Epilogue tail = Epilogue::parse(text);
  std::vector<float> x(static_cast<std::size_t>(count), 1.0F);
  std::vector<float> y(x.size());
  Engine cpu(Device::cpu());
  const TensorView input(x.data(), DType::f32, {count});
  const OutputView output(y.data(), DType::f32, {count});
  cpu.launch(tail, Stream(), std::span(&output, 1), std::span(&input, 1));
  return y;
}

TEST(RandomNumbers, AreUniform) {
  constexpr std::int64_t kCount = 1 << 20;
  constexpr std::size_t kBins = 256;
  const std::vector<float> numbers = drawn("rand_like(x, 2026, 1)", kCount);
  std::vector<double> bins(kBins, 0);
  double sum = 0;
  double lagged = 0;
  for (std::size_t i = 0; i < numbers.size(); ++i) {
    ASSERT_GE(numbers[i], 0.0F);
    ASSERT_LT(numbers[i], 1.0F);
    sum += numbers[i];
    ++bins[static_cast<std::size_t>(numbers[i] * kBins)];
    if (i > 0) lagged += (numbers[i] - 0.5) * (numbers[i - 1] - 0.5);
  }
  EXPECT_NEAR(sum / kCount, 0.5, 5 * std::sqrt(1.0 / 12 / kCount));
  EXPECT_NEAR(lagged / kCount, 0, 5.0 / 12 / std::sqrt(kCount));  // neighbours do not know each other
  double chi_square = 0;
  for (const double found : bins) chi_square += (found - kCount / kBins) * (found - kCount / kBins) / (kCount / kBins);
  EXPECT_NEAR(chi_square, kBins - 1, 5 * std::sqrt(2.0 * (kBins - 1)));
}

TEST(RandomNumbers, OfOtherSeedsAndOffsetsDiffer) {
  const std::vector<float> first = drawn("rand_like(x, 1, 1)", 4096);
  for (const char* const other :
       {"rand_like(x, 2, 1)", "rand_like(x, 1, 2)", "rand_like(x, 1, 0)", "rand_like(x, 4294967297, 1)"}) {
    const std::vector<float> second = drawn(other, 4096);
    std::size_t equal = 0;
    for (std::size_t i = 0; i < first.size(); ++i) equal += first[i] == second[i] ? 1 : 0;
    EXPECT_LT(equal, 3U) << other;
  }
  EXPECT_EQ(drawn("rand_like(x, 1, 1) - rand_like(relu(x), 1, 1)", 4096), std::vector<float>(4096, 0.0F));
}

TEST(Dropout, KeepsAsManyAsItsRateSaysAndAllOrNothingAtTheEnds) {
  const std::vector<float> found = drawn("dropout(x, 0.1, 3, 4)", 1 << 20);
  const auto zeros = static_cast<double>(std::ranges::count(found, 0.0F));
  EXPECT_NEAR(zeros / (1 << 20), 0.1, 5 * std::sqrt(0.09 / (1 << 20)));
  EXPECT_EQ(drawn("dropout(x, 0, 3, 4)", 64), std::vector<float>(64, 1.0F));
  EXPECT_EQ(drawn("dropout(x, 1, 3, 4)", 64), std::vector<float>(64, 0.0F));
}

// The backward pass drops what the forward pass dropped, and scales what it kept; of a result that is not x's shape,
// too.
TEST(Dropout, HasTheSameMaskInTheBackwardPass) {
  for (const char* const rate : {"0.1", "0.5", "0.7", "1", "p"}) {
    const std::string text = std::string("dropout(x, ") + rate + ", s, o)";
    const Epilogue tail = as_written(text, std::vector<std::string>{"p", "s", "o"});
    const Gradient gradient = epifuse::gradient(tail, std::vector<std::string>{"x"});
    const Dims shape{5, 1001};
    std::vector<float> x(5005, 1.0F), y(5005), dx(5005);
    Engine cpu(Device::cpu());
    const TensorView input(x.data(), DType::f32, shape);
    const auto launch = [&](const Epilogue& chain, std::vector<float>& result) {
      std::vector<double> scalars;
      for (const std::string& name : chain.scalars()) scalars.push_back(name == "p" ? 1 : name == "s" ? 11 : 12);
      const OutputView output(result.data(), DType::f32, shape);
      cpu.launch(chain, Stream(), std::span(&output, 1), std::span(&input, 1), scalars);
    };
    ASSERT_EQ(gradient.backward.inputs().size(), 1U) << "only the gradient of the result";
    launch(gradient.forward, y);
    launch(gradient.backward, dx);
    EXPECT_EQ(y, dx) << text;  // of ones
  }
}

TEST(Dropout, ReadsNothingButTheGradientInTheBackwardPass) {
  const Gradient gradient =
      epifuse::gradient(Epilogue::parse("dropout(x, 0.5, 1, 2) + residual"), std::vector<std::string>{"x"});
  for (const auto& operand : gradient.operands) EXPECT_NE(operand.source, GradientSource::operand);
}

// ---- what is refused

TEST(RandomNumbers, RefuseWhatIsNoWord) {
  for (const char* const text :
       {"rand_like(x, 0.5, 0)", "rand_like(x, -1, 0)", "rand_like(x, 0, 9007199254740992)", "rand_like(x, x, 0)",
        "rand_like(x, 1 + s, 0)", "dropout(x, 1.5, 0, 0)", "dropout(x, -0.1, 0, 0)", "dropout(x, nan, 0, 0)"}) {
    try {
      Epilogue::parse(text, std::vector<std::string>{"s"});
      ADD_FAILURE() << text;
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::invalid_expression) << error.what();
    }
  }
  Engine cpu(Device::cpu());
  const Epilogue tail = Epilogue::parse("rand_like(x, s, 0)", std::vector<std::string>{"s"});
  std::vector<float> memory(8);
  const TensorView input(memory.data(), DType::f32, {4});
  const OutputView output(memory.data() + 4, DType::f32, {4});
  for (const double word : {-1.0, 0.5, 0x1p53, std::nan(""), HUGE_VAL}) {
    try {
      cpu.launch(tail, Stream(), std::span(&output, 1), std::span(&input, 1), std::span(&word, 1));
      ADD_FAILURE() << word;
    } catch (const Error& error) {
      EXPECT_NE(std::string(error.what()).find("scalar 's'"), std::string::npos) << error.what();
    }
  }
}

}  // namespace
}  // namespace epifuse::test
