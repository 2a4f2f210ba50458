// Matches the command line's operands with the chain's, and chooses what was left open.
#include "task.hpp"

#include <algorithm>
#include <cctype>
#include <map>
#include <optional>

#include <spdlog/fmt/ranges.h>

#include "convert.hpp"
#include "npy.hpp"
#include "options.hpp"
#include "random.hpp"
#include "support.hpp"

namespace epifuse::tool {
namespace {

using Specs = std::map<std::string, OperandSpec, std::less<>>;

Specs parse_specs(const TaskOptions& options) {
  Specs specs;
  std::string reader;
  for (const std::string& text : options.values) {
    OperandSpec spec = parse_operand(text);
    const std::string name = spec.name;
    const auto* file = std::get_if<FileSource>(&spec.source);
    if (file != nullptr && file->path == kStandardStream) {
      if (!reader.empty()) refuse("operands '{}' and '{}' both read standard input; expected one", reader, name);
      reader = name;
    }
    if (!specs.emplace(name, std::move(spec)).second) {
      refuse("operand '{}' is given twice; expected one value for each name", name);
    }
  }
  return specs;
}

bool is_scalar(const OperandSpec& spec) { return std::holds_alternative<double>(spec.source); }

bool has(const std::vector<std::string>& names, const std::string& name) {
  return std::ranges::find(names, name) != names.end();
}

}  // namespace

bool mentions(std::string_view text, std::string_view name) {
  const auto is_letter = [&](std::size_t at) {
    return at < text.size() && (std::isalnum(static_cast<unsigned char>(text[at])) != 0 || text[at] == '_');
  };
  for (std::size_t at = text.find(name); at != text.npos; at = text.find(name, at + 1)) {
    if (!is_letter(at + name.size()) && (at == 0 || !is_letter(at - 1))) return true;
  }
  return false;
}

namespace {

// The operands of the chain's text; none where it is wrong, or needs to know which are scalars: rand_like(x, seed, 0).
std::optional<Epilogue> without_scalars(const std::string& text) {
  try {
    return Epilogue::parse(text);
  } catch (const Error&) {
    return std::nullopt;
  }
}

// The operands that have a number for their value are scalars. Only those that the chain mentions: parse would take the
// others for declarations, and a misspelt name would go unnoticed.
Epilogue parse_with(const TaskOptions& options, const Specs& specs) {
  const std::optional<Epilogue> tail = without_scalars(options.chain);
  std::vector<std::string> scalars;
  for (const auto& [name, spec] : specs) {
    const bool is_mentioned = tail ? has(tail->inputs(), name) : mentions(options.chain, name);
    if (is_scalar(spec) && is_mentioned) scalars.push_back(name);
  }
  return tail && scalars.empty() ? *tail : Epilogue::parse(options.chain, scalars);
}

std::string listed(const std::vector<std::string>& names) {
  return names.empty() ? "none" : fmt::format("{}", fmt::join(names, ", "));
}

void refuse_unknown(const Specs& specs, const Epilogue& tail) {
  for (const auto& [name, spec] : specs) {
    if (has(tail.inputs(), name) && is_scalar(spec)) {
      refuse("operand '{}' is a tensor in the chain, but its value is a number; expected {}=TYPE[SHAPE] or {}=@FILE",
             name, name, name);
    }
    if (has(tail.scalars(), name) && !is_scalar(spec)) {
      refuse("operand '{}' is a scalar in the chain; expected a number, as in {}=2.0", name, name);
    }
    if (!has(tail.inputs(), name) && !has(tail.scalars(), name)) {
      refuse("unknown operand '{}': the chain's tensors are {}, its scalars {}", name, listed(tail.inputs()),
             listed(tail.scalars()));
    }
  }
}

const OperandSpec& required(const Specs& specs, const std::string& name, bool scalar) {
  const auto it = specs.find(name);
  if (it != specs.end()) return it->second;
  if (scalar) refuse("operand '{}' is missing; add its value, as in {}=2.0", name, name);
  refuse("operand '{}' is missing; add {}=TYPE[SHAPE] (as in {}=f16[8,16]) or {}=@FILE.npy", name, name, name, name);
}

TensorInfo info_of(const OperandSpec& spec) {
  if (const auto* file = std::get_if<FileSource>(&spec.source)) {
    TensorInfo info = npy_tensor_info(inspect_npy(file->path, spec.name), spec.name);
    info.dtype = file->dtype.value_or(info.dtype);
    return info;
  }
  const auto& random = std::get<RandomSource>(spec.source);
  const Dims strides = strides_of(random.layout, random.shape, fmt::format("operand '{}'", spec.name));
  return {spec.name, random.dtype, random.shape, strides, random.layout.offset};
}

std::vector<TensorView> shapes_and_types(const Task& task) {
  std::vector<TensorView> views;
  for (const Input& input : task.inputs) views.emplace_back(nullptr, input.info.dtype, input.info.shape);
  return views;
}

std::size_t input_named(const Task& task, const std::string& name) {
  const auto it = std::ranges::find(task.inputs, name, [](const Input& input) { return input.info.name; });
  return static_cast<std::size_t>(it - task.inputs.begin());
}

// The output is the input's memory.
void put_over(Task& task, std::size_t output, std::size_t input) {
  const std::string name = task.outputs[output].name;
  task.outputs[output] = task.inputs[input].info;
  task.outputs[output].name = name;
  task.over.resize(task.outputs.size());
  task.over[output] = input;
}

void choose_outputs(Task& task, const TaskOptions& options) {
  const std::vector<ResultSpec> specs = parse_results(options.results);
  const std::vector<std::string> names = task.tail.results();
  if (specs.size() > names.size()) {
    refuse("--out gives {} types, but the chain has {} result{} ({})", specs.size(), names.size(),
           names.size() == 1 ? "" : "s", listed(names));
  }
  // The library's own shapes and types; what does not fit is refused there, in its words.
  const std::vector<TensorView> views = shapes_and_types(task);
  const std::vector<Dims> shapes = task.tail.result_shapes(views);
  const std::vector<DType> types = task.tail.result_types(views);
  for (std::size_t i = 0; i < names.size(); ++i) {
    const ResultSpec spec = i < specs.size() ? specs[i] : ResultSpec{};
    const DType type = spec.dtype.value_or(types[i]);
    const Dims strides = strides_of(spec.layout, shapes[i], fmt::format("result '{}'", names[i]));
    task.outputs.push_back({names[i], type, shapes[i], strides, spec.layout.offset});
  }
  const std::vector<std::string> destinations = task.tail.destinations();
  for (std::size_t i = 0; i < names.size(); ++i) {
    if (!destinations[i].empty()) put_over(task, i, input_named(task, destinations[i]));
  }
}

void choose_in_place(Task& task, const TaskOptions& options) {
  if (options.in_place.empty()) return;
  const std::size_t input = input_named(task, options.in_place);
  if (input == task.inputs.size()) {
    refuse("--inplace {}: no such operand; the chain's tensors are {}", options.in_place, listed(task.tail.inputs()));
  }
  const TensorInfo& info = task.inputs[input].info;
  if (!options.results.empty() && task.outputs[0].dtype != info.dtype) {
    refuse("--inplace {}: the result is {} (--out), the operand {}; expected the same type", options.in_place,
           to_string(task.outputs[0].dtype), to_string(info.dtype));
  }
  if (task.outputs[0].shape != info.shape) {
    refuse("--inplace {}: the result has shape {}, the operand {}; expected the same shape", options.in_place,
           to_string(task.outputs[0].shape), to_string(info.shape));
  }
  put_over(task, 0, input);
}

OutputView planned_view(const TensorInfo& info, std::size_t slot) {
  constexpr int kFarApart = 52;
  const std::uintptr_t address = (std::uintptr_t{slot} + 1) << kFarApart;
  const auto offset = static_cast<std::uintptr_t>(info.offset) * size_of(info.dtype);
  return {reinterpret_cast<void*>(address + offset), info.dtype, info.shape, info.strides};
}

}  // namespace

void add_task_options(CLI::App& command, TaskOptions& options) {
  command.add_option("chain", options.chain, "The chain, for example \"relu(x + bias)\"")->required();
  command.add_option("operands", options.values, "name=value, one for each operand of the chain (see below)");
  command.add_option("--out", options.results, "Types of the results, in order: f16 or f16:nhwc or f16,bool")
      ->allow_extra_args(false)
      ->type_name("TYPE[,TYPE]");
  const auto choose = [&options](const std::string& text) {
    for (const Math mode : {Math::precise, Math::standard, Math::fast}) {
      if (text == to_string(mode)) {
        options.math = mode;
        return;
      }
    }
    refuse("--math: found '{}'; expected precise, standard or fast", text);
  };
  command
      .add_option_function<std::string>("--math", choose,
                                        "How exact (docs/guide/accuracy.md): precise, standard (the default) or fast")
      ->type_name("MODE");
}

void add_gradient(CLI::App& command, TaskOptions& options) {
  command
      .add_option("--gradient", options.gradient,
                  "The backward pass instead: the gradient with respect to these operands, with commas between them")
      ->delimiter(',')
      ->allow_extra_args(false)
      ->type_name("NAME[,NAME]");
}

void add_in_place(CLI::App& command, TaskOptions& options) {
  add_text(command, "--inplace", options.in_place, "the name of an operand",
           "Write the first result over this operand's memory")
      ->type_name("NAME");
}

std::string operand_help() {
  return "Operands:\n"
         "  x=f16[8,16]              random data of that type and shape (normal; integers: their usual range)\n"
         "  x=@x.npy                 a file; x=bf16@x.npy converts it; x=@- reads standard input\n"
         "  alpha=2.0                a scalar, given by value: changing it compiles nothing\n"
         "  x=f16[8,3,32,32]:nhwc    [N,C,H,W] with the channels innermost in memory\n"
         "  x=f32[64,32]:colmajor    the first dimension innermost; :colmajor(80) with leading dimension 80\n"
         "  x=f32[4,8]:strides(16,2) any strides, in elements; also 0 and negative ones\n"
         "  x=f16[8,16]:offset(1)    starts one element past an aligned address\n"
         "  types: f64 f32 f16 bf16 f8e4m3 f8e5m2 f8e8m0 i8 u8 i16 u16 i32 u32 i64 bool, also by NumPy's and PyTorch's "
         "names\n"
         "A chain that begins with '-' goes after '--':  epifuse run -- \"-x\" 'x=f32[4]'\n"
         "Results have the type that PyTorch gives them (f16 + f32: f32); --out chooses others.\n";
}

Gradient gradient_of(const Epilogue& tail, const TaskOptions& options) {
  try {
    return gradient(tail, options.gradient);
  } catch (const Error& problem) {
    refuse("--gradient {}: {}", fmt::join(options.gradient, ","), problem.what());
  }
}

Epilogue parse_chain(const TaskOptions& options) {
  const Epilogue tail = parse_with(options, parse_specs(options)).with(options.math);
  return options.gradient.empty() ? tail : gradient_of(tail, options).backward;
}

Input parse_input(const std::string& text) {
  const OperandSpec spec = parse_operand(text);
  if (is_scalar(spec)) {
    refuse("operand '{}' is a tensor, but its value is a number; expected {}=TYPE[SHAPE] or {}=@FILE", spec.name,
           spec.name, spec.name);
  }
  return {info_of(spec), spec};
}

Epilogue by_position(const Epilogue& tail) { return tail.inputs(tail.inputs()); }

Task make_task(const TaskOptions& options) {
  const Specs specs = parse_specs(options);
  const Epilogue written = parse_with(options, specs).with(options.math);
  Task task{by_position(written), written.str(), {}, {}, {}, {}};
  refuse_unknown(specs, task.tail);
  for (const std::string& name : task.tail.inputs()) {
    const OperandSpec& spec = required(specs, name, false);
    task.inputs.push_back({info_of(spec), spec});
  }
  for (const std::string& name : task.tail.scalars()) {
    task.scalars.push_back(std::get<double>(required(specs, name, true).source));
  }
  choose_outputs(task, options);
  choose_in_place(task, options);
  if (options.gradient.empty()) return task;
  return backward_task(task, gradient_of(written, options), options.gradient);
}

namespace {

Input random_input(const std::string& name, DType type, const Dims& shape) {
  const Layout layout;
  return {{name, type, shape, strides_of(layout, shape, name), 0}, {name, RandomSource{type, shape, layout}}};
}

}  // namespace

Task backward_task(const Task& forward, const Gradient& gradient, const std::vector<std::string>& wrt) {
  Task task{gradient.backward, gradient.backward.str(), {}, {}, {}, {}, gradient};
  std::vector<TensorView> views;
  bool f64 = false;
  for (const Input& input : forward.inputs) {
    views.emplace_back(nullptr, input.info.dtype, input.info.shape);
    f64 = f64 || input.info.dtype == DType::f64;
  }
  const std::vector<Dims> shapes = by_position(gradient.forward).result_shapes(views);
  const Chain chain = chain_of(gradient.forward);
  for (const GradientOperand& operand : gradient.operands) {
    if (operand.source == GradientSource::operand || operand.source == GradientSource::shape) {
      task.inputs.push_back(forward.inputs[operand.index]);
      continue;
    }
    const ChainValue& value = chain.values[static_cast<std::size_t>(chain.results[operand.index])];
    const bool is_integer = value.op == "cast" && !is_floating(value.dtype);
    const DType saved = value.gives_truth ? DType::boolean : is_integer ? value.dtype : f64 ? DType::f64 : DType::f32;
    const bool is_saved = operand.source == GradientSource::saved;
    task.inputs.push_back(
        random_input(operand.name, is_saved ? saved : forward.outputs[operand.index].dtype, shapes[operand.index]));
  }
  for (const std::string& name : task.tail.scalars()) {
    const auto it = std::ranges::find(forward.tail.scalars(), name);
    task.scalars.push_back(forward.scalars[static_cast<std::size_t>(it - forward.tail.scalars().begin())]);
  }
  const std::vector<std::string> names = task.tail.results();
  for (std::size_t i = 0; i < wrt.size(); ++i) {
    const TensorInfo& of =
        std::ranges::find(forward.inputs, wrt[i], [](const Input& input) { return input.info.name; })->info;
    if (!is_floating(of.dtype))
      refuse("--gradient {}: the operand is {}; integers and truth values have no gradient", wrt[i],
             to_string(of.dtype));
    task.outputs.push_back({names[i], of.dtype, of.shape, of.strides, of.offset});
  }
  return task;
}

std::vector<TensorView> Task::planned_inputs() const {
  std::vector<TensorView> views;
  for (const Input& input : inputs) views.push_back(planned_view(input.info, views.size()));
  return views;
}

std::vector<OutputView> Task::planned_outputs() const {
  std::vector<OutputView> views;
  for (const TensorInfo& output : outputs) {
    views.push_back(planned_view(output, input_under(views.size()).value_or(inputs.size() + views.size())));
  }
  return views;
}

Inspection Task::inspect(const PlanTarget& target) const { return {tail, planned_outputs(), planned_inputs(), target}; }

HostTensor load(const Input& input, std::uint64_t seed) {
  const auto* file = std::get_if<FileSource>(&input.spec.source);
  if (file == nullptr) return random_tensor(input.info, seed);
  HostTensor tensor = read_npy(file->path, input.info.name);
  if (tensor.info().shape != input.info.shape || tensor.info().strides != input.info.strides) {
    refuse("operand '{}': {} was changed while it was read", input.info.name, file->path);
  }
  if (tensor.info().dtype == input.info.dtype) return tensor;
  HostTensor converted = HostTensor::uninitialised(input.info);
  convert_elements(converted.view(), tensor.view());
  return converted;
}

}  // namespace epifuse::tool
