// Binds arguments, chooses types and layouts of results as the command does, launches without the GIL.
#include "launcher.hpp"

#include <algorithm>
#include <limits>
#include <span>

#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include "engines.hpp"

namespace epifuse::python {
namespace {

std::string joined(const std::vector<std::string>& names) {
  std::string text;
  for (const std::string& name : names) text += (text.empty() ? "" : ", ") + name;
  return text.empty() ? "none" : text;
}

std::string counted(std::size_t count, const char* what) {
  return std::to_string(count) + " " + what + (count == 1 ? "" : "s");
}

DType dtype_of_text(const std::string& name) {
  const auto found = parse_dtype(name);
  if (!found) throw nb::value_error(("'" + name + "' is not a type: expected one of " + dtype_names(", ")).c_str());
  return *found;
}

// A spec of the same order with the type that a name gives.
ResultSpec with_dtype(ResultSpec spec, const std::string& name) {
  spec.computed = name == "compute";
  spec.dtype = spec.computed ? std::nullopt : std::optional(dtype_of_text(name));
  return spec;
}

Dims identity(int rank) {
  Dims order;
  for (int i = 0; i < rank; ++i) order.push_back(i);
  return order;
}

// The dimensions as the view has them in memory, outermost first; nothing for one that repeats or reverses elements.
std::optional<Dims> order_of(const TensorView& view) {
  Dims order = identity(view.shape.size());
  for (int i = 0; i < view.shape.size(); ++i) {
    if (view.shape[i] > 1 && view.strides[i] <= 0) return std::nullopt;
  }
  if (view.strides == row_major(view.shape)) return order;
  const auto outer = [&](std::int64_t a, std::int64_t b) {
    const auto stride = [&](std::int64_t i) {
      return view.shape[static_cast<int>(i)] > 1 ? view.strides[static_cast<int>(i)]
                                                 : std::numeric_limits<std::int64_t>::max();
    };
    return stride(a) > stride(b);
  };
  if (!order.empty()) std::stable_sort(&order[0], &order[0] + order.size(), outer);
  return order;
}

// A result lies in memory as the first operand of its shape does: after a channels-last convolution come channels-last
// tails.
std::optional<Dims> order_like(const std::vector<TensorView>& inputs, const Dims& shape) {
  for (const TensorView& input : inputs) {
    if (input.shape != shape) continue;
    if (const auto order = order_of(input)) return order;
  }
  return std::nullopt;
}

// The operands that a chain's convolutions read as they are: images and filters, by position.
std::vector<ConvolutionOperands> convolutions_of(const Epilogue& tail) {
  std::vector<ConvolutionOperands> found;
  const Chain chain = chain_of(tail);
  const auto position = [&](int value) -> std::optional<std::size_t> {
    const ChainValue& read = chain.values[static_cast<std::size_t>(value)];
    if (read.op != "input") return std::nullopt;
    return static_cast<std::size_t>(std::ranges::find(tail.inputs(), read.name) - tail.inputs().begin());
  };
  for (const ChainValue& value : chain.values) {
    if (value.op == "conv2d") found.push_back({position(value.arguments[0]), position(value.arguments[1])});
  }
  return found;
}

// A broadcast without the checks: the launch makes them.
std::optional<Dims> broadcast(const std::vector<TensorView>& inputs) {
  Dims shape;
  for (const TensorView& input : inputs) {
    if (input.shape.size() > shape.size()) shape = input.shape;
  }
  for (const TensorView& input : inputs) {
    const int shift = shape.size() - input.shape.size();
    for (int i = 0; i < input.shape.size(); ++i) {
      std::int64_t& extent = shape[shift + i];
      if (extent == input.shape[i] || input.shape[i] == 1) continue;
      if (extent != 1) return std::nullopt;
      extent = input.shape[i];
    }
  }
  return shape;
}

// One result as it is, several as a tuple.
nb::object results_of(const std::vector<nb::object>& made) {
  if (made.size() == 1) return made[0];
  nb::list list;
  for (const nb::object& result : made) list.append(result);
  return nb::tuple(list);
}

// Asked where a call is not known: known calls have looked for gradients themselves.
bool records_gradients(std::span<const nb::handle> inputs) {
  std::optional<bool> on;  // asked once, and only of PyTorch's tensors
  return std::ranges::any_of(inputs, [&](nb::handle one) {
    if (array_type(one).family != Family::torch) return false;
    if (!on) on = gradients_are_on();
    return *on && requires_gradient(one);
  });
}

nb::object autograd(const char* function) { return nb::module_::import_("epifuse._autograd").attr(function); }

[[noreturn]] void refuse_to_overwrite(const std::string& who) {
  throw nb::value_error(("out for the " + who +
                         " requires grad, and no operand does: its gradient would be lost; write it under "
                         "torch.no_grad() or pass .detach()")
                            .c_str());
}

[[noreturn]] void refuse_tangent(const std::string& who) {
  throw nb::value_error((who + " has a forward-mode tangent, and EpiFuse has no derivatives: pass "
                               "torch.autograd.forward_ad.unpack_dual(…).primal; torch.compile(backend=\"epifuse\") "
                               "falls back to PyTorch where tangents are taken")
                            .c_str());
}

// Python's integers have no bound, and its lists no length.
Dims dims_of(const char* what, nb::handle list) {
  std::vector<std::int64_t> values;
  const bool fits = nb::try_cast(list, values);
  if (!fits || values.size() > static_cast<std::size_t>(kMaxRank)) {
    throw nb::value_error((std::string(what) + " " + nb::cast<std::string>(nb::str(list)) + ": expected at most " +
                           std::to_string(kMaxRank) + " integers of 64 bits")
                              .c_str());
  }
  return Dims(std::span<const std::int64_t>(values));
}

TensorView view_of_spec(const nb::tuple& spec) {
  TensorView view(nullptr, dtype_of_text(nb::cast<std::string>(spec[0])), dims_of("the shape", spec[1]));
  if (!spec[2].is_none()) view.strides = dims_of("the strides", spec[2]);
  return view;
}

// Without a statement of the order that the operands have by their first use.
std::string without_statement(const std::string& text, const std::vector<std::string>& order) {
  if (!text.starts_with("input ")) return text;
  std::string rest = text.substr(text.find("; ") + 2);
  try {
    return Epilogue::parse(rest).inputs() == order ? rest : text;
  } catch (const Error&) {
    return text;
  }
}

double number(const std::string& who, nb::handle object) {
  if (PyFloat_Check(object.ptr())) return PyFloat_AsDouble(object.ptr());
  const bool array = array_type(object).family != Family::none;
  if (!array && nb::hasattr(object, "__float__")) {
    const double value = PyFloat_AsDouble(object.ptr());
    if (value == -1.0 && PyErr_Occurred() != nullptr) throw nb::python_error();
    return value;
  }
  if (!array && PyIndex_Check(object.ptr()) != 0) return static_cast<double>(nb::cast<std::int64_t>(object));
  throw nb::type_error(
      (who + " takes a number, found " + name_of_type(object) + ": the chain declares it a run-time scalar").c_str());
}

}  // namespace

Launcher::Launcher(const std::string& text, const std::vector<std::string>& scalars,
                   const std::vector<std::optional<std::string>>& dtypes,
                   const std::vector<std::optional<std::vector<std::int64_t>>>& orders)
    : Launcher(Epilogue::parse(text, scalars), dtypes, orders) {}

// What is bound is in the tail's order from there on.
Launcher::Launcher(const Epilogue& written, const std::vector<std::optional<std::string>>& dtypes,
                   const std::vector<std::optional<std::vector<std::int64_t>>>& orders)
    : tail_(written.inputs(written.inputs())),
      stated_text_(written.str()),
      text_(without_statement(stated_text_, tail_.inputs())),
      is_ordered_(written.takes_inputs_by_position()),
      parameters_(tail_.inputs()),
      result_names_(tail_.results()),
      specs_(result_names_.size()),
      elementwise_(tail_.is_elementwise()),
      convolutions_(elementwise_ ? std::vector<ConvolutionOperands>() : convolutions_of(tail_)) {
  for (const std::string& name : tail_.inputs()) who_.push_back("operand '" + name + "'");
  for (const std::string& name : tail_.scalars()) who_.push_back("scalar '" + name + "'");
  parameters_.insert(parameters_.end(), tail_.scalars().begin(), tail_.scalars().end());
  for (std::size_t i = 0; i < std::min(dtypes.size(), specs_.size()); ++i) {
    if (dtypes[i]) specs_[i] = with_dtype(specs_[i], *dtypes[i]);
  }
  for (std::size_t i = 0; i < std::min(orders.size(), specs_.size()); ++i) {
    if (orders[i]) specs_[i].order = Dims(*orders[i]);
  }
}

std::vector<std::optional<std::string>> Launcher::dtypes() const {
  std::vector<std::optional<std::string>> names;
  for (const ResultSpec& spec : specs_) {
    if (spec.computed) {
      names.emplace_back("compute");
    } else {
      names.push_back(spec.dtype ? std::optional(std::string(to_string(*spec.dtype))) : std::nullopt);
    }
  }
  return names;
}

std::optional<std::string> Launcher::unordered() const {
  if (is_ordered_) return std::nullopt;
  std::string by_name;
  for (const std::string& name : tail_.inputs()) by_name += (by_name.empty() ? "" : ", ") + name + "=…";
  return "operands are given by position, but nothing states the order of this chain's (" + joined(tail_.inputs()) +
         "): pass them by name, tail(" + by_name + ") (one may stay without), or state it in the text: 'input " +
         joined(tail_.inputs()) + "; …'";
}

void Launcher::refuse_count(std::size_t given) const {
  throw nb::type_error(("the chain takes " + counted(parameters_.size(), "argument") + " (" + joined(parameters_) +
                        "), but " + std::to_string(given) + " were given")
                           .c_str());
}

void Launcher::check_whole(const Slots& slots) const {
  for (std::size_t i = 0; i < slots.size(); ++i) {
    if (!slots[i].is_valid())
      throw nb::type_error((who_[i] + " is missing; the chain takes: " + joined(parameters_)).c_str());
  }
}

Launcher::Slots Launcher::in_order(const nb::args& arguments) const {
  if (arguments.size() > parameters_.size()) refuse_count(arguments.size());
  Slots slots(parameters_.size());
  for (std::size_t i = 0; i < arguments.size(); ++i) slots[i] = arguments[i];
  check_whole(slots);
  return slots;
}

Launcher::Slots Launcher::bind(const nb::args& arguments, const nb::dict& named) const {
  Slots slots(parameters_.size());
  for (const auto [key, value] : named) {
    const auto name = nb::cast<std::string>(key);
    const auto it = std::ranges::find(parameters_, name);
    if (it == parameters_.end())
      throw nb::type_error(("the chain has no operand '" + name + "'; it has: " + joined(parameters_)).c_str());
    slots[static_cast<std::size_t>(it - parameters_.begin())] = value;
  }
  const auto operands = std::span(slots).first(tail_.inputs().size());
  const auto is_free = [](nb::handle slot) { return !slot.is_valid(); };
  if (!is_ordered_ && arguments.size() > 0 && std::ranges::count_if(operands, is_free) > 1)
    throw nb::type_error(unordered()->c_str());
  std::size_t place = 0;
  for (std::size_t i = 0; i < arguments.size(); ++i) {
    while (!is_ordered_ && place < slots.size() && slots[place].is_valid()) ++place;
    if (place == slots.size()) refuse_count(arguments.size() + named.size());
    if (slots[place].is_valid()) throw nb::type_error((who_[place] + " is given twice").c_str());
    slots[place++] = arguments[i];
  }
  check_whole(slots);
  return slots;
}

std::vector<ResultSpec> Launcher::specs_with(const nb::object& dtypes) const {
  std::vector<ResultSpec> specs = specs_;
  if (dtypes.is_none()) return specs;
  const auto names = nb::cast<std::vector<std::optional<std::string>>>(dtypes);
  if (names.size() != specs.size()) {
    throw nb::value_error(("dtype gives " + counted(names.size(), "type") + ", but the chain has " +
                           counted(specs.size(), "result") + " (" + joined(result_names_) + ")")
                              .c_str());
  }
  for (std::size_t i = 0; i < names.size(); ++i) {
    if (names[i]) specs[i] = with_dtype(specs[i], *names[i]);
  }
  return specs;
}

std::vector<DType> Launcher::types_of(const std::vector<TensorView>& inputs,
                                      const std::vector<ResultSpec>& specs) const {
  std::vector<DType> types = tail_.result_types(inputs);
  for (std::size_t i = 0; i < specs.size(); ++i) types[i] = specs[i].dtype.value_or(types[i]);
  if (std::ranges::none_of(specs, &ResultSpec::computed)) return types;
  const DType computed = tail_.compute_type(inputs, types);
  for (std::size_t i = 0; i < specs.size(); ++i) {
    if (specs[i].computed && is_floating(types[i])) types[i] = computed;
  }
  return types;
}

std::pair<std::string, std::vector<int>> Launcher::subchain(const std::vector<int>& writes,
                                                            const std::vector<int>& known, bool in_f64) const {
  Subchain found = subchain_of(tail_, writes, known, {in_f64});
  return {found.epilogue.str(), std::move(found.reads)};
}

std::string Launcher::compute_type(const std::vector<std::pair<std::string, std::vector<std::int64_t>>>& operands,
                                   const std::vector<std::string>& results) const {
  std::vector<TensorView> inputs;
  for (const auto& [dtype, shape] : operands)
    inputs.emplace_back(nullptr, dtype_of_text(dtype), Dims(std::span<const std::int64_t>(shape)));
  std::vector<DType> types;
  for (const std::string& dtype : results) types.push_back(dtype_of_text(dtype));
  return std::string(to_string(tail_.compute_type(inputs, types)));
}

std::vector<std::string> Launcher::result_types(const std::vector<std::string>& dtypes,
                                                const std::vector<int>& ranks) const {
  std::vector<TensorView> inputs;
  for (std::size_t i = 0; i < std::min(dtypes.size(), ranks.size()); ++i) {
    const std::vector<std::int64_t> ones(static_cast<std::size_t>(ranks[i]), 1);
    inputs.emplace_back(nullptr, dtype_of_text(dtypes[i]), Dims(std::span<const std::int64_t>(ones)));
  }
  std::vector<std::string> names;
  for (const DType type : types_of(inputs, specs_)) names.emplace_back(to_string(type));
  return names;
}

std::vector<Dims> Launcher::result_shapes(const std::vector<TensorView>& inputs) const {
  if (elementwise_ && !inputs.empty()) {
    if (const auto shape = broadcast(inputs)) return std::vector<Dims>(specs_.size(), *shape);
  }
  return tail_.result_shapes(inputs);
}

// As in PyTorch a convolution is channels-last where its images or its filters are, and so is the tail behind it.
Dims Launcher::order_of_result(const std::vector<TensorView>& inputs, const Dims& shape) const {
  if (const auto order = order_like(inputs, shape)) return *order;
  const Dims channels_last = {0, 2, 3, 1};
  const auto gives = [&](std::optional<std::size_t> operand, int extent) {
    return operand && inputs[*operand].shape.size() == 4 && inputs[*operand].shape[0] == shape[extent] &&
           order_of(inputs[*operand]) == channels_last;
  };
  for (const auto& [images, filters] : convolutions_) {
    if (shape.size() == 4 && (gives(images, 0) || gives(filters, 1))) return channels_last;
  }
  return identity(shape.size());
}

nb::object Launcher::repeat(const Slots& slots, const nb::object& out) const {
  Launch launch;
  const std::size_t input_count = tail_.inputs().size();
  const std::array<nb::handle, 1> one = {out};
  const std::span<const nb::handle> given(one.data(), out.is_none() ? 0U : 1U);
  for (std::size_t k = 0; k < KnownCalls::kMost; ++k) {
    const std::shared_ptr<const KnownCall> call = known_.at(k);
    if (call == nullptr || !call->matches(std::span(slots).first(input_count), given, launch)) continue;
    for (std::size_t i = input_count; i < slots.size(); ++i) launch.scalars.push_back(number(who_[i], slots[i]));
    std::vector<nb::object> made;
    if (given.empty() && !call->allocate(launch, made)) return {};
    {
      const nb::gil_scoped_release release;
      launch.engine->launch(tail_, launch.stream, launch.outputs, launch.inputs, launch.scalars);
    }
    if (given.empty()) return results_of(made);
    tell_of_write(out);
    return out;
  }
  return {};
}

nb::object Launcher::execute(const Slots& slots, const nb::object& out, const nb::object& dtypes,
                             Purpose purpose) const {
  if (purpose == Purpose::launch && dtypes.is_none()) {
    if (nb::object result = repeat(slots, out); result.is_valid()) return result;
  }
  const std::size_t input_count = tail_.inputs().size();
  if (records_gradients(std::span(slots).first(input_count)))
    return autograd(purpose == Purpose::launch ? "recorded" : "prepare")(nb::find(this), nb::cast(slots), out, dtypes);
  Arrays arrays;
  std::vector<TensorView> inputs;
  std::vector<double> scalars;
  inputs.reserve(input_count);
  std::vector<Operand> operands, targets;
  operands.reserve(input_count);
  std::optional<Operand> leader;
  std::optional<bool> gradients;  // asked once, and only of PyTorch's tensors
  long tangents = -1;
  const auto take = [&](const std::string& who, nb::handle object) {
    const Operand operand = arrays.read(who, object);
    if (operand.family == Family::torch) {
      if (!gradients) {
        gradients = gradients_are_on();
        tangents = forward_mode_level();
      }
      if (*gradients && requires_gradient(operand.object)) refuse_to_overwrite(who);
      if (tangents >= 0 && has_tangent(operand.object, tangents)) refuse_tangent(who);
    }
    if (!leader) {
      leader = operand;
    } else if (operand.device != leader->device) {
      throw nb::value_error((who + " lies on " + to_string(operand.device) + ", but the first array on " +
                             to_string(leader->device) + ": copy it there")
                                .c_str());
    }
    return operand;
  };

  for (std::size_t i = 0; i < input_count; ++i) {
    operands.push_back(take(who_[i], slots[i]));
    inputs.push_back(operands.back().view);
  }
  for (std::size_t i = input_count; i < slots.size(); ++i) scalars.push_back(number(who_[i], slots[i]));

  std::vector<OutputView> outputs;
  std::vector<NewArray> made;
  nb::object given;
  outputs.reserve(specs_.size());
  if (!out.is_none()) {
    given = array_type(out).family == Family::none ? nb::object(nb::tuple(out)) : nb::object(nb::make_tuple(out));
    const auto arrays_given = nb::cast<nb::tuple>(given);
    if (arrays_given.size() != specs_.size()) {
      throw nb::value_error(("out has " + counted(arrays_given.size(), "array") + ", but the chain has " +
                             counted(specs_.size(), "result") + " (" + joined(result_names_) + ")")
                                .c_str());
    }
    for (std::size_t i = 0; i < specs_.size(); ++i) {
      const Operand target = take("result '" + result_names_[i] + "'", arrays_given[i]);
      if (target.family == Family::jax)
        throw nb::type_error("out is a JAX array, and these cannot be written: leave out= away");
      if (target.negated) {
        throw nb::value_error(
            ("out for the result '" + result_names_[i] +
             "' has PyTorch's negative bit (it stands for the negative of its memory, as z.conj().imag "
             "does): pass a tensor without it, such as torch.empty_like(out)")
                .c_str());
      }
      if (!target.writable)
        throw nb::value_error(("out for the result '" + result_names_[i] + "' is read-only").c_str());
      outputs.push_back(target.view);
      targets.push_back(target);
    }
  } else {
    if (!leader)
      throw nb::value_error("the chain has no tensor operands, so that nothing says what its results are: pass out=");
    const std::vector<Dims> shapes = result_shapes(inputs);
    const std::vector<ResultSpec> specs = specs_with(dtypes);
    const std::vector<DType> types = types_of(inputs, specs);
    made.reserve(specs_.size());
    for (std::size_t i = 0; i < specs_.size(); ++i) {
      const bool fixed = specs[i].order && specs[i].order->size() == shapes[i].size();
      const NewArray& array =
          made.emplace_back(*leader, types[i], shapes[i], fixed ? *specs[i].order : order_of_result(inputs, shapes[i]));
      outputs.push_back(array.view);
    }
  }

  Engine* engine_used = nullptr;
  {
    const nb::gil_scoped_release release;
    Engine& engine = engine_for(leader->device);
    engine_used = &engine;
    if (purpose == Purpose::prepare) {
      engine.prepare(tail_, outputs, inputs);
    } else {
      for (const Stream other : arrays.awaited()) engine.synchronize(other);
      engine.launch(tail_, arrays.stream(), outputs, inputs, scalars);
      if (arrays.must_wait()) engine.synchronize(arrays.stream());
    }
  }
  if (purpose == Purpose::prepare) return nb::none();
  for (const Operand& target : targets) {
    if (target.family == Family::torch) tell_of_write(target.object);
  }
  if (dtypes.is_none() && (out.is_none() || array_type(out).family != Family::none) &&
      KnownCall::can_be(operands, targets) &&
      std::ranges::none_of(outputs, [](const OutputView& view) { return is_packed(view.dtype); }))
    known_.remember(std::make_shared<const KnownCall>(*engine_used, operands, targets, outputs));
  if (given.is_valid()) return specs_.size() == 1 ? nb::object(nb::cast<nb::tuple>(given)[0]) : given;
  std::vector<nb::object> results;
  for (const NewArray& array : made) results.push_back(array.object);
  return results_of(results);
}

nb::object Launcher::call(const nb::args& arguments, const nb::dict& named, const nb::object& out,
                          const nb::object& dtypes) const {
  return launched(bind(arguments, named), out, dtypes);
}

nb::object Launcher::launch(const nb::args& arguments, const nb::object& out, const nb::object& dtypes) const {
  return launched(in_order(arguments), out, dtypes);
}

nb::object Launcher::launched(const Slots& slots, const nb::object& out, const nb::object& dtypes) const {
  for (const nb::handle slot : slots) {
    if (array_type(slot).family != Family::torch_subclass) continue;
    // A tracer's tensor, or one with rules of its own: PyTorch's dispatcher decides.
    return nb::module_::import_("epifuse._torch_ops").attr("dispatch")(nb::find(this), nb::cast(slots), out, dtypes);
  }
  return execute(slots, out, dtypes, Purpose::launch);
}

nb::object Launcher::run(const nb::args& arguments) const {
  return execute(in_order(arguments), nb::none(), nb::none(), Purpose::launch);
}

void Launcher::prepare(const nb::args& arguments, const nb::dict& named, const nb::object& out,
                       const nb::object& dtypes) const {
  execute(bind(arguments, named), out, dtypes, Purpose::prepare);
}

Inspection Launcher::inspect(const nb::list& arguments, const nb::object& dtypes, const PlanTarget& target) const {
  std::vector<TensorView> inputs;
  Arrays arrays;
  for (std::size_t i = 0; i < arguments.size(); ++i) {
    const nb::handle argument = arguments[i];
    const std::string& who = who_[std::min(i, who_.size() - 1)];
    TensorView view = nb::isinstance<nb::tuple>(argument) ? view_of_spec(nb::cast<nb::tuple>(argument))
                                                          : arrays.read(who, argument).view;
    view.data = nullptr;
    inputs.push_back(view);
  }
  const std::vector<ResultSpec> specs = specs_with(dtypes);
  const std::vector<Dims> shapes = tail_.result_shapes(inputs);
  const std::vector<DType> types = types_of(inputs, specs);
  const std::vector<std::string> destinations = tail_.destinations();
  std::vector<OutputView> outputs;
  for (std::size_t i = 0; i < specs.size(); ++i) {
    if (!destinations[i].empty()) {
      const auto at = std::ranges::find(tail_.inputs(), destinations[i]) - tail_.inputs().begin();
      const TensorView& destination = inputs[static_cast<std::size_t>(at)];
      outputs.emplace_back(nullptr, destination.dtype, destination.shape, destination.strides);
      continue;
    }
    const bool fixed = specs[i].order && specs[i].order->size() == shapes[i].size();
    const Dims order = fixed ? *specs[i].order : order_of_result(inputs, shapes[i]);
    Dims dense, strides = shapes[i];
    for (const std::int64_t dimension : order) dense.push_back(shapes[i][static_cast<int>(dimension)]);
    const Dims steps = row_major(dense);
    for (int k = 0; k < order.size(); ++k) strides[static_cast<int>(order[k])] = steps[k];
    outputs.emplace_back(nullptr, types[i], shapes[i], strides);
  }
  const nb::gil_scoped_release release;
  return {tail_, outputs, inputs, target};
}

}  // namespace epifuse::python
