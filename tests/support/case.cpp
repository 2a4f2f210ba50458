// Memory, views and judgement of test cases.
#include "support/case.hpp"

#include <algorithm>
#include <cstdio>
#include <map>

#include <epifuse/error.hpp>

#include "support/storage.hpp"
#include "support/tensor_oracle.hpp"

namespace epifuse::test {
namespace {

std::vector<DType> types_of(const std::vector<Operand>& operands) {
  std::vector<DType> types;
  for (const Operand& operand : operands) types.push_back(operand.dtype);
  return types;
}

TensorView view_of(const Operand& operand, const Image& image, unsigned char* base) {
  // An empty view needs no memory.
  unsigned char* data = operand.elements() == 0 ? nullptr : base + image.first;
  return {data, operand.dtype, operand.shape, operand.strides};
}

// Bytes of an output that are not part of any element must stay as they were.
std::optional<std::string> judge_gaps(const Case& test, std::size_t output, const Image& before, const Image& after) {
  const Operand& operand = test.outputs[output];
  std::vector<char> mine(before.bytes.size(), 0);
  if (operand.elements() > 0) {
    Walker walker(operand.shape);
    do {
      std::fill_n(mine.begin() + static_cast<std::ptrdiff_t>(walker.offset(operand, before)), size_of(operand.dtype),
                  1);
    } while (walker.next());
  }
  for (std::size_t i = 0; i < mine.size(); ++i) {
    if (mine[i] == 0 && before.bytes[i] != after.bytes[i]) {
      return "output " + std::to_string(output) + " was written outside its elements, at byte " + std::to_string(i) +
             " of its memory";
    }
  }
  return std::nullopt;
}

std::string mismatch(const Case& test, const Walker& walker, std::size_t output, std::span<const double> inputs,
                     const Range& range, const unsigned char* found) {
  const DType type = test.outputs[output].dtype;
  std::string text = "output " + std::to_string(output) + " at " + to_string(walker.at()) + ": expected " +
                     describe(range, type) + ", found " + describe_element(type, found);
  if (!inputs.empty()) text += "; inputs";
  for (const double input : inputs) {
    char number[80];
    std::snprintf(number, sizeof number, " %.17g (%a)", input, input);
    text += number;
  }
  return text;
}

void count(Coverage* coverage, const Range& expected) {
  if (coverage == nullptr) return;
  ++coverage->elements;
  if (expected.is_point()) ++coverage->exact;
  if (expected.is_anything()) ++coverage->anything;
}

std::vector<Tensor<double>> numbers_of(const Case& test, Compute compute, const Memory& memory) {
  std::vector<Tensor<double>> tensors;
  for (std::size_t i = 0; i < test.inputs.size(); ++i) {
    const Operand& operand = test.inputs[i];
    tensors.push_back({operand.shape, {}});
    if (operand.elements() == 0) continue;
    Walker walker(operand.shape);
    do {
      const Image& image = memory.of_input(test, i);
      const unsigned char* element = image.bytes.data() + walker.offset(operand, image);
      tensors.back().values.push_back(load(operand.dtype, element, compute));
    } while (walker.next());
  }
  return tensors;
}

// Chains in which values have shapes of their own: whole tensors at once.
std::optional<std::string> judge_tensors(const Case& test, const Memory& before, Memory& after, Coverage* coverage) {
  const Compute compute = test.compute();  // asked for once: it may plan the case
  const std::vector<Tensor<double>> numbers = numbers_of(test, compute, before);
  Slack slack = slack_of(test.outputs[0].dtype, compute);
  auto expected = evaluate(test.chain, compute, test.scalars, numbers, slack);
  for (std::size_t i = 0; i < expected.size(); ++i) {
    if (const Slack own = slack_of(test.outputs[i].dtype, compute); own != slack) {
      slack = own;
      expected = evaluate(test.chain, compute, test.scalars, numbers, slack);
    }
    const Operand& operand = test.outputs[i];
    if (expected[i].shape != operand.shape)
      return "the case is wrong: result " + std::to_string(i) + " has the shape " + to_string(expected[i].shape);
    if (operand.elements() == 0) continue;
    const Image& image = after.of_output(test, i);
    std::size_t at = 0;
    Walker walker(operand.shape);
    do {
      const unsigned char* found = image.bytes.data() + walker.offset(operand, image);
      const Range& range = expected[i].values[at++];
      if (!accepts(range, operand.dtype, found)) return mismatch(test, walker, i, {}, range, found);
      count(coverage, range);
    } while (walker.next());
  }
  return std::nullopt;
}

bool is_sum(const Definition& d) { return d.name == "add" || d.name == "sub" || d.name == "fma"; }

// Something is added to, or subtracted from, the value of a function.
bool sums_functions(const Chain& chain) {
  std::vector<char> inexact(chain.steps.size(), 0);
  for (std::size_t i = 0; i < chain.steps.size(); ++i) {
    const Step& step = chain.steps[i];
    const bool given =
        std::ranges::any_of(step.args, [&](int arg) { return inexact[static_cast<std::size_t>(arg)] != 0; });
    if (step.kind == Step::Kind::op && given && is_sum(*step.definition)) return true;
    inexact[i] = given || (step.kind == Step::Kind::op && has_cheaper_form(*step.definition)) ? 1 : 0;
  }
  return false;
}

// A truth value counts as an integer where one computes with it.
bool makes_integers(const Step& step) {
  return (step.kind == Step::Kind::cast && !is_floating(step.dtype)) ||
         (step.kind == Step::Kind::op && step.definition->truth) || step.kind == Step::Kind::count;
}

// Whether the library computes this case in f64; false where it computes nothing.
bool is_planned_in_f64(const Case& test) {
  try {
    return planned(test).compute_type == "f64";
  } catch (const Error&) {
    return false;
  }
}

}  // namespace

Compute Case::compute() const {
  const Compute least = compute_type(chain, types_of(inputs), types_of(outputs));
  const auto is_whole = [](const Operand& operand) { return !is_floating(operand.dtype); };
  const bool has_integers = std::ranges::any_of(inputs, is_whole) || std::ranges::any_of(outputs, is_whole) ||
                            std::ranges::any_of(chain.steps, makes_integers);
  if (least == Compute::f64 || !has_integers) return least;
  // Where integers may exceed what f32 holds is the library's to bound; tests/api/integers_test.cpp has the promise.
  // What it computes in f64 is judged as that.
  return is_planned_in_f64(*this) ? Compute::f64 : Compute::f32;
}

std::string Case::str() const {
  std::string out = to_text(chain) + "\n";
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    const std::size_t whose = memory_of(i);
    out += "  " + input_name(static_cast<int>(i)) + " = " + inputs[i].str() +
           (whose == i ? "" : ", the same memory as " + input_name(static_cast<int>(whose))) + "\n";
  }
  for (std::size_t i = 0; i < scalars.size(); ++i) {
    char number[64];
    std::snprintf(number, sizeof number, "%.17g", scalars[i]);
    out += "  " + scalar_name(static_cast<int>(i)) + " = " + number + "\n";
  }
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    out += "  -> " + outputs[i].str() + (in_place[i] < 0 ? "" : " in place of " + input_name(in_place[i])) + "\n";
  }
  constexpr const char* kFills[] = {"plain", "specials", "bits", "listed", "codes", "rows", "codes_of_first"};
  const std::string rows = fill == Fill::rows ? " " + std::to_string(row_dims) : "";
  return out + "  data: " + kFills[static_cast<int>(fill)] + rows + ", seed " + std::to_string(data_seed) + "\n";
}

std::vector<Dims> Case::result_shapes() const {
  std::vector<Dims> shapes;
  for (const Operand& input : inputs) shapes.push_back(input.shape);
  const std::vector<Dims> inferred = infer_shapes(chain, shapes);
  shapes.clear();
  for (const int result : chain.results) shapes.push_back(inferred[static_cast<std::size_t>(result)]);
  return shapes;
}

PlanSummary planned(const Case& test) {
  const Epilogue tail = to_epilogue(test.chain);
  std::vector<TensorView> inputs;
  std::vector<OutputView> outputs;
  for (const std::string& name : tail.inputs()) {
    const Operand& operand = test.inputs[ordinal_of(name)];
    inputs.emplace_back(nullptr, operand.dtype, operand.shape, operand.strides);
  }
  for (const Operand& operand : test.outputs)
    outputs.emplace_back(nullptr, operand.dtype, operand.shape, operand.strides);
  return Inspection(tail, outputs, inputs).plan();
}

Case simple_case(Chain chain, const std::vector<Operand>& inputs, const std::vector<DType>& outputs,
                 const Dims& shape) {
  Case test;
  test.chain = std::move(chain);
  test.inputs = inputs;
  for (const DType type : outputs) test.outputs.push_back(Operand::dense(type, shape));
  test.in_place.assign(outputs.size(), -1);
  return test;
}

Case built(const std::vector<Operand>& inputs, const Build& build, const std::vector<DType>& outputs) {
  Case test;
  test.inputs = inputs;
  for (std::size_t i = 0; i < inputs.size(); ++i) test.chain.input(static_cast<int>(i));
  test.chain.results = build(test.chain);
  give_outputs(test, outputs);
  return test;
}

void give_outputs(Case& test, const std::vector<DType>& types, int in_place) {
  const std::vector<Dims> shapes = test.result_shapes();
  for (std::size_t i = 0; i < shapes.size(); ++i) {
    const bool is_input = static_cast<int>(i) == in_place;
    test.outputs.push_back(is_input ? test.inputs[0] : Operand::dense(types[i % types.size()], shapes[i]));
    test.in_place.push_back(is_input ? 0 : -1);
  }
}

Memory::Memory(const Case& test) {
  Random random(test.data_seed);
  for (const Operand& operand : test.inputs) {
    inputs.emplace_back(operand);
    if (test.memory_of(inputs.size() - 1) != inputs.size() - 1) {
      inputs.back().bytes.clear();
      inputs.back().lead = 0;
      continue;
    }
    const Fill fill = test.fill != Fill::codes_of_first ? test.fill : inputs.size() == 1 ? Fill::codes : Fill::plain;
    test::fill(inputs.back(), operand, fill, random);
    if (test.fill == Fill::rows) fill_rows(inputs.back(), operand, test.row_dims, random);
  }
  for (std::size_t i = 0; i < test.outputs.size(); ++i) {
    outputs.emplace_back(test.outputs[i]);
    if (test.in_place[i] >= 0) {
      outputs.back().bytes.clear();
      outputs.back().lead = 0;
    }
    std::ranges::fill(outputs.back().bytes, static_cast<unsigned char>(0xa5));
  }
}

Views make_views(const Case& test, const Epilogue& tail, Memory& memory,
                 const std::function<unsigned char*(const Image&)>& address) {
  Views views;
  for (const std::string& name : tail.inputs()) {
    const std::size_t i = ordinal_of(name);
    const Image& image = memory.of_input(test, i);
    views.inputs.push_back(view_of(test.inputs[i], image, address(image)));
  }
  for (const std::string& name : tail.scalars()) views.scalars.push_back(test.scalars[ordinal_of(name)]);
  for (std::size_t i = 0; i < test.outputs.size(); ++i) {
    const Image& image = memory.of_output(test, i);
    const TensorView view = view_of(test.outputs[i], image, address(image));
    views.outputs.emplace_back(const_cast<void*>(view.data), view.dtype, view.shape, view.strides);
  }
  return views;
}

Views views_apart(const Case& test, const Epilogue& tail, Memory& memory) {
  std::map<const Image*, std::uintptr_t> places;
  return make_views(test, tail, memory, [&](const Image& image) {
    return reinterpret_cast<unsigned char*>(places.try_emplace(&image, (places.size() + 1) << 40).first->second);
  });
}

std::optional<std::string> judge(const Case& test, const Memory& before, Memory& after, Coverage* coverage) {
  for (std::size_t i = 0; i < test.inputs.size(); ++i) {
    const bool written = std::ranges::any_of(
        test.in_place, [&](int input) { return input >= 0 && test.memory_of(static_cast<std::size_t>(input)) == i; });
    if (!written && before.inputs[i].bytes != after.inputs[i].bytes)
      return "input " + std::to_string(i) + " was written";
  }
  for (std::size_t i = 0; i < test.outputs.size(); ++i) {
    const Image& old =
        test.in_place[i] < 0 ? before.outputs[i] : before.of_input(test, static_cast<std::size_t>(test.in_place[i]));
    if (auto problem = judge_gaps(test, i, old, after.of_output(test, i))) return problem;
  }
  if (test.chain.has_shaping()) return judge_tensors(test, before, after, coverage);
  if (test.elements() == 0) return std::nullopt;

  const Compute compute = test.compute();
  Oracle exact(test.chain, compute, test.scalars);
  std::vector<Oracle> loose;  // by output
  for (const Operand& output : test.outputs)
    loose.emplace_back(test.chain, compute, test.scalars, slack_of(output.dtype, compute));
  const bool sums = sums_functions(test.chain);
  std::vector<double> values(test.inputs.size());
  Walker walker(test.outputs[0].shape);
  do {
    for (std::size_t i = 0; i < values.size(); ++i) {
      const Image& image = before.of_input(test, i);
      values[i] = load(test.inputs[i].dtype, image.bytes.data() + walker.offset(test.inputs[i], image), compute);
    }
    const auto expected = exact.evaluate(values);
    for (std::size_t i = 0; i < expected.size(); ++i) {
      const Image& image = after.of_output(test, i);
      const DType type = test.outputs[i].dtype;
      const unsigned char* found = image.bytes.data() + walker.offset(test.outputs[i], image);
      count(coverage, expected[i]);
      if (accepts(expected[i], type, found)) continue;
      if (slack_of(type, compute) == Slack{}) return mismatch(test, walker, i, values, expected[i], found);
      // Cheaper formulas: within 1 ulp of the type, but where a sum may cancel, which shows any error, and near the
      // least numbers. A function's value there may be 0, and stays it whatever it is multiplied with.
      const Range wide = loose[i].evaluate(values)[i];
      const double floor = slack_of(type, compute).floor;
      const bool within_ulp = !sums && !expected[i].is_below(floor) && !exact.has_function_below(floor);
      if (!accepts(wide, type, found) || (within_ulp && !accepts(expected[i], type, found, 1)))
        return mismatch(test, walker, i, values, within_ulp ? expected[i] : wide, found);
    }
  } while (walker.next());
  return std::nullopt;
}

}  // namespace epifuse::test
