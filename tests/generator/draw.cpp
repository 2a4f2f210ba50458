// Draws calls by their signatures. Nothing here knows which chains are usual: what does not fit is drawn again.
#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <limits>
#include <numeric>
#include <string_view>

#include <epifuse/error.hpp>

#include "generator/draw.hpp"
#include "generator/meaning.hpp"
#include "ir/functions.hpp"
#include "support/random_case.hpp"
#include "support/shapes.hpp"

namespace epifuse::test {
namespace {

using ir::ArgumentType;

constexpr int kMostInputs = 7;
constexpr int kTries = 40;  // of one call
constexpr double kInf = std::numeric_limits<double>::infinity();
constexpr std::array<std::string_view, 3> kTies = {"share", "first", "pool"};  // no value depends on them

std::int64_t most_elements_of_a_value(Size size) {
  if (size == Size::small) return 3000;
  return size == Size::medium ? 60'000 : std::int64_t{1} << 31;
}

std::string text_of(double value) {
  if (std::isnan(value)) return "nan";
  if (std::isinf(value)) return value > 0 ? "inf" : "-inf";
  char text[64];
  return {text, std::to_chars(text, text + sizeof text, value).ptr};
}

// All listed functions and cast, and their groups: half of the calls are drawn from a group, so that small groups are
// not rare.
struct Tables {
  std::vector<const ir::Function*> functions;
  std::vector<std::vector<const ir::Function*>> groups;

  Tables() {
    std::map<std::string_view, std::vector<const ir::Function*>> by_group;
    for (const ir::Function& function : ir::function_table()) {
      if (!is_drawn(function.name)) continue;
      if (ir::find_function(function.name) != &function) continue;  // the first of a name is what is called
      functions.push_back(&function);
      by_group[function.group].push_back(&function);
    }
    for (auto& [name, list] : by_group) groups.push_back(list);
  }
};

const Tables& tables() {
  static const Tables all;
  return all;
}

struct Value {
  int step = 0;
  bool truth = false;
};

class Drawer {
 public:
  Drawer(Random& random, Size size) : random_(random), size_(size), frame_(draw_frame(random, size)) { draw_habits(); }

  Program draw() {
    last_ = new_operand(frame_);
    if (size_ == Size::chain) {
      repeat_call();
    } else {
      const int calls = random_.percent(70)   ? random_.between(1, 7)
                        : random_.percent(85) ? random_.between(8, 24)
                                              : random_.between(25, 60);
      for (int i = 0; i < calls; ++i) call();
    }
    draw_results();
    return finished();
  }

 private:
  // What this program uses more than others do: functions that rarely meet, axes that agree, one kind of argument.
  // (Groce et al., Swarm Testing, 2012: programs that leave things out find what those that have everything do not.)
  void draw_habits() {
    const int favourites = random_.percent(60) ? random_.between(1, 5) : 0;
    const auto& groups = tables().groups;
    const std::array pair = {&random_.pick(std::span(groups)), &random_.pick(std::span(groups))};
    const bool of_pair = random_.percent(50);
    for (int i = 0; i < favourites; ++i) {
      const auto& group = *pair[static_cast<std::size_t>(i % 2)];
      favourites_.push_back(of_pair ? random_.pick(std::span<const ir::Function* const>(group)) : &any_function());
    }
    if (is_empty() && random_.percent(50)) prefer_shapes();
    for (int& weight : kinds_) weight = random_.pick({0, 1, 1, 4});
    if (std::ranges::all_of(kinds_, [](int weight) { return weight == 0; })) kinds_.fill(1);
    if (random_.percent(60)) habitual_axes_ = {draw_axes(frame_.size()), draw_axes(frame_.size())};
  }

  bool is_empty() const { return std::ranges::find(frame_, 0) != frame_.end(); }

  // Where there are no elements all is shapes and what reductions make of nothing.
  void prefer_shapes() {
    favourites_.clear();
    for (const ir::Function* function : tables().functions) {
      if (function->group == "shape") favourites_.push_back(function);
    }
    for (int i = 0; i < 2; ++i)
      favourites_.push_back(ir::find_function(random_.pick({"sum", "mean", "prod", "any", "var"})));
  }

  const ir::Function& any_function() {
    const Tables& all = tables();
    const auto& list = random_.percent(50) ? all.functions : random_.pick(std::span(all.groups));
    return *random_.pick(std::span<const ir::Function* const>(list));
  }

  // ---- values

  Value add(int step, bool truth) {
    pool_.push_back({step, truth});
    return pool_.back();
  }

  Value new_operand(const Dims& shape) {
    const DType type = draw_any_type(random_);
    types_.push_back(type);
    input_shapes_.push_back(shape);
    return add(chain_.input(static_cast<int>(types_.size()) - 1), type == DType::boolean);
  }

  // Any kind of argument, one as likely as the next but for the program's habits.
  Value any_value() {
    const bool full = static_cast<int>(types_.size()) >= kMostInputs;
    int left = random_.below(std::accumulate(kinds_.begin(), kinds_.end(), 0));
    int kind = 0;
    while (left >= kinds_[static_cast<std::size_t>(kind)]) left -= kinds_[static_cast<std::size_t>(kind++)];
    switch (kind) {
      case 0:
        if (!full) return new_operand(draw_operand_shape(random_, frame_));
        break;
      case 1:
        if (!full) return new_operand(random_.percent(50) ? Dims() : Dims{1});
        break;
      case 2:
        if (!full) return new_operand(shapes_.empty() ? frame_ : random_.pick(std::span<const Dims>(shapes_)));
        break;
      case 3:
        return add(chain_.scalar(chain_.scalars < 2 ? chain_.scalars : random_.below(2)), false);
      case 4:
        return add(chain_.constant(draw_constant(random_)), false);
      default:
        break;
    }
    return random_.pick(std::span<const Value>(pool_));
  }

  const Dims& shape_of(int step) const { return shapes_[static_cast<std::size_t>(step)]; }
  void infer() { shapes_ = infer_shapes(chain_, input_shapes_); }

  // ---- arguments

  int draw_dimension(int rank) { return rank == 0 ? 0 : random_.between(-rank, rank - 1); }

  AxisList draw_axes(int rank) {
    AxisList axes;
    if (rank == 0 || random_.percent(15)) return axes;
    if (random_.percent(20)) {  // from one dimension on
      axes.at = {draw_dimension(rank)};
      axes.rest = true;
      return axes;
    }
    for (int d = 0; d < rank; ++d) {
      if (random_.percent(rank == 1 ? 100 : 45)) axes.at.push_back(random_.percent(30) ? d - rank : d);
    }
    if (axes.at.empty()) axes.at.push_back(draw_dimension(rank));
    if (random_.percent(20)) std::ranges::reverse(axes.at);
    return axes;
  }

  std::array<std::int64_t, 2> draw_sizes(const Dims& shape, int dimension) {
    const int rank = shape.size();
    if (rank == 0) return {1, 1};
    const std::int64_t extent = shape[dimension < 0 ? dimension + rank : dimension];
    std::vector<std::int64_t> divisors;
    for (std::int64_t d = 1; d <= std::min<std::int64_t>(extent, 64); ++d) {
      if (extent % d == 0) divisors.push_back(d);
    }
    if (extent == 0) divisors = {1, 2, 3, 8};
    std::int64_t one = random_.pick(std::span<const std::int64_t>(divisors));
    std::int64_t other = extent / one;
    if (extent == 0) other = -1;  // sizes are positive
    if (extent != 0 && random_.percent(40)) (random_.percent(50) ? one : other) = -1;
    if (random_.percent(50)) std::swap(one, other);
    return {one, other};
  }

  double draw_number(std::string_view name) {
    if (name == "p") return random_.pick({2.0, 1.0, 0.0, 3.0, 0.5, -1.0, kInf, -kInf});
    if (name == "correction") return random_.pick({1.0, 0.0, 2.0, 0.5});
    return random_.pick({1e-5, 1e-12, 0.0, 1.0});  // eps
  }

  // A weight or bias: of the channels, or what broadcasts from behind.
  Value draw_affine(const Dims& shape, bool channels) {
    if (random_.percent(25) || static_cast<int>(types_.size()) >= kMostInputs) return any_value();
    if (channels && shape.size() > 1) return new_operand(Dims{random_.percent(85) ? shape[1] : 1});
    return new_operand(draw_operand_shape(random_, shape));
  }

  CallArgument draw_default(const ir::FunctionParameter& parameter) {
    CallArgument argument;
    const std::string_view text = *parameter.default_text;
    const auto number = [&] {
      if (text == "inf") return kInf;
      if (text == "-inf") return -kInf;
      double value = 0;
      std::from_chars(text.data(), text.data() + text.size(), value);
      return value;
    };
    if (parameter.type == ArgumentType::value) argument.value = chain_.constant(number());
    if (parameter.type == ArgumentType::flag) argument.number = text == "true" ? 1 : 0;
    if (parameter.type == ArgumentType::number || parameter.type == ArgumentType::integer) argument.number = number();
    if (parameter.type == ArgumentType::axes && text != "none") argument.axes.at = {static_cast<int>(number())};
    if (parameter.type == ArgumentType::word) argument.word = text.substr(1, text.size() - 2);
    return argument;
  }

  CallArgument draw_argument(const ir::Function& function, std::size_t position,
                             const std::vector<CallArgument>& before) {
    const ir::FunctionParameter& parameter = function.parameters[position];
    CallArgument argument;
    const Dims shape = position == 0 ? Dims() : shape_of(before[0].value);
    switch (parameter.type) {
      case ArgumentType::value:
        argument.value = (position == 0 && random_.percent(70) ? last_ : any_value()).step;
        infer();
        break;
      case ArgumentType::optional_value:
        if (random_.percent(70))
          argument.value = draw_affine(shape, function.name != "layer_norm" && function.name != "rms_norm").step;
        infer();
        break;
      case ArgumentType::number:
        argument.number = draw_number(parameter.name);
        break;
      case ArgumentType::integer:
        argument.number =
            parameter.name == "groups" ? draw_groups(shape) : draw_dimension(dimensions(function, before));
        break;
      case ArgumentType::axes:
        argument.axes = !habitual_axes_.empty() && shape.size() == frame_.size() && random_.percent(80)
                            ? random_.pick(std::span<const AxisList>(habitual_axes_))
                            : draw_axes(shape.size());
        break;
      case ArgumentType::flag:
        argument.number = random_.below(2);
        break;
      case ArgumentType::sizes:
        argument.sizes = draw_sizes(shape, static_cast<int>(before[1].number));
        break;
      case ArgumentType::dtype:
        argument.dtype = draw_any_type(random_);
        break;
      case ArgumentType::word:
        argument.word = parameter.name == "ties" ? random_.pick(std::span<const std::string_view>(kTies))
                        : random_.percent(50)    ? "tanh"
                                                 : "none";
        break;
      case ArgumentType::seed:
      case ArgumentType::list:
      case ArgumentType::kept_list:
      case ArgumentType::values:
        break;  // of functions that are not drawn
    }
    return argument;
  }

  // Of the value that a dimension of this call is of: the last value before it.
  int dimensions(const ir::Function& function, const std::vector<CallArgument>& before) const {
    int rank = 0;
    for (std::size_t i = 0; i < before.size(); ++i) {
      if (function.parameters[i].type == ArgumentType::value) rank = shape_of(before[i].value).size();
    }
    return rank;
  }

  double draw_groups(const Dims& shape) {
    const std::int64_t channels = shape.size() > 1 ? shape[1] : 1;
    std::vector<std::int64_t> divisors;
    for (std::int64_t d = 1; d <= std::min<std::int64_t>(std::max<std::int64_t>(channels, 1), 64); ++d) {
      if (channels % d == 0) divisors.push_back(d);
    }
    return static_cast<double>(random_.pick(std::span<const std::int64_t>(divisors)));
  }

  // ---- calls

  void call() {
    for (int attempt = 0; attempt < kTries; ++attempt) {
      if (!history_.empty() && random_.percent(15)) {
        // The same of the same once more, over other axes, in other sizes.
        const auto& [function, value] =
            history_[static_cast<std::size_t>(random_.below(static_cast<int>(history_.size())))];
        last_ = value;
        if (try_call(*function)) return;
        continue;
      }
      const bool usual = !favourites_.empty() && random_.percent(70);
      if (try_call(usual ? *random_.pick(std::span<const ir::Function* const>(favourites_)) : any_function())) return;
    }
  }

  // Leaves everything as it was where the call does not fit.
  bool try_call(const ir::Function& function) {
    const Chain chain = chain_;
    const auto pool = pool_.size();
    const auto inputs = types_.size();
    const Value last = last_;
    const auto calls = history_.size();
    try {
      infer();
      append(function);
      infer();
      const std::int64_t most = most_elements_of_a_value(size_);
      if (std::ranges::all_of(shapes_, [&](const Dims& shape) { return elements_of(shape) <= most; })) return true;
    } catch (const ShapeError&) {
    } catch (const Error&) {  // more than eight dimensions
    }
    chain_ = chain;
    pool_.resize(pool);
    types_.resize(inputs);
    history_.resize(calls);
    input_shapes_.resize(inputs);
    std::erase_if(calls_, [&](const auto& entry) { return entry.first >= static_cast<int>(chain_.steps.size()); });
    last_ = last;
    return false;
  }

  void append(const ir::Function& function) {
    std::vector<CallArgument> arguments;
    CallText text{{std::string(function.name) + "("}, {}};
    bool by_keyword = false;
    for (std::size_t i = 0; i < function.parameters.size(); ++i) {
      const ir::FunctionParameter& parameter = function.parameters[i];
      if (parameter.default_text && random_.percent(40)) {
        arguments.push_back(draw_default(parameter));
        by_keyword = true;
        continue;
      }
      arguments.push_back(draw_argument(function, i, arguments));
      by_keyword = by_keyword || parameter.keyword_only || random_.percent(20);
      if (text.pieces.back().back() != '(') text.pieces.back() += ", ";
      if (by_keyword) text.pieces.back() += std::string(parameter.name) + "=";
      write(parameter.type, arguments.back(), text);
    }
    text.pieces.back() += ")";
    if (refuses_truth(function, arguments)) throw ShapeError("a truth value");
    const int step = append_call(chain_, function.name, arguments);
    if (!is_one_step(function.name)) calls_[step] = text;
    history_.emplace_back(&function, last_);
    last_ = add(step, gives_truth(function, arguments));
  }

  static void write(ArgumentType type, const CallArgument& argument, CallText& text) {
    std::string& end = text.pieces.back();
    switch (type) {
      case ArgumentType::value:
      case ArgumentType::optional_value:
        if (argument.value < 0) {
          end += "none";
        } else {
          text.steps.push_back(argument.value);
          text.pieces.emplace_back();
        }
        return;
      case ArgumentType::number:
      case ArgumentType::integer:
        end += text_of(argument.number);
        return;
      case ArgumentType::flag:
        end += argument.number != 0 ? "true" : "false";
        return;
      case ArgumentType::axes:
        end += axes_text(argument.axes);
        return;
      default:
        return;  // of functions that are one step, which the chain itself writes
    }
  }

  static std::string axes_text(const AxisList& axes) {
    if (axes.at.empty()) return "none";
    std::string list;
    for (const int axis : axes.at) list += (list.empty() ? "" : ", ") + std::to_string(axis);
    if (axes.rest) return "(" + list + ", ...)";
    return axes.at.size() == 1 ? list : "(" + list + ")";
  }

  bool is_truth(int step) const {
    return std::ranges::any_of(pool_, [&](const Value& value) { return value.step == step && value.truth; });
  }

  // Rounding or negating a truth value is a mistake that the library refuses.
  bool refuses_truth(const ir::Function& function, const std::vector<CallArgument>& arguments) const {
    const auto row = std::ranges::find(definitions(), function.name, &Definition::name);
    return row != definitions().end() && row->kinds[0] == 'n' && is_truth(arguments[0].value);
  }

  bool gives_truth(const ir::Function& function, const std::vector<CallArgument>& arguments) const {
    if (function.name == "any" || function.name == "all") return true;
    if (function.name == "cast") return arguments[1].dtype == DType::boolean;
    if (function.name == "flatten" || function.name == "unflatten" || function.name == "along")
      return is_truth(arguments[0].value);
    const auto row = std::ranges::find(definitions(), function.name, &Definition::name);
    if (row == definitions().end()) return false;
    // `b * 1` of a truth value b simplifies to b.
    const bool passes = std::ranges::any_of(arguments, [&](const CallArgument& a) { return is_truth(a.value); });
    return row->truth || (row->arity > 1 && passes);
  }

  // One statistic again and again, each of what the one before gave.
  void repeat_call() {
    static constexpr std::string_view kCalls[] = {"sum", "mean", "amax", "var", "softmax", "log_softmax", "rms_norm"};
    const std::string_view function = random_.pick(std::span<const std::string_view>(kCalls));
    const std::string_view combined = random_.pick({"add", "mul", "sub", "maximum"});
    const bool composite = function == "softmax" || function == "log_softmax" || function == "rms_norm";
    const int times = composite ? random_.between(50, 300) : random_.between(200, 1200);
    const AxisList axes{{-1}};
    int value = last_.step;
    for (int i = 0; i < times; ++i) {
      std::vector<CallArgument> arguments(1, {.value = value});
      if (function == "rms_norm") arguments.insert(arguments.end(), {{.value = -1}, {.number = 1e-5}});
      arguments.push_back({.axes = axes});
      if (function == "var") arguments.push_back({.number = 1});
      if (!composite) arguments.push_back({.number = 1});
      value = chain_.op(combined, {append_call(chain_, function, arguments), value});
    }
    last_ = add(value, false);
  }

  // ---- results

  void draw_results() {
    chain_.results = {last_.step};
    const std::vector<int> unused = unused_values();
    int count = size_ == Size::chain || random_.percent(50) ? 1 : random_.between(2, 4);
    if (is_empty()) count = random_.between(1, 4);
    while (static_cast<int>(chain_.results.size()) < count) {
      const int kind = random_.below(100);
      int result = random_.pick(std::span<const Value>(pool_)).step;
      if (!unused.empty() && random_.percent(60)) result = random_.pick(std::span<const int>(unused));
      if (kind < 12) result = random_.pick(std::span<const int>(chain_.results));  // returned twice
      const Step::Kind step = chain_.steps[static_cast<std::size_t>(result)].kind;
      const bool number = step == Step::Kind::scalar || step == Step::Kind::constant;
      if (number && !random_.percent(15)) continue;
      if (step == Step::Kind::input && !random_.percent(50)) continue;
      chain_.results.insert(chain_.results.begin() + random_.below(static_cast<int>(chain_.results.size()) + 1),
                            result);
    }
  }

  // What calls gave and no other call took.
  std::vector<int> unused_values() const {
    std::vector<char> used(chain_.steps.size(), 0);
    for (const Step& step : chain_.steps) {
      for (const int argument : step.args) used[static_cast<std::size_t>(argument)] = 1;
    }
    std::vector<int> unused;
    for (const Value& value : pool_) {
      const auto i = static_cast<std::size_t>(value.step);
      if (used[i] == 0 && !chain_.steps[i].args.empty()) unused.push_back(value.step);
    }
    return unused;
  }

  // Without what no result needs; the calls' texts follow the steps that remain.
  Program finished() {
    std::vector<char> live(chain_.steps.size(), 0);
    for (const int result : chain_.results) live[static_cast<std::size_t>(result)] = 1;
    for (std::size_t i = chain_.steps.size(); i-- > 0;) {
      if (live[i] == 0) continue;
      for (const int arg : chain_.steps[i].args) live[static_cast<std::size_t>(arg)] = 1;
    }
    std::vector<int> renamed(chain_.steps.size(), -1);
    int next = 0;
    for (std::size_t i = 0; i < live.size(); ++i) {
      if (live[i] != 0) renamed[i] = next++;
    }
    Program program;
    for (auto& [step, text] : calls_) {
      if (live[static_cast<std::size_t>(step)] == 0) continue;
      for (int& argument : text.steps) argument = renamed[static_cast<std::size_t>(argument)];
      program.calls[renamed[static_cast<std::size_t>(step)]] = text;
    }
    std::vector<int> inputs, scalars;
    program.test.chain = without_dead_steps(chain_, inputs, scalars);
    program.size = size_;
    program.names = random_.bits();
    static constexpr int kArchitectures[] = {90, 90, 90, 90, 90, 90, 75, 80, 100, 120};
    // Few multiprocessors for what is run: schedules for many rows are then for few.
    const int multiprocessors = program.runs() && random_.percent(50) ? 1 : random_.pick({2, 40, 108, 132, 132, 148});
    program.machine = plan::Machine(random_.pick(std::span<const int>(kArchitectures)), multiprocessors);
    std::vector<DType> types;
    std::vector<Dims> shapes;
    for (const int i : inputs) {
      types.push_back(types_[static_cast<std::size_t>(i)]);
      shapes.push_back(input_shapes_[static_cast<std::size_t>(i)]);
    }
    draw_tensors(random_, program, types, shapes);
    return program;
  }

  Random& random_;
  Size size_;
  Dims frame_;
  Chain chain_;
  std::vector<DType> types_;
  std::vector<Dims> input_shapes_;
  std::vector<Dims> shapes_;  // by step
  std::vector<Value> pool_;
  std::map<int, CallText> calls_;
  std::vector<const ir::Function*> favourites_;
  std::array<int, 6> kinds_{};  // weights of the kinds of arguments
  std::vector<AxisList> habitual_axes_;
  std::vector<std::pair<const ir::Function*, Value>> history_;  // calls, and what they may have been of
  Value last_;                                                  // what the latest call gave
};

Size draw_size(Random& random) {
  const int kind = random.below(1000);
  if (kind < 4) return Size::chain;
  if (kind < 600) return Size::small;
  return kind < 700 ? Size::medium : Size::large;
}

}  // namespace

const char* to_string(Size size) noexcept {
  static constexpr const char* kNames[] = {"small", "medium", "large", "chain"};
  return kNames[static_cast<int>(size)];
}

Program draw_program(std::uint64_t seed, std::uint64_t number) {
  Random random(Random(Random(seed).bits() + number).bits());
  while (true) {
    try {
      Program program = Drawer(random, draw_size(random)).draw();
      if (!program.test.inputs.empty()) return program;
    } catch (const ShapeError&) {
      // Results without reductions have one shape, that of all operands together: these have none.
    }
  }
}

}  // namespace epifuse::test
