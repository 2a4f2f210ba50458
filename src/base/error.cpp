// Names of error codes. Every component may include base.
#include <epifuse/error.hpp>

namespace epifuse {

const char* to_string(ErrorCode code) noexcept {
  switch (code) {
    case ErrorCode::invalid_expression:
      return "invalid_expression";
    case ErrorCode::invalid_argument:
      return "invalid_argument";
    case ErrorCode::unsupported:
      return "unsupported";
    case ErrorCode::no_driver:
      return "no_driver";
    case ErrorCode::driver_too_old:
      return "driver_too_old";
    case ErrorCode::no_device:
      return "no_device";
    case ErrorCode::no_compiler:
      return "no_compiler";
    case ErrorCode::compile_failed:
      return "compile_failed";
    case ErrorCode::out_of_memory:
      return "out_of_memory";
    case ErrorCode::device_failed:
      return "device_failed";
    case ErrorCode::io:
      return "io";
  }
  return "unknown";
}

}  // namespace epifuse
