// Cases as JSON. Numbers of the chain are hexadecimal texts: JSON knows neither NaN nor infinities.
#include "support/regressions.hpp"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <stdexcept>

#include <nlohmann/json.hpp>

namespace epifuse::test {
namespace {

using nlohmann::json;

constexpr std::array<std::string_view, 7> kFills = {"plain", "specials", "bits",          "listed",
                                                    "codes", "rows",     "codes_of_first"};
constexpr int kReductions = 8;

template <class Names>
int position(const Names& names, const std::string& name) {
  const auto it = std::ranges::find(names, name);
  if (it == names.end()) throw std::invalid_argument("'" + name + "' is none of the names expected here");
  return static_cast<int>(it - names.begin());
}

std::string number(double value) {
  char text[40];
  std::snprintf(text, sizeof text, "%a", value);
  return text;
}

double number(const json& text) { return std::strtod(text.get<std::string>().c_str(), nullptr); }

DType dtype(const json& name) {
  for (const DType type : kAllDTypes) {
    if (to_string(type) == name.get<std::string>()) return type;
  }
  throw std::invalid_argument("'" + name.get<std::string>() + "' is no element type");
}

Reduction reduction(const json& name) {
  for (int i = 0; i < kReductions; ++i) {
    if (to_string(static_cast<Reduction>(i)) == name.get<std::string>()) return static_cast<Reduction>(i);
  }
  throw std::invalid_argument("'" + name.get<std::string>() + "' is no reduction");
}

json to_json(const Step& step) {
  json out = {{"kind", kStepKinds[static_cast<std::size_t>(step.kind)]}};
  if (!step.args.empty()) out["args"] = step.args;
  if (step.kind == Step::Kind::input || step.kind == Step::Kind::scalar) out["ordinal"] = step.ordinal;
  if (step.kind == Step::Kind::constant) out["value"] = number(step.constant);
  if (step.kind == Step::Kind::cast) out["type"] = to_string(step.dtype);
  if (step.kind == Step::Kind::op) out["op"] = step.definition->name;
  if (!step.is_shaping()) return out;
  out["axes"] = step.axes.at;
  if (step.kind == Step::Kind::unflatten) out["sizes"] = step.sizes;
  if (step.kind != Step::Kind::reduce) return out;
  out["reduction"] = to_string(step.reduction);
  out["rest"] = step.axes.rest;
  out["keepdim"] = step.keepdim;
  if (step.reduction == Reduction::var) out["value"] = number(step.constant);
  return out;
}

Step step_of(const json& in) {
  Step step;
  step.kind = static_cast<Step::Kind>(position(kStepKinds, in.at("kind")));
  if (in.contains("args")) step.args = in["args"].get<std::vector<int>>();
  step.ordinal = in.value("ordinal", 0);
  if (in.contains("value")) step.constant = number(in["value"]);
  if (in.contains("type")) step.dtype = dtype(in["type"]);
  if (in.contains("op")) step.definition = &definition(in["op"].get<std::string>());
  if (in.contains("axes")) step.axes = {in["axes"].get<std::vector<int>>(), in.value("rest", false)};
  if (in.contains("sizes")) step.sizes = in["sizes"].get<std::array<std::int64_t, 2>>();
  if (in.contains("reduction")) step.reduction = reduction(in["reduction"]);
  step.keepdim = in.value("keepdim", false);
  return step;
}

std::vector<std::int64_t> list(const Dims& dims) { return {dims.begin(), dims.end()}; }
Dims dims(const json& in) { return Dims(std::span<const std::int64_t>(in.get<std::vector<std::int64_t>>())); }

json to_json(const std::vector<Operand>& operands) {
  json out = json::array();
  for (const Operand& operand : operands) {
    out.push_back({{"type", to_string(operand.dtype)},
                   {"shape", list(operand.shape)},
                   {"strides", list(operand.strides)},
                   {"lead", operand.lead}});
  }
  return out;
}

std::vector<Operand> operands(const json& in) {
  std::vector<Operand> out;
  for (const json& operand : in)
    out.push_back({dtype(operand.at("type")), dims(operand.at("shape")), dims(operand.at("strides")),
                   operand.at("lead").get<int>()});
  return out;
}

}  // namespace

std::string to_line(const Case& test) {
  json steps = json::array();
  for (const Step& step : test.chain.steps) steps.push_back(to_json(step));
  std::vector<std::string> scalars;
  for (const double scalar : test.scalars) scalars.push_back(number(scalar));
  json out = {{"text", to_text(test.chain)},
              {"steps", steps},
              {"results", test.chain.results},
              {"inputs", to_json(test.inputs)},
              {"outputs", to_json(test.outputs)},
              {"in_place", test.in_place},
              {"scalars", scalars},
              {"fill", kFills[static_cast<std::size_t>(test.fill)]},
              {"row_dims", test.row_dims},
              {"seed", test.data_seed}};
  if (!test.same.empty()) out["same"] = test.same;
  return out.dump();
}

Case from_line(std::string_view line) {
  const json in = json::parse(line);
  Case test;
  for (const json& step : in.at("steps")) test.chain.steps.push_back(step_of(step));
  test.chain.results = in.at("results").get<std::vector<int>>();
  test.inputs = operands(in.at("inputs"));
  test.outputs = operands(in.at("outputs"));
  test.in_place = in.at("in_place").get<std::vector<int>>();
  for (const json& scalar : in.at("scalars")) test.scalars.push_back(number(scalar));
  test.chain.inputs = static_cast<int>(test.inputs.size());
  test.chain.scalars = static_cast<int>(test.scalars.size());
  test.fill = static_cast<Fill>(position(kFills, in.at("fill")));
  test.row_dims = in.at("row_dims").get<unsigned>();
  if (in.contains("same")) test.same = in["same"].get<std::vector<int>>();
  test.data_seed = in.at("seed").get<std::uint64_t>();
  return test;
}

std::vector<Case> regression_cases() {
  const std::vector<std::string_view> lines = {
#include "regressions/cases.inc"
  };
  std::vector<Case> cases;
  for (const std::string_view line : lines) cases.push_back(from_line(line));
  return cases;
}

}  // namespace epifuse::test
