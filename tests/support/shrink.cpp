// Greedy shrinking: each candidate is a little simpler than the case; the first that still fails replaces it.
#include <algorithm>
#include <optional>
#include <set>

#include "support/case.hpp"
#include "support/shapes.hpp"

namespace epifuse::test {
namespace {

// Drops dead steps, and the operands that went with them.
Case pruned(const Case& test) {
  std::vector<int> inputs, scalars;
  Case out = test;
  out.chain = without_dead_steps(test.chain, inputs, scalars);
  out.inputs.clear();
  out.scalars.clear();
  for (const int i : inputs) out.inputs.push_back(test.inputs[static_cast<std::size_t>(i)]);
  for (const int i : scalars) out.scalars.push_back(test.scalars[static_cast<std::size_t>(i)]);
  const auto renumbered = [&](int input) {
    const auto it = std::ranges::find(inputs, input);
    return it == inputs.end() ? -1 : static_cast<int>(it - inputs.begin());
  };
  for (int& source : out.in_place) source = renumbered(source);
  if (!test.same.empty()) out.same.assign(inputs.size(), -1);
  for (std::size_t i = 0; i < out.same.size(); ++i) {
    const auto old = static_cast<std::size_t>(inputs[i]);
    const int twin = old < test.same.size() && test.same[old] >= 0 ? renumbered(test.same[old]) : -1;
    if (twin < static_cast<int>(i)) out.same[i] = twin;
  }
  return out;
}

// With outputs of the shapes that the results now have. Nothing where the shapes do not fit.
std::optional<Case> refitted(Case test) {
  std::vector<Dims> shapes;
  try {
    shapes = test.result_shapes();
  } catch (const ShapeError&) {
    return std::nullopt;
  }
  for (std::size_t i = 0; i < shapes.size(); ++i) {
    Operand& output = test.outputs[i];
    if (shapes[i] == output.shape) continue;
    output = Operand::dense(output.dtype, shapes[i]);
    test.in_place[i] = -1;
  }
  return test;
}

// Without reductions the output must keep the broadcast shape: a chain without the operand that gave a dimension is no
// candidate.
bool is_valid(const Case& test) {
  if (test.inputs.empty()) return false;
  if (test.chain.has_shaping()) return true;
  for (const Operand& output : test.outputs) {
    if (output.shape != test.outputs[0].shape) return false;
  }
  Dims shape = test.outputs[0].shape;
  for (int i = 1; i <= shape.size(); ++i) {
    const bool covered = std::ranges::any_of(test.inputs, [&](const Operand& input) {
      return i <= input.shape.size() && input.shape[input.shape.size() - i] == shape[shape.size() - i];
    });
    if (!covered) return false;
  }
  return true;
}

void fewer_results(const Case& test, std::vector<Case>& out) {
  if (test.outputs.size() < 2) return;
  for (std::size_t i = 0; i < test.outputs.size(); ++i) {
    Case smaller = test;
    smaller.chain.results = {test.chain.results[i]};
    smaller.outputs = {test.outputs[i]};
    smaller.in_place = {test.in_place[i]};
    out.push_back(pruned(smaller));
  }
}

// The result is one of its own arguments, or a step takes an argument's argument.
void shorter_chain(const Case& test, std::vector<Case>& out) {
  for (std::size_t r = 0; r < test.chain.results.size(); ++r) {
    for (const int arg : test.chain.steps[static_cast<std::size_t>(test.chain.results[r])].args) {
      Case smaller = test;
      smaller.chain.results[r] = arg;
      out.push_back(pruned(smaller));
    }
  }
  for (std::size_t i = 0; i < test.chain.steps.size(); ++i) {
    for (std::size_t k = 0; k < test.chain.steps[i].args.size(); ++k) {
      for (const int inner : test.chain.steps[static_cast<std::size_t>(test.chain.steps[i].args[k])].args) {
        Case smaller = test;
        smaller.chain.steps[i].args[k] = inner;
        out.push_back(pruned(smaller));
      }
    }
  }
}

void simpler_operands(const Case& test, std::vector<Case>& out) {
  const auto change = [&](auto edit) {
    Case smaller = test;
    edit(smaller);
    out.push_back(std::move(smaller));
  };
  change([](Case& c) { c.in_place.assign(c.in_place.size(), -1); });
  change([](Case& c) {
    for (auto* operands : {&c.inputs, &c.outputs}) {
      for (Operand& operand : *operands) operand.lead = 0;
    }
  });
  change([](Case& c) {
    for (auto* operands : {&c.inputs, &c.outputs}) {
      for (Operand& operand : *operands) operand.strides = row_major(operand.shape);
    }
  });
  change([](Case& c) { c.fill = Fill::plain; });
  change([](Case& c) { c.same.clear(); });
}

// One case for each smaller extent, which `cut` gives an operand. Strides stay, so the views stay within their old
// memory.
template <class Cut>
void smaller_extent(const Case& test, std::int64_t extent, std::vector<Case>& out, const Cut& cut) {
  for (const std::int64_t wanted : {std::int64_t{1}, extent / 2, extent - 1}) {
    if (wanted < 1 || wanted >= extent) continue;
    Case smaller = test;
    for (auto* operands : {&smaller.inputs, &smaller.outputs}) {
      for (Operand& operand : *operands) cut(operand, wanted);
    }
    out.push_back(std::move(smaller));
  }
}

// Extents cut in every operand that has them.
void smaller_shape(const Case& test, std::vector<Case>& out) {
  const int rank = test.outputs[0].shape.size();
  for (int i = 1; i <= rank; ++i) {
    smaller_extent(test, test.outputs[0].shape[rank - i], out, [&](Operand& operand, std::int64_t wanted) {
      const int d = operand.shape.size() - i;
      if (d >= 0 && operand.shape[d] != 1) operand.shape[d] = wanted;
    });
  }
}

// The same where operands have shapes of their own: every dimension of one extent is cut, wherever it stands.
void smaller_extents(const Case& test, std::vector<Case>& out) {
  std::set<std::int64_t> extents;
  for (const Operand& input : test.inputs) extents.insert(input.shape.begin(), input.shape.end());
  for (const std::int64_t extent : extents) {
    smaller_extent(test, extent, out, [&](Operand& operand, std::int64_t wanted) {
      for (int d = 0; d < operand.shape.size(); ++d) {
        if (operand.shape[d] == extent) operand.shape[d] = wanted;
      }
    });
  }
}

}  // namespace

Case shrink(Case failing, const std::function<bool(const Case&)>& fails, int attempts) {
  bool progress = true;
  while (progress) {
    progress = false;
    std::vector<Case> candidates;
    fewer_results(failing, candidates);
    shorter_chain(failing, candidates);
    if (failing.chain.has_shaping()) {
      smaller_extents(failing, candidates);
    } else {
      smaller_shape(failing, candidates);
    }
    simpler_operands(failing, candidates);
    for (Case& smaller : candidates) {
      const std::optional<Case> fitting = failing.chain.has_shaping() ? refitted(smaller) : smaller;
      if (!fitting) continue;
      const Case& candidate = *fitting;
      if (!is_valid(candidate) || candidate.str() == failing.str()) continue;
      if (attempts-- <= 0) return failing;
      bool still = false;
      try {
        still = fails(candidate);
      } catch (const std::exception&) {
        // The library refuses it (a truth value where a number is wanted): no smaller case.
      }
      if (still) {
        failing = candidate;
        progress = true;
        break;
      }
    }
  }
  return failing;
}

}  // namespace epifuse::test
