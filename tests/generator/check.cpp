// The stages, each a promise of the library's.
#include "generator/check.hpp"

#include <algorithm>
#include <cctype>
#include <cmath>
#include <ctime>
#include <set>
#include <sstream>

#include "codegen/emit.hpp"
#include "generator/wording.hpp"
#include "ir/program.hpp"
#include "jit/nvrtc.hpp"
#include "plan/explain.hpp"
#include "support/engine_runner.hpp"
#include "support/shapes.hpp"

namespace epifuse::test {
namespace {

// Processor time from text to emitted source: half a second, and what is linear in the chain's length.
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr double kSlowdown = 20;
#else
constexpr double kSlowdown = 1;
#endif
constexpr double kPlanSeconds = 0.5 * kSlowdown;
constexpr double kPlanSecondsPerValue = 0.001 * kSlowdown;

double processor_seconds() { return static_cast<double>(std::clock()) / CLOCKS_PER_SEC; }

// The programs' values, operands matched by their names; a text where they differ.
class SameProgram {
 public:
  SameProgram(const ir::Program& named, const ir::Program& plain, const NamedText& names)
      : named_(named), plain_(plain), names_(names) {}

  std::optional<std::string> difference() const {
    if (named_.nodes().size() != plain_.nodes().size())
      return std::to_string(named_.nodes().size()) + " values, expected " + std::to_string(plain_.nodes().size());
    for (std::size_t i = 0; i < named_.nodes().size(); ++i) {
      if (!is_same(named_.nodes()[i], plain_.nodes()[i])) return "value " + std::to_string(i) + " is another";
    }
    if (named_.results().size() != plain_.results().size()) return "another number of results";
    for (std::size_t i = 0; i < named_.results().size(); ++i) {
      if (named_.results()[i].value != plain_.results()[i].value) return "result " + std::to_string(i) + " is another";
      if (named_.result_name(i) != names_.results[i])
        return "result " + std::to_string(i) + " is called '" + named_.result_name(i) + "', expected '" +
               names_.results[i] + "'";
    }
    return std::nullopt;
  }

 private:
  bool is_same(const ir::Node& a, const ir::Node& b) const {
    if (a.op != b.op) return false;
    const auto ordinal = static_cast<std::size_t>(b.ordinal);
    if (a.op == ir::Op::input)
      return named_.inputs()[static_cast<std::size_t>(a.ordinal)] ==
             names_.inputs[std::stoul(plain_.inputs()[ordinal].substr(1))];
    if (a.op == ir::Op::scalar)
      return named_.scalars()[static_cast<std::size_t>(a.ordinal)] ==
             names_.scalars[std::stoul(plain_.scalars()[ordinal].substr(1))];
    const bool numbers = a.constant == b.constant ? std::signbit(a.constant) == std::signbit(b.constant)
                                                  : std::isnan(a.constant) && std::isnan(b.constant);
    return numbers && a.args == b.args && a.dtype == b.dtype && a.shaping == b.shaping;
  }

  const ir::Program& named_;
  const ir::Program& plain_;
  const NamedText& names_;
};

std::optional<std::string> round_trip(const Epilogue& tail) {
  const std::string printed = tail.str();
  try {
    const Epilogue again = Epilogue::parse(printed);
    if (again.program().fingerprint() != tail.program().fingerprint())
      return "its text reads back as another program: " + printed + "\n  which prints as " + again.str();
    if (again.str() != printed)
      return "its text changes when it is read and printed again: " + printed + "\n  " + again.str();
  } catch (const std::exception& error) {
    return "its text cannot be read: " + printed + "\n  " + error.what();
  }
  return std::nullopt;
}

bool is_shape_refusal(const Error& error) {
  return error.code() == ErrorCode::unsupported || error.code() == ErrorCode::invalid_argument ||
         error.code() == ErrorCode::invalid_expression;
}

// The words of the class that are no numbers and of no operand.
std::string kind_of(const plan::Plan& plan) {
  std::set<std::string> words;
  std::istringstream text(plan::to_text(plan.kernel_class));
  for (std::string word; text >> word;) {
    std::erase_if(word, [](char c) { return c >= '0' && c <= '9'; });
    if (word.find(':') == std::string::npos) words.insert(word);
  }
  std::string kind;
  for (const std::string& word : words) kind += word + " ";
  return kind;
}

std::vector<std::size_t> positions_of(const std::vector<std::string>& names, const std::vector<std::string>& all) {
  std::vector<std::size_t> positions;
  for (const std::string& name : names)
    positions.push_back(static_cast<std::size_t>(std::ranges::find(all, name) - all.begin()));
  return positions;
}

plan::Plan plan_of(const Program& program, const Epilogue& tail, const Views& views) {
  return plan::make_plan(tail.program(), views.outputs, views.inputs, plan::Views::real, program.machine);
}

}  // namespace

const char* to_string(Stage stage) noexcept {
  static constexpr const char* kNames[] = {"parse", "print", "plan", "compile", "run", "emitted"};
  return kNames[static_cast<int>(stage)];
}

std::string common_sentence(const std::string& message) {
  std::string out;
  const std::string line = message.substr(0, message.find('\n'));
  for (std::size_t i = 0; i < line.size(); ++i) {
    const auto is_digit = [&](std::size_t at) {
      return at < line.size() && std::isdigit(static_cast<unsigned char>(line[at])) != 0;
    };
    if (line[i] == '\'' && line.find('\'', i + 1) != std::string::npos && (i == 0 || line[i - 1] == ' ')) {
      i = line.find('\'', i + 1);
      out += "'_'";
    } else if (line[i] == '[' && line.find(']', i) != std::string::npos) {
      i = line.find(']', i);
      out += "[_]";
    } else if (is_digit(i)) {
      while (is_digit(i + 1)) ++i;
      if (out.empty() || out.back() != 'N') out += 'N';
    } else {
      out += line[i];
    }
  }
  return out.substr(0, 160);
}

std::string emitted_source(const Program& program) {
  const Epilogue tail = to_epilogue(program.test.chain);
  const Views views = pretended_views(program.test, tail);
  const plan::Plan plan = plan_of(program, tail, views);
  return codegen::emit(tail.program(), plan.kernel_class, plan.space.input_kinds());
}

void compile_source(const std::string& source, int architecture, Effort effort) {
  const jit::Nvrtc& nvrtc = jit::Nvrtc::get();
  const bool fast = effort == Effort::fast;
  const jit::Target target{architecture, fast ? jit::ImageKind::ptx : jit::ImageKind::cubin};
  std::vector<std::string> options = jit::compile_options(target);
  // A fifth of the time: no optimisation and no assembler. NVRTC 12.9 is the first to know the option.
  const bool knows = nvrtc.version().major > 12 || (nvrtc.version().major == 12 && nvrtc.version().minor >= 9);
  if (fast && knows) options.emplace_back("--Ofast-compile=max");
  nvrtc.compile(source, "epifuse", target, options);
}

Checker::Checker(Hooks hooks) : hooks_(std::move(hooks)), cpu_(Device::cpu()) {}

std::optional<Finding> Checker::refuse(Stage stage, const std::exception& error) {
  const auto* own = dynamic_cast<const Error*>(&error);
  if (own == nullptr || !is_shape_refusal(*own)) return Finding{stage, error.what()};
  refusal_ = Refusal{stage, common_sentence(error.what())};
  return std::nullopt;
}

// Beside other processes on the same core a check can take twice its processor time: the second one decides.
std::optional<Finding> Checker::check(const Program& program) {
  const auto finding = check_once(program);
  return took_too_long_ ? check_once(program) : finding;
}

std::optional<Finding> Checker::check_once(const Program& program) {
  took_too_long_ = false;
  refusal_.reset();
  reached_ = 0;
  compiled_now_ = false;
  compile_ms_ = 0;
  coverage_ = {};
  begin_ = processor_seconds();
  hooks_.before(Stage::parse);
  std::optional<Epilogue> tail;
  try {
    tail = to_epilogue(program.test.chain);
  } catch (const std::exception& error) {
    return refuse(Stage::parse, error);
  }
  reach(Stage::parse);
  if (auto finding = check_texts(program, *tail)) return finding;
  if (auto finding = check_plan(program, *tail)) return finding;
  return refusal_ || !program.runs() ? std::nullopt : check_run(program);
}

std::optional<Finding> Checker::check_texts(const Program& program, const Epilogue& tail) {
  hooks_.before(Stage::print);
  if (auto problem = round_trip(tail)) return Finding{Stage::print, *problem};
  const NamedText named = named_text(program.test.chain, program.calls, program.names);
  try {
    const Epilogue other = Epilogue::parse(named.text);
    if (auto problem = SameProgram(other.program(), tail.program(), named).difference())
      return Finding{Stage::parse, "the text\n  " + named.text + "\n  is another program than it says: " + *problem};
    if (auto problem = round_trip(other))
      return Finding{Stage::print, "of the text\n  " + named.text + "\n  " + *problem};
  } catch (const std::exception& error) {
    return Finding{Stage::parse, "the text\n  " + named.text + "\n  is refused: " + error.what()};
  }
  reach(Stage::print);
  return std::nullopt;
}

std::optional<Finding> Checker::check_plan(const Program& program, const Epilogue& tail) {
  hooks_.before(Stage::plan);
  const Views views = pretended_views(program.test, tail);
  std::optional<plan::Plan> plan;
  try {
    const std::vector<Dims> shapes = tail.result_shapes(views.inputs);
    for (std::size_t i = 0; i < shapes.size(); ++i) {
      if (shapes[i] != program.test.outputs[i].shape)
        return Finding{Stage::plan, "result " + std::to_string(i) + " has the shape " + to_string(shapes[i]) +
                                        ", expected " + to_string(program.test.outputs[i].shape)};
    }
    plan = plan_of(program, tail, views);
  } catch (const std::exception& error) {
    if (auto finding = refuse(Stage::plan, error)) return finding;
  }
  if (!plan) {
    if (auto finding = check_sentence(program)) return finding;
    return check_time(tail);
  }
  try {
    const PlanSummary summary = plan::summarise(tail.program(), *plan, views.outputs, views.inputs, program.machine);
    if (plan::to_text(summary, 3e12, {}).empty()) return Finding{Stage::plan, "the plan says nothing"};
    codegen::pack(tail.program(), *plan, views.scalars);
  } catch (const std::exception& error) {
    return Finding{Stage::plan, std::string("the plan cannot be told: ") + error.what()};
  }
  reach(Stage::plan);
  kind_of_kernel_ = kind_of(*plan);
  return check_source(program, tail, *plan);
}

// A refusal of the program as its text writes it names what stands there, not what a function is made of.
std::optional<Finding> Checker::check_sentence(const Program& program) const {
  if (program.size == Size::chain) return std::nullopt;
  const NamedText named = named_text(program.test.chain, program.calls, program.names);
  const Epilogue tail = Epilogue::parse(named.text);
  const Views views = pretended_views(program.test, positions_of(tail.inputs(), named.inputs),
                                      positions_of(tail.scalars(), named.scalars));
  try {
    plan_of(program, tail, views);
  } catch (const Error& error) {
    if (auto problem = misnamed(error.what(), named))
      return Finding{Stage::plan, "the refusal " + *problem + "\n  " + error.what() + "\n  of the text " + named.text};
    return std::nullopt;
  }
  return Finding{Stage::plan, "the text is planned, the chain that it says is refused\n  " + named.text};
}

// To plan twice the chain takes twice the time.
std::optional<Finding> Checker::check_time(const Epilogue& tail) {
  const double seconds = processor_seconds() - begin_;
  const auto values = tail.program().nodes().size();
  const double allowed = kPlanSeconds + kPlanSecondsPerValue * static_cast<double>(values);
  took_too_long_ = seconds > allowed;
  if (!took_too_long_) return std::nullopt;
  return Finding{Stage::plan, "to parse, print, plan and emit " + std::to_string(values) + " values took " +
                                  std::to_string(seconds) + " s of processor time, expected at most " +
                                  std::to_string(allowed)};
}

std::optional<Finding> Checker::check_source(const Program& program, const Epilogue& tail, const plan::Plan& plan) {
  hooks_.before(Stage::compile);
  try {
    const std::string source = codegen::emit(tail.program(), plan.kernel_class, plan.space.input_kinds());
    if (auto finding = check_time(tail)) return finding;
    if (program.size == Size::chain) return std::nullopt;
    const Effort effort = hooks_.compile(source, program.machine.architecture);
    if (effort != Effort::none) {
      const double begin = processor_seconds();
      compile_source(source, program.machine.architecture, effort);
      compile_ms_ = (processor_seconds() - begin) * 1000;
      compiled_now_ = true;
    }
  } catch (const std::exception& error) {
    return Finding{Stage::compile, error.what()};
  }
  reach(Stage::compile);
  return std::nullopt;
}

std::optional<Finding> Checker::check_run(const Program& program) {
  hooks_.before(Stage::run);
  try {
    if (auto problem = run_on(cpu_, program.test, &coverage_)) return Finding{Stage::run, *problem};
  } catch (const std::exception& error) {
    return Finding{Stage::run, std::string("refused although it was planned: ") + error.what()};
  }
  reach(Stage::run);
  return std::nullopt;
}

}  // namespace epifuse::test
