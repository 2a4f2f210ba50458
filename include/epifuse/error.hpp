// The one exception type of EpiFuse. Every public function that can fail throws Error and nothing else
// (std::bad_alloc aside); what() is a sentence that names the operand, what was found and what was expected.
#pragma once

#include <stdexcept>
#include <string>

namespace epifuse {

/// What kind of thing went wrong; the text says the rest.
enum class ErrorCode {
  invalid_expression,  ///< The epilogue itself: syntax, unknown function, wrong argument count.
  invalid_argument,    ///< The tensors or scalars it was given: shape, type, pointer, overlap, missing operand.
  unsupported,         ///< Well-formed, but beyond a documented limit.
  no_driver,           ///< libcuda is not installed.
  driver_too_old,      ///< libcuda is installed, but older than what EpiFuse calls.
  no_device,           ///< The driver found no such GPU.
  no_compiler,         ///< NVRTC is not installed.
  compile_failed,      ///< NVRTC rejected a source that EpiFuse emitted: a bug, with log and source in the text.
  out_of_memory,       ///< The device or the host has no memory left for the request.
  device_failed,       ///< The driver reported an error, possibly one of earlier work on the same context.
  io                   ///< A file could not be read or written.
};

/// Spelled as in the enumeration, for logs and JSON.
const char* to_string(ErrorCode code) noexcept;

class Error : public std::runtime_error {
 public:
  Error(ErrorCode code, const std::string& message) : std::runtime_error(message), code_(code) {}
  ErrorCode code() const noexcept { return code_; }

  /// True where the caller's input is at fault (exit code 2 of the tool), false for failures at run time (1).
  bool is_bad_input() const noexcept {
    return code_ == ErrorCode::invalid_expression || code_ == ErrorCode::invalid_argument ||
           code_ == ErrorCode::unsupported;
  }

 private:
  ErrorCode code_;
};

}  // namespace epifuse
