// What every drawn program goes through: text, plan, emitted source, NVRTC, the CPU device, and for some the emitted
// text. Called by the generator's workers and the soak.
#pragma once

#include <functional>
#include <optional>
#include <string>

#include <epifuse/engine.hpp>

#include "generator/program.hpp"
#include "support/oracle.hpp"

namespace epifuse::test {

enum class Stage : std::uint8_t { parse, print, plan, compile, run, emitted };
inline constexpr int kStages = 6;
const char* to_string(Stage stage) noexcept;

/// Something is wrong.
struct Finding {
  Stage stage = Stage::parse;
  std::string message;
};

/// The library says that it does not compute this program, which is no failure.
struct Refusal {
  Stage stage = Stage::parse;
  std::string sentence;  ///< without the program's numbers and names
};

/// A sentence of an error without what is the program's own: quoted names, shapes and numbers.
std::string common_sentence(const std::string& message);

/// How the program was compiled: as the library does, or as fast as NVRTC can.
enum class Effort : std::uint8_t { none, fast, full };

class Checker {
 public:
  struct Hooks {
    /// Whether that source for that architecture is new, so that it is to be compiled; and how.
    std::function<Effort(const std::string& source, int architecture)> compile;
    /// Told before each stage, since a stage may end the process.
    std::function<void(Stage)> before = [](Stage) {};
  };
  explicit Checker(Hooks hooks);

  /// Nothing if all is well or refused; `refusal` and `reached` then tell how far it came.
  std::optional<Finding> check(const Program& program);

  const std::optional<Refusal>& refusal() const noexcept { return refusal_; }
  bool reached(Stage stage) const noexcept { return (reached_ >> static_cast<int>(stage) & 1u) != 0; }
  bool compiled_now() const noexcept { return compiled_now_; }
  double compile_ms() const noexcept { return compile_ms_; }
  const Coverage& coverage() const noexcept { return coverage_; }
  /// The kernel class of the plan without its numbers.
  const std::string& kind_of_kernel() const noexcept { return kind_of_kernel_; }

 private:
  std::optional<Finding> check_once(const Program& program);
  std::optional<Finding> check_texts(const Program& program, const Epilogue& tail);
  std::optional<Finding> check_plan(const Program& program, const Epilogue& tail);
  std::optional<Finding> check_sentence(const Program& program) const;
  std::optional<Finding> check_time(const Epilogue& tail);
  std::optional<Finding> check_source(const Program& program, const Epilogue& tail, const plan::Plan& plan);
  std::optional<Finding> check_run(const Program& program);
  std::optional<Finding> refuse(Stage stage, const std::exception& error);
  void reach(Stage stage) { reached_ |= 1u << static_cast<int>(stage); }

  Hooks hooks_;
  Engine cpu_;
  std::optional<Refusal> refusal_;
  unsigned reached_ = 0;
  bool compiled_now_ = false;
  double compile_ms_ = 0;
  double begin_ = 0;  // of the check, in processor time
  bool took_too_long_ = false;
  Coverage coverage_;
  std::string kind_of_kernel_;
};

/// The text of a kernel of the program, if it is planned. Throws what the library throws.
std::string emitted_source(const Program& program);
/// Compiles it, `fast` to PTX. Throws Error.
void compile_source(const std::string& source, int architecture, Effort effort);

}  // namespace epifuse::test
