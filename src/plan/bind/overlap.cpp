// Do two strided views share a byte? That is: has d = Σ a_i·x_i − Σ b_j·y_j, with 0 ≤ x_i < n_i and so on, a solution
// for one of the few byte distances d that matter? A bounded Diophantine equation: NP-hard in general, instant for
// tensors. Depth-first search from the largest step, pruned by what the smaller ones can still reach and by their
// greatest common divisor, with a budget of steps.
#include <algorithm>
#include <cstdlib>
#include <numeric>
#include <optional>

#include "base/inline_vector.hpp"
#include "plan/bind/packed.hpp"
#include "plan/bind/space.hpp"

namespace epifuse::plan {
namespace {

struct Term {
  std::int64_t step;   // bytes, positive
  std::int64_t count;  // the variable runs from 0 to count
};

// Of two views.
using Terms = base::InlineVector<Term, std::size_t{2} * kMaxRank>;

// Views reach no further than 2^60 bytes (check_reach), so those that start further apart than this are apart.
constexpr std::int64_t kFar = std::int64_t{1} << 62;

// All terms of a view, made positive: a negative step is a positive one from the far end. Returns where the lowest byte
// lies, from element 0 on. The stride of a dimension of one element may be any number.
std::int64_t add_terms(const TensorView& view, Terms& terms) {
  const auto size = static_cast<std::int64_t>(size_of(view.dtype));
  std::int64_t lowest = 0;
  for (int i = 0; i < view.shape.size(); ++i) {
    const std::int64_t count = view.shape[i] - 1;
    if (count <= 0 || view.strides[i] == 0) continue;
    const std::int64_t step = view.strides[i] * size;
    if (step < 0) lowest += step * count;
    terms.push_back({std::abs(step), count});
  }
  return lowest;
}

// As few terms as reach the same sums. Σ of 0 … c steps of s has no gaps, so a step of k·s with k ≤ c + 1 only
// continues it: together they are 0 … c + k·n steps of s. Dimensions of both views that are alike become one term,
// which keeps the search short.
Terms merged(Terms terms) {
  std::ranges::sort(terms, std::less(), &Term::step);
  Terms found;
  for (const Term& term : terms) {
    const auto continued = std::ranges::find_if(found, [&](const Term& smaller) {
      return term.step % smaller.step == 0 && term.step / smaller.step <= smaller.count + 1;
    });
    if (continued == found.end()) {
      found.push_back(term);
    } else {
      continued->count += term.step / continued->step * term.count;
    }
  }
  return found;
}

class Solver {
 public:
  explicit Solver(const Terms& terms) : terms_(merged(terms)) {
    std::ranges::sort(terms_, std::greater(), &Term::step);
    reach_.assign(terms_.size() + 1, 0);
    divisor_.assign(terms_.size() + 1, 0);
    for (std::size_t i = terms_.size(); i-- > 0;) {
      reach_[i] = reach_[i + 1] + terms_[i].step * terms_[i].count;
      divisor_[i] = std::gcd(divisor_[i + 1], terms_[i].step);
    }
  }

  /// A solution of Σ step·x = target within [low, high] for the target; nothing if the budget ran out.
  std::optional<bool> solvable(std::int64_t low, std::int64_t high) {
    budget_ = 100'000;
    const bool found = search(0, low, high);
    return budget_ > 0 ? std::optional(found) : std::nullopt;
  }

 private:
  bool search(std::size_t i, std::int64_t low, std::int64_t high) {
    if (--budget_ <= 0) return false;
    if (high < 0 || low > reach_[i]) return false;
    if (low <= 0) return true;  // all remaining variables zero
    if (i == terms_.size()) return false;
    // Some multiple of the divisor must lie in the window.
    if (high / divisor_[i] * divisor_[i] < low) return false;
    const auto [step, count] = terms_[i];
    const std::int64_t least = std::max<std::int64_t>(0, (low - reach_[i + 1] + step - 1) / step);
    const std::int64_t most = std::min(count, high / step);
    for (std::int64_t x = most; x >= least && budget_ > 0; --x) {
      if (search(i + 1, low - x * step, high - x * step)) return true;
    }
    return false;
  }

  Terms terms_;
  base::InlineVector<std::int64_t, 2 * kMaxRank + 1> reach_;    // of the terms from i on
  base::InlineVector<std::int64_t, 2 * kMaxRank + 1> divisor_;  // of their steps
  std::int64_t budget_ = 0;
};

bool is_empty(const TensorView& view) { return std::ranges::find(view.shape, 0) != view.shape.end(); }

}  // namespace

Reach reach_of(const TensorView& given) noexcept {
  const TensorView view = as_bytes(given);
  const auto size = static_cast<std::int64_t>(size_of(view.dtype));
  Reach reach{0, size};
  for (int i = 0; i < view.shape.size(); ++i) {
    if (view.shape[i] == 0) return {};
    const std::int64_t bytes = view.shape[i] > 1 ? (view.shape[i] - 1) * view.strides[i] * size : 0;
    (bytes < 0 ? reach.first : reach.end) += bytes;
  }
  return reach;
}

bool overlap(const TensorView& first, const TensorView& second) {
  const TensorView a = as_bytes(first);
  const TensorView b = as_bytes(second);
  if (is_empty(a) || is_empty(b)) return false;
  const std::uint64_t distance = reinterpret_cast<std::uintptr_t>(b.data) - reinterpret_cast<std::uintptr_t>(a.data);
  const auto apart = static_cast<std::int64_t>(distance);
  if (apart < -kFar || apart > kFar) return false;
  // address_a(x) − address_b(y) must lie in (−size_a, size_b). With y' = n − y all steps are positive.
  Terms terms;
  const std::int64_t low_a = add_terms(a, terms);
  const std::size_t terms_a = terms.size();
  const std::int64_t low_b = add_terms(b, terms);
  std::int64_t reach_b = 0;
  for (std::size_t i = terms_a; i < terms.size(); ++i) reach_b += terms[i].step * terms[i].count;
  // low_a + Sa − (low_b + reach_b − Sb') in window  ⇔  Sa + Sb' in window + (low_b + reach_b − low_a)
  const std::int64_t shift = apart + low_b + reach_b - low_a;
  const std::int64_t low = shift - static_cast<std::int64_t>(size_of(a.dtype)) + 1;
  const std::int64_t high = shift + static_cast<std::int64_t>(size_of(b.dtype)) - 1;
  return Solver(terms).solvable(low, high).value_or(true);
}

bool overlaps_itself(const TensorView& view) {
  if (is_empty(view) || is_packed(view.dtype)) return false;  // packed: dense
  Terms terms;
  for (int i = 0; i < view.shape.size(); ++i) {
    if (view.shape[i] > 1 && view.strides[i] == 0) return true;
  }
  add_terms(view, terms);
  std::ranges::sort(terms, std::less(), &Term::step);
  // Each step beyond what the smaller ones reach: the usual case, and enough.
  auto reach = static_cast<std::int64_t>(size_of(view.dtype));
  const bool nested = std::ranges::all_of(terms, [&](const Term& term) {
    const bool clear = term.step >= reach;
    reach += term.step * term.count;
    return clear;
  });
  if (nested) return false;
  // Two different elements differ, in some dimension first (from the largest step), by k ≥ 1 there and by anything in
  // the others: shift the differences of the others to be non-negative and ask for each such dimension.
  const auto size = static_cast<std::int64_t>(size_of(view.dtype));
  for (std::size_t first = 0; first < terms.size(); ++first) {
    Terms differences = {{terms[first].step, terms[first].count - 1}};
    std::int64_t shift = -terms[first].step;
    for (std::size_t i = 0; i < first; ++i) {
      differences.push_back({terms[i].step, 2 * terms[i].count});
      shift += terms[i].step * terms[i].count;
    }
    if (Solver(differences).solvable(shift - size + 1, shift + size - 1).value_or(true)) return true;
  }
  return false;
}

}  // namespace epifuse::plan
