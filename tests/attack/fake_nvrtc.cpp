// A library that EPIFUSE_NVRTC can name instead of NVRTC: it takes ATTACK_COMPILE_MS to compile, and appends a line to
// the file ATTACK_COMPILES for each compile. So compiles of many processes can be counted, and 64 of them fit two
// cores. ATTACK_NVRTC_RESULT, where set, is what compiling returns instead of success.
#include <fcntl.h>
#include <unistd.h>
#include <algorithm>

#include <chrono>
#include <cstdlib>
#include <cstring>
#include <string>
#include <thread>

#include "fake_image.hpp"

struct FakeProgram {
  std::string source;
  std::string image;
};

namespace {

void count_compile(const std::string& source) {
  const char* const path = std::getenv("ATTACK_COMPILES");
  if (path == nullptr) return;
  const int fd = ::open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666);
  const std::string line = source.substr(0, source.find('\n') + 1);
  if (::write(fd, line.data(), line.size()) != static_cast<ssize_t>(line.size())) std::abort();
  ::close(fd);
}

std::string architecture_of(int count, const char* const* options) {
  const std::string wanted = "--gpu-architecture=";
  for (int i = 0; i < count; ++i) {
    if (std::string(options[i]).starts_with(wanted)) return options[i] + wanted.size();
  }
  return "none";
}

}  // namespace

extern "C" {

const char* nvrtcGetErrorString(int) { return "an error of the fake NVRTC"; }

int nvrtcVersion(int* major, int* minor) {
  *major = 12;
  *minor = 0;
  return 0;
}

int nvrtcGetNumSupportedArchs(int* count) {
  *count = 2;
  return 0;
}

int nvrtcGetSupportedArchs(int* list) {
  list[0] = 80;
  list[1] = 90;
  return 0;
}

int nvrtcCreateProgram(FakeProgram** program, const char* source, const char*, int, const char* const*,
                       const char* const*) {
  *program = new FakeProgram{source, {}};
  return 0;
}

int nvrtcDestroyProgram(FakeProgram** program) {
  delete *program;
  *program = nullptr;
  return 0;
}

int nvrtcCompileProgram(FakeProgram* program, int count, const char* const* options) {
  const char* const time = std::getenv("ATTACK_COMPILE_MS");
  if (time != nullptr) std::this_thread::sleep_for(std::chrono::milliseconds(std::atoi(time)));
  if (const char* const result = std::getenv("ATTACK_NVRTC_RESULT")) return std::atoi(result);
  count_compile(program->source);
  program->image = attack::fake_image(program->source, architecture_of(count, options));
  return 0;
}

int nvrtcGetCUBINSize(FakeProgram* program, std::size_t* size) {
  *size = program->image.size();
  return 0;
}

int nvrtcGetCUBIN(FakeProgram* program, char* image) {
  std::ranges::copy(program->image, image);  // its size counts all of it
  return 0;
}

int nvrtcGetPTXSize(FakeProgram* program, std::size_t* size) { return nvrtcGetCUBINSize(program, size); }
int nvrtcGetPTX(FakeProgram* program, char* image) { return nvrtcGetCUBIN(program, image); }

int nvrtcGetProgramLogSize(FakeProgram*, std::size_t* size) {
  *size = 0;
  return 0;
}
int nvrtcGetProgramLog(FakeProgram*, char*) { return 0; }
}
