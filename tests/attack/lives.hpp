// What the tests of the process under attack share, with the fake driver (process.hpp) and with a real one (gpu.hpp).
#pragma once

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cstdlib>
#include <functional>
#include <span>
#include <string>

#include <epifuse/epifuse.hpp>

namespace attack {

using epifuse::Device;
using epifuse::DType;
using epifuse::Engine;
using epifuse::Epilogue;
using epifuse::Error;
using epifuse::ErrorCode;

inline Error error_of(const std::function<void()>& action) {
  try {
    action();
  } catch (const Error& error) {
    return error;
  }
  return {ErrorCode::io, "nothing was thrown"};
}

inline testing::AssertionResult says(const Error& error, ErrorCode code, const std::string& part) {
  const bool right = error.code() == code && std::string(error.what()).find(part) != std::string::npos;
  return (right ? testing::AssertionSuccess() : testing::AssertionFailure())
         << to_string(error.code()) << ": " << error.what();
}

/// A chain that many blocks share, so that a launch needs a workspace, and its tensors.
struct Sum {
  explicit Sum(Engine& engine) : in(engine.empty(DType::f32, {kElements})), out(engine.empty(DType::f32, {})) {}
  void launch(Engine& engine) { engine.launch(tail, nullptr, out, {in}); }

  static constexpr std::int64_t kElements = 1 << 22;
  Epilogue tail = Epilogue::parse("sum(x)");
  epifuse::Array in;
  epifuse::Array out;
};

/// Runs `child` in a forked process; empty if it returns an empty text, else what was wrong. A child that hangs is
/// killed.
inline std::string in_a_fork(const std::function<std::string()>& child) {
  constexpr unsigned kSpinLimit = 60;  // seconds
  int ends[2];
  if (::pipe(ends) != 0) return "no pipe";
  const pid_t pid = ::fork();
  if (pid == 0) {
    ::alarm(kSpinLimit);
    std::string wrong;
    const Error stray = error_of([&] { wrong = child(); });
    if (stray.code() != ErrorCode::io) wrong = stray.what();
    const bool told = ::write(ends[1], wrong.data(), wrong.size()) == static_cast<ssize_t>(wrong.size());
    std::_Exit(told && wrong.empty() ? 0 : 1);
  }
  ::close(ends[1]);
  std::string wrong;
  char buffer[512];
  for (ssize_t n = 0; (n = ::read(ends[0], buffer, sizeof buffer)) > 0;)
    wrong.append(buffer, static_cast<std::size_t>(n));
  ::close(ends[0]);
  int status = 0;
  ::waitpid(pid, &status, 0);
  if (WIFSIGNALED(status)) return wrong + " ended by signal " + std::to_string(WTERMSIG(status));
  return WEXITSTATUS(status) == 0 ? wrong : wrong + " ended with " + std::to_string(WEXITSTATUS(status));
}

/// Empty if the action is refused with the sentence about forks.
inline std::string refused(const char* what, const std::function<void()>& action) {
  const Error error = error_of(action);
  const std::string text = error.what();
  if (error.code() == ErrorCode::device_failed &&
      text.find("forked after CUDA had been initialised") != std::string::npos)
    return {};
  return std::string(what) + ": " + text + "\n";
}

/// Empty if a forked process refuses all that an engine of the parent's can be asked, and a new engine.
inline std::string refuses_all(Engine& engine, Sum& sum, const std::function<void()>& make_engine) {
  const epifuse::TensorView input = sum.in.view();
  const epifuse::OutputView output = sum.out;
  float host = 0;
  return refused("launch", [&] { sum.launch(engine); }) +
         refused("prepare", [&] { engine.prepare(sum.tail, std::span(&output, 1), std::span(&input, 1)); }) +
         refused("workspace_bytes",
                 [&] { engine.workspace_bytes(sum.tail, std::span(&output, 1), std::span(&input, 1)); }) +
         refused("empty", [&] { engine.empty(DType::f32, {4}); }) +
         refused("synchronize", [&] { engine.synchronize(); }) + refused("download", [&] { sum.out.download(&host); }) +
         refused("a new engine", make_engine);
}

/// Empty if the CPU device gives what it should.
inline std::string cpu_works(Engine& engine) {
  std::array<float, 4> x = {1, 2, 3, 4};
  engine.launch(Epilogue::parse("x * 2 + 1"), nullptr, epifuse::OutputView(x.data(), DType::f32, {4}),
                {epifuse::TensorView(x.data(), DType::f32, {4})});
  return x == std::array<float, 4>{3, 5, 7, 9} ? "" : "the CPU device is wrong\n";
}

}  // namespace attack
