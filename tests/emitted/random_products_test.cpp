// Random matrix products that host random chains, run on the CPU by the models of what sm_90a does asynchronously and
// of what warps multiply with. Sums of products are exact, so that a product is an operand of the chain like others,
// and the oracle of chains says what results must be. EPIFUSE_TEST_CASES says how many. With EPIFUSE_PRODUCTS_REPORT
// the counts are written there as JSON (./dev reports products).
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <map>
#include <mutex>
#include <numeric>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include <nlohmann/json.hpp>

#include "emitted/gemm_run.hpp"
#include "emitted/scaled_problem.hpp"
#include "support/random_case.hpp"

namespace epifuse::test {
namespace {

constexpr int kCasesInCi = 120;
constexpr int kCasesPerFamily = 8;  // which share a kernel, or few

// What cases of a family share: the chain, all types, and how factors lie.
struct ProductFamily {
  explicit ProductFamily(Random& random) {
    is_warps = random.percent(40);
    do factor = random.pick({DType::bf16, DType::f16, DType::f8e4m3, DType::f8e5m2, DType::i8, DType::f32});
    while (is_warps && factor == DType::f8e5m2);
    products = random.percent(25) ? 2 : 1;
    types.assign(static_cast<std::size_t>(products), DType::f32);
    for (int i = random.between(0, 3); i > 0; --i)
      types.push_back(random.pick({DType::f32, DType::f16, DType::bf16, DType::f8e4m3, DType::i8}));
    result = random.pick(
        {DType::f32, DType::f16, DType::bf16, DType::f16, DType::bf16, DType::f8e4m3, DType::f8e5m2, DType::i8});
    do {
      const int operations = random.percent(75) ? random.between(1, 6) : random.between(7, 14);
      chain = random_chain(random, operations, types, 0, 1, random.percent(50));
    } while (!reads_products());
    for (std::size_t i = static_cast<std::size_t>(products); i < types.size(); ++i) kinds.push_back(random.below(4));
    if (size_of(factor) == 2) left_transposed = random.percent(30), right_transposed = random.percent(30);
  }

  // A chain that lacks one of its products is none that a kernel of two hosts.
  bool reads_products() const {
    std::vector<int> held_inputs, held_scalars;
    without_dead_steps(chain, held_inputs, held_scalars);
    int read = 0;
    for (const int input : held_inputs) read += input < products ? 1 : 0;
    return read == products;
  }

  bool is_warps = false;
  DType factor = DType::bf16, result = DType::f32;
  int products = 1;
  std::vector<DType> types;  // of the chain's operands, products first
  std::vector<int> kinds;    // of those behind products: a tensor, a row vector, a column vector, a number
  Chain chain;
  bool left_transposed = false, right_transposed = false;
};

struct Extents {
  std::int64_t batches = 1, rows = 1, columns = 1, depth = 1;
};

Extents extents_of(Random& random) {
  const int most = random.percent(60) ? 130 : random.percent(75) ? 300 : 700;
  return {random.percent(20) ? 2 : 1, random.between(1, most), random.between(1, most), random.between(1, most)};
}

// A tensor [batches, outer, inner] of which rows begin at multiples of 16 bytes, perhaps further apart.
Operand padded(DType type, const Dims& shape, std::int64_t gap) {
  const std::int64_t unit = 16 / static_cast<std::int64_t>(size_of(type));
  const std::int64_t row = (shape[2] + unit - 1) / unit * unit + gap * unit;
  return {type, shape, {shape[1] * row, row, 1}, 0};
}

// One case of a family: factors, the operands of its chain, and what the kernel makes of them.
class HostedProduct {
 public:
  HostedProduct(const ProductFamily& family, const Extents& extents, std::uint64_t seed)
      : family_(family), extents_(extents), random_(seed), tail_(to_epilogue(family.chain)) {
    const Extents& e = extents;
    left_ = factor(e.rows, family.left_transposed);
    for (int i = 0; i < family.products; ++i) rights_.push_back(factor(e.columns, family.right_transposed));
    const Dims all = {e.batches, e.rows, e.columns};
    test_.chain = family.chain;
    for (std::size_t i = 0; i < family.types.size(); ++i) {
      const int kind = i < rights_.size() ? 0 : family.kinds[i - rights_.size()];
      const Dims shape = kind == 0   ? all
                         : kind == 1 ? Dims{1, 1, e.columns}
                         : kind == 2 ? Dims{e.batches, e.rows, 1}
                                     : Dims{1, 1, 1};
      test_.inputs.push_back(i < rights_.size() ? Operand::dense(DType::f32, shape)
                                                : padded(family.types[i], shape, random_.below(2)));
    }
    test_.outputs.push_back(padded(family.result, all, random_.below(2)));
    test_.in_place = {-1};
    test_.data_seed = seed;
    test_.fill = random_.percent(85) ? Fill::plain : Fill::specials;
    before_.emplace(test_);
    for (std::size_t i = 0; i < rights_.size(); ++i) fill_product(i);
  }

  /// Why the kernel does not host the chain, or nothing. Then the others may be called.
  std::optional<std::string> plan() {
    if (test_.compute() == Compute::f64) return "the chain computes in f64";
    after_.emplace(*before_);
    const Views views = make_views(test_, tail_, *after_,
                                   [](const Image& image) { return const_cast<unsigned char*>(image.bytes.data()); });
    std::vector<std::string> names;
    for (int i = 0; i < family_.products; ++i) names.push_back(input_name(i));
    const std::vector<std::string_view> products(names.begin(), names.end());
    std::vector<TensorView> rights;
    for (const GemmMatrix& right : rights_) rights.push_back(right.view());
    plan::Machine machine(family_.is_warps ? (size_of(family_.factor) == 1 ? 89 : 80) : 90, random_.between(2, 6));
    if (family_.is_warps) machine.tensor_cores = plan::TensorCores::warps;
    try {
      plan_ =
          plan::plan_gemm(tail_.program(), products, left_->view(), rights, views.outputs[0], views.inputs, machine);
    } catch (const Error& error) {
      return error.what();
    }
    partials_.resize(static_cast<std::size_t>(plan_->partial_bytes()) / sizeof(float));
    plan_->workspace = reinterpret_cast<std::byte*>(partials_.data());
    return std::nullopt;
  }
  std::string source() const { return codegen::emit_gemm(tail_.program(), *plan_, codegen::Compilers::both); }
  std::string tile() const { return std::string(plan_->gemm_class.tile_name()); }

  /// What is wrong, or nothing.
  std::optional<std::string> run(const CompiledText& text, When when, Coverage& coverage) {
    for (std::size_t i = 0; i < before_->inputs.size(); ++i)
      std::ranges::copy(before_->inputs[i].bytes, after_->inputs[i].bytes.begin());
    std::ranges::copy(before_->outputs[0].bytes, after_->outputs[0].bytes.begin());
    std::ranges::fill(partials_, std::numeric_limits<float>::quiet_NaN());
    if (auto wrong = test::run(*plan_, tail_.program(), text, when, test_.data_seed)) return wrong;
    return judge(test_, *before_, *after_, &coverage);
  }

  std::string text() const {
    const Extents& e = extents_;
    return fmt::format("{} product(s) of {}{}{}, {} x {} x {}, {} batch(es), {}\n{}", family_.products,
                       to_string(family_.factor), family_.left_transposed ? ", left transposed" : "",
                       family_.right_transposed ? ", right transposed" : "", e.rows, e.columns, e.depth, e.batches,
                       family_.is_warps ? "warps multiply" : "warp groups multiply", test_.str());
  }

 private:
  GemmMatrix factor(std::int64_t extent, bool transposed) {
    std::mt19937 numbers(static_cast<unsigned>(random_.bits()));
    // A factor is transposed if its innermost stride says so, and that of one row says nothing.
    return {numbers,
            family_.factor,
            {extents_.batches, extent, extents_.depth},
            random_.below(2) * 8,
            transposed && extent > 1 && extents_.depth > 1};
  }

  // Multiples of 1/64 that f32 has exactly, in whatever order they are summed.
  void fill_product(std::size_t number) {
    const std::vector<double> left = left_->values(), right = rights_[number].values();
    const auto& [batches, rows, columns, depth] = extents_;
    Image& image = before_->inputs[number];
    std::size_t at = image.first;
    for (std::int64_t i = 0; i < batches * rows; ++i) {
      for (std::int64_t c = 0; c < columns; ++c, at += sizeof(float)) {
        const auto row = left.begin() + i * depth;
        const double sum = std::inner_product(row, row + depth, right.begin() + (i / rows * columns + c) * depth, 0.0);
        encode(DType::f32, sum, image.bytes.data() + at);
      }
    }
  }

  const ProductFamily& family_;
  Extents extents_;
  Random random_;
  Epilogue tail_;
  std::optional<GemmMatrix> left_;
  std::vector<GemmMatrix> rights_;
  Case test_;
  std::optional<Memory> before_, after_;
  std::optional<plan::GemmPlan> plan_;
  std::vector<float> partials_;
};

// What all cases came to.
struct Account {
  std::uint64_t cases = 0, kernels = 0, reducing = 0, scaled = 0;
  Coverage coverage;
  std::map<std::string, int> tiles, factors, results, refused;
  std::vector<std::string> failures;
};

// The smallest extents, halved one by one, with which it still fails.
std::string shrunk(const ProductFamily& family, Extents extents, std::uint64_t seed, std::string says) {
  const auto fails = [&](const Extents& smaller) -> std::optional<std::string> {
    HostedProduct product(family, smaller, seed);
    if (product.plan()) return std::nullopt;
    const CompiledText compiled(product.source());
    Coverage ignored;
    for (const When when : kAllTimes) {
      if (auto wrong = product.run(compiled, when, ignored)) return *wrong + ", " + to_string(when);
    }
    return std::nullopt;
  };
  bool is_smaller = true;
  while (is_smaller) {
    is_smaller = false;
    for (std::int64_t Extents::*extent : {&Extents::batches, &Extents::rows, &Extents::columns, &Extents::depth}) {
      Extents smaller = extents;
      smaller.*extent /= 2;
      if (smaller.*extent == 0) continue;
      if (auto wrong = fails(smaller)) extents = smaller, says = *wrong, is_smaller = true;
    }
  }
  return says + "\n" + HostedProduct(family, extents, seed).text();
}

// All cases of one family.
void run_family(std::uint64_t seed, int cases, Account& account, std::mutex& mutex) {
  Random random(seed);
  const ProductFamily family(random);
  std::map<std::string, CompiledText> compiled;
  for (int number = 0; number < cases; ++number) {
    const Extents extents = extents_of(random);
    const std::uint64_t data_seed = random.bits();
    HostedProduct product(family, extents, data_seed);
    if (const auto refused = product.plan()) {
      const std::lock_guard lock(mutex);
      ++account.refused[*refused];
      return;
    }
    const std::string source = product.source();
    const CompiledText& text = compiled.try_emplace(source, source).first->second;
    Coverage coverage;
    std::string failure;
    for (const When when : kAllTimes) {
      if (const auto wrong = product.run(text, when, coverage); wrong && failure.empty()) {
        failure = shrunk(family, extents, data_seed, *wrong + ", " + to_string(when)) +
                  fmt::format("family {}, case {}", seed, number);
      }
    }
    const std::lock_guard lock(mutex);
    ++account.cases;
    ++account.tiles[product.tile()];
    ++account.factors[std::string(to_string(family.factor))];
    ++account.results[std::string(to_string(family.result))];
    account.coverage.elements += coverage.elements;
    account.coverage.exact += coverage.exact;
    account.coverage.anything += coverage.anything;
    if (!failure.empty()) account.failures.push_back(failure);
    if (number == 0) account.kernels += 1;
  }
}

// Problems of a chain whose values the kernel reduces over rows and columns, too: those of gemm_problem.hpp, which
// judges the partial results together.
void run_reducing_family(std::uint64_t seed, int cases, Account& account, std::mutex& mutex) {
  Random random(seed);
  const GemmChain& chain = random.pick(std::span(reducing_gemm_chains()));
  const GemmTypes types = random.pick(std::span<const GemmTypes>(kGemmTypes));
  const bool is_warps = random.percent(40);
  const int architecture = !is_warps ? 90 : size_of(types.factor) == 1 ? 89 : 80;
  std::map<std::string, CompiledText> compiled;
  for (int number = 0; number < cases; ++number) {
    std::mt19937 numbers(static_cast<unsigned>(random.bits()));
    const GemmExtents shape =
        test::drawn_extents(numbers, random.below(63), types.factor, random.percent(80) ? 200 : 500);
    GemmProblem problem(chain, shape, types, static_cast<unsigned>(random.bits()),
                        plan::Machine(architecture, random.between(2, 6)));
    const std::string source = source_of(problem);
    const CompiledText& text = compiled.try_emplace(source, source).first->second;
    std::string failure;
    for (const When when : kAllTimes) {
      if (const auto wrong = test::run(problem, text, when); wrong && failure.empty())
        failure = fmt::format("{}, {}: {}, {} x {} x {}, family {}, case {}", *wrong, to_string(when), chain.text,
                              shape.rows, shape.columns, shape.depth, seed, number);
    }
    const std::lock_guard lock(mutex);
    ++account.cases, ++account.reducing;
    ++account.tiles[std::string(problem.plan().gemm_class.tile_name())];
    ++account.factors[std::string(to_string(types.factor))];
    ++account.results[std::string(to_string(types.result))];
    if (!failure.empty()) account.failures.push_back(failure);
    if (number == 0) account.kernels += 1;
  }
}

// Problems of factors with scales of blocks.
void run_scaled_family(std::uint64_t seed, int cases, Account& account, std::mutex& mutex) {
  static constexpr ScaledLines kLines[] = {ScaledLines::each, ScaledLines::blocks, ScaledLines::all};
  Random random(seed);
  const ScaledChain& chain = random.pick(std::span(scaled_chains()));
  const DType factor = random.pick({DType::f8e4m3, DType::f8e5m2});
  const ScaledLines left = random.pick(std::span<const ScaledLines>(kLines)),
                    right = random.pick(std::span<const ScaledLines>(kLines));
  const int architecture = random.pick({90, 90, 89, 120});
  std::map<std::string, CompiledText> compiled;
  for (int number = 0; number < cases; ++number) {
    const ScaledExtents extents{.rows = random.between(1, 200),
                                .columns = random.between(1, 300),
                                .depth = random.between(1, random.percent(80) ? 400 : 1500),
                                .left = left,
                                .right = right,
                                .factor = factor,
                                .padding = random.below(3) * 16,
                                .lines_are_neighbours = random.percent(50)};
    ScaledProblem problem(chain, extents, random.pick({DType::f32, DType::bf16}), static_cast<unsigned>(random.bits()));
    const plan::Inside inside = problem.inside(plan::Machine(architecture, random.between(2, 8)));
    const std::string source = codegen::emit_gemm(inside.chain(), inside.plan, codegen::Compilers::both);
    const CompiledText& text = compiled.try_emplace(source, source).first->second;
    std::string failure;
    for (const When when : kAllTimes) {
      if (const auto wrong = problem.run(inside, text, when); wrong && failure.empty())
        failure = fmt::format("{}, {}: {}, {} x {} x {}, family {}, case {}", *wrong, to_string(when), chain.text,
                              extents.rows, extents.columns, extents.depth, seed, number);
    }
    const std::lock_guard lock(mutex);
    ++account.cases, ++account.scaled;
    ++account.tiles[std::string(inside.plan.gemm_class.tile_name())];
    ++account.factors[std::string(to_string(factor))];
    if (!failure.empty()) account.failures.push_back(failure);
    if (number == 0) account.kernels += 1;
  }
}

void write_report(const Account& account, std::uint64_t seed, const char* path) {
  const nlohmann::ordered_json report = {
      {"command", "./dev reports products"},
      {"commit", std::getenv("EPIFUSE_COMMIT") == nullptr ? "" : std::getenv("EPIFUSE_COMMIT")},
      {"seed", seed},
      {"problems", account.cases},
      {"with_reductions", account.reducing},
      {"with_scales", account.scaled},
      {"runs_of_each", std::size(kAllTimes)},
      {"chains", account.kernels},
      {"by_tile", account.tiles},
      {"by_factor", account.factors},
      {"by_result", account.results},
      {"results_judged", account.coverage.elements},
      {"judged_to_the_bit", account.coverage.exact},
      {"could_be_anything", account.coverage.anything},
      {"families_refused", account.refused},
      {"failures", account.failures}};
  std::ofstream(path) << report.dump(1) << "\n";
}

TEST(RandomProducts, HostRandomChains) {
  const char* const wanted = std::getenv("EPIFUSE_TEST_CASES");
  const auto cases = static_cast<std::uint64_t>(wanted == nullptr ? kCasesInCi : std::atoi(wanted));
  const std::uint64_t seed = test_seed(20261128);
  std::printf("seed %llu\n", static_cast<unsigned long long>(seed));
  Random seeds(seed);
  Account account;
  std::mutex mutex;
  const auto work = [&] {
    while (true) {
      std::uint64_t family = 0;
      {
        const std::lock_guard lock(mutex);
        if (account.cases >= cases) return;
        family = seeds.bits();
      }
      const auto run_kind = family % 8 == 0 ? run_reducing_family : family % 8 == 1 ? run_scaled_family : run_family;
      run_kind(family, kCasesPerFamily, account, mutex);
    }
  };
  {
    std::vector<std::jthread> helpers;
    for (unsigned i = 1; i < std::max(2U, std::thread::hardware_concurrency()); ++i) helpers.emplace_back(work);
    work();
  }
  for (const std::string& failure : account.failures) ADD_FAILURE() << failure << ", EPIFUSE_TEST_SEED=" << seed;
  std::printf("%llu problems of %llu chains, each run early, late and at random\n",
              static_cast<unsigned long long>(account.cases), static_cast<unsigned long long>(account.kernels));
  for (const auto& [why, count] : account.refused) std::printf("refused %d: %s\n", count, why.c_str());
  EXPECT_GE(account.tiles.size(), 6U) << "tiles of both kinds of multiprocessors";
  EXPECT_LT(account.coverage.anything * 100, account.coverage.elements * 25);
  if (const char* const path = std::getenv("EPIFUSE_PRODUCTS_REPORT")) write_report(account, seed, path);
}

}  // namespace
}  // namespace epifuse::test
