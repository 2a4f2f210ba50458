// Our declarations of NVRTC against NVIDIA's own, at compile time, where nvrtc.h is installed.
#include <gtest/gtest.h>

#include "jit/nvrtc_abi.hpp"

#if __has_include(<nvrtc.h>)
#include <nvrtc.h>

#include <type_traits>

namespace epifuse::jit {
namespace {

// A type as the calling convention sees it: an enum of four bytes is an int.
template <class T>
struct Passed {
  using Type = T;
};
template <class T>
requires std::is_enum_v<T>
struct Passed<T> {
  static_assert(sizeof(T) == sizeof(int));
  using Type = int;
};
template <class T>
struct Passed<T*> {
  using Type = typename Passed<T>::Type*;
};
template <class T>
struct Passed<const T> {
  using Type = const typename Passed<T>::Type;
};
template <class R, class... P>
struct Passed<R (*)(P...)> {
  using Type = typename Passed<R>::Type (*)(typename Passed<P>::Type...);
};

#define EPIFUSE_COMPARE(member, symbol, result, parameters)                                          \
  static_assert(std::is_same_v<decltype(abi::Functions::member), Passed<decltype(&::symbol)>::Type>, \
                #symbol " is declared differently in nvrtc.h");
EPIFUSE_NVRTC_FUNCTIONS(EPIFUSE_COMPARE)
#undef EPIFUSE_COMPARE

static_assert(std::is_same_v<abi::Program, ::nvrtcProgram>);
static_assert(abi::kSuccess == ::NVRTC_SUCCESS);
static_assert(abi::kOutOfMemory == ::NVRTC_ERROR_OUT_OF_MEMORY);
static_assert(abi::kInvalidOption == ::NVRTC_ERROR_INVALID_OPTION);
static_assert(abi::kCompilation == ::NVRTC_ERROR_COMPILATION);

TEST(NvrtcAbi, AgreesWithTheOfficialHeader) { SUCCEED(); }

}  // namespace
}  // namespace epifuse::jit
#else
TEST(NvrtcAbi, AgreesWithTheOfficialHeader) { GTEST_SKIP() << "nvrtc.h is not installed"; }
#endif
