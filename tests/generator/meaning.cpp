// A row per function that is not one operation of definitions.cpp.
#include "generator/meaning.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <stdexcept>
#include <string>

#include "ir/functions.hpp"
#include "support/composites.hpp"

namespace epifuse::test {
namespace {

using Arguments = std::vector<CallArgument>;
using Meaning = int (*)(Chain&, const Arguments&);

bool flag(const CallArgument& argument) { return argument.number != 0; }
int whole(const CallArgument& argument) { return static_cast<int>(argument.number); }

template <Reduction reduction>
int reduce(Chain& c, const Arguments& a) {
  return c.reduce(reduction, a[0].value, a[1].axes, flag(a[2]));
}

int norm(Chain& c, int x, double p, const AxisList& axes, bool keepdim) {
  if (p == 2) return c.op("sqrt", {c.reduce(Reduction::sum, c.op("square", {x}), axes, keepdim)});
  if (p == 0) return c.reduce(Reduction::sum, c.op("ne", {x, c.constant(0)}), axes, keepdim);
  const int size = c.op("abs", {x});
  if (p == 1) return c.reduce(Reduction::sum, size, axes, keepdim);
  if (std::isinf(p)) return c.reduce(p > 0 ? Reduction::amax : Reduction::amin, size, axes, keepdim);
  const int powers = c.reduce(Reduction::sum, c.op("pow", {size, c.constant(p)}), axes, keepdim);
  return c.op("pow", {powers, c.constant(1 / p)});
}

const std::map<std::string_view, Meaning>& meanings() {
  static const std::map<std::string_view, Meaning> table = {
      {"cast", [](Chain& c, const Arguments& a) { return c.cast(a[0].value, a[1].dtype); }},
      {"gelu",
       [](Chain& c, const Arguments& a) { return c.op(a[1].word == "tanh" ? "gelu_tanh" : "gelu", {a[0].value}); }},
      {"sum", reduce<Reduction::sum>},
      {"mean", reduce<Reduction::mean>},
      {"prod", reduce<Reduction::prod>},
      {"amax", reduce<Reduction::amax>},
      {"amin", reduce<Reduction::amin>},
      {"any", reduce<Reduction::any>},
      {"all", reduce<Reduction::all>},
      {"var",
       [](Chain& c, const Arguments& a) {
         return c.reduce(Reduction::var, a[0].value, a[1].axes, flag(a[3]), a[2].number);
       }},
      {"std",
       [](Chain& c, const Arguments& a) {
         return c.op("sqrt", {c.reduce(Reduction::var, a[0].value, a[1].axes, flag(a[3]), a[2].number)});
       }},
      {"norm", [](Chain& c, const Arguments& a) { return norm(c, a[0].value, a[1].number, a[2].axes, flag(a[3])); }},
      {"logsumexp", [](Chain& c, const Arguments& a) { return logsumexp(c, a[0].value, a[1].axes, flag(a[2])); }},
      {"softmax", [](Chain& c, const Arguments& a) { return softmax(c, a[0].value, a[1].axes); }},
      {"log_softmax", [](Chain& c, const Arguments& a) { return log_softmax(c, a[0].value, a[1].axes); }},
      {"layer_norm",
       [](Chain& c, const Arguments& a) {
         return layer_norm(c, a[0].value, a[1].value, a[2].value, a[3].number, a[4].axes);
       }},
      {"rms_norm",
       [](Chain& c, const Arguments& a) { return rms_norm(c, a[0].value, a[1].value, a[2].number, a[3].axes); }},
      {"group_norm",
       [](Chain& c, const Arguments& a) {
         return group_norm(c, a[0].value, whole(a[1]), a[2].value, a[3].value, a[4].number);
       }},
      {"instance_norm",
       [](Chain& c, const Arguments& a) { return instance_norm(c, a[0].value, a[1].value, a[2].value, a[3].number); }},
      {"normalize",
       [](Chain& c, const Arguments& a) {
         const int size = norm(c, a[0].value, a[1].number, a[2].axes, true);
         return c.op("div", {a[0].value, c.op("maximum", {size, c.constant(a[3].number)})});
       }},
      {"unflatten", [](Chain& c, const Arguments& a) { return c.unflatten(a[0].value, whole(a[1]), a[2].sizes); }},
      {"flatten", [](Chain& c, const Arguments& a) { return c.flatten(a[0].value, whole(a[1]), whole(a[2])); }},
      {"along", [](Chain& c, const Arguments& a) { return c.along(a[0].value, a[1].value, whole(a[2])); }},
  };
  return table;
}

const Definition* find_definition(std::string_view name) {
  for (const Definition& row : definitions()) {
    if (row.name == name) return &row;
  }
  return nullptr;
}

}  // namespace

int append_call(Chain& chain, std::string_view function, const Arguments& arguments) {
  if (const auto it = meanings().find(function); it != meanings().end()) return it->second(chain, arguments);
  if (find_definition(function) == nullptr)
    throw std::out_of_range("tests/generator/meaning.cpp does not say what '" + std::string(function) + "' means");
  std::vector<int> values;
  for (const CallArgument& argument : arguments) values.push_back(argument.value);
  return chain.op(function, values);
}

bool is_drawn(std::string_view function) {
  static constexpr std::array<std::string_view, 9> kOnTheirOwn = {"repeat_as",  "expand_as",    "sum_to",
                                                                  "reshape_as", "unsqueeze_as", "count",
                                                                  "batch_norm", "var_mean",     "count_nonzero"};
  // They have tests and oracles of their own (tests/support/views.hpp, view_functions.hpp, index_functions.hpp and
  // products.hpp, tests/emitted/random_numbers_test.cpp, tests/api/quantize_test.cpp), as gradients have and some of
  // the functions above.
  static constexpr std::array<std::string_view, 7> kGroupsOfTheirOwn = {
      "views", "indices", "random numbers", "pooling", "positions", "quantisation", "matrix products"};
  const ir::Function* found = ir::find_function(function);
  return std::ranges::find(kOnTheirOwn, function) == kOnTheirOwn.end() &&
         (found == nullptr || std::ranges::find(kGroupsOfTheirOwn, found->group) == kGroupsOfTheirOwn.end());
}

bool is_one_step(std::string_view function) {
  static constexpr std::array<std::string_view, 13> kSteps = {
      "cast", "gelu", "sum", "mean", "prod", "amax", "amin", "var", "any", "all", "unflatten", "flatten", "along"};
  return find_definition(function) != nullptr || std::ranges::find(kSteps, function) != kSteps.end();
}

}  // namespace epifuse::test
