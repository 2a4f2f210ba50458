// Sources are made lean: small texts, and what must be left of them.
#include "codegen/lean/lean.hpp"

#include <gtest/gtest.h>

#include <string>

namespace epifuse::codegen {
namespace {

constexpr const char* kFunction = "__device__ __forceinline__ ";

std::string lean(const std::string& text, Compilers compilers = Compilers::cuda) {
  std::string source = "// Header.\n\n" + text;
  for (auto at = source.find("DEVICE "); at != source.npos; at = source.find("DEVICE "))
    source.replace(at, 7, kFunction);
  return made_lean(source, "kernel", compilers);
}

// A kernel of these statements below `text`.
std::string of_kernel(const std::string& text, const std::string& statements, Compilers compilers = Compilers::cuda) {
  return lean(text + "\nextern \"C\" __global__ void kernel(float* p) {\n" + statements + "}\n", compilers);
}

bool has(const std::string& text, const std::string& wanted) { return text.find(wanted) != text.npos; }

TEST(Lean, HoldsWhatTheKernelReaches) {
  const std::string text = of_kernel(
      "// Used.\nDEVICE float used(float a) { return a; }\n\nDEVICE float never(float a) { return used(a); }\n\n"
      "constexpr int kNever = 3;\n",
      "  *p = used(*p);\n");
  EXPECT_TRUE(has(text, "// Used.\n")) << text;
  EXPECT_FALSE(has(text, "never")) << text;
  EXPECT_FALSE(has(text, "kNever")) << text;
}

TEST(Lean, HoldsOverloadsOfTheTypeThatIsComputedIn) {
  const std::string overloads =
      "typedef float Real;\n\nDEVICE float f(float a) { return a; }\n\nDEVICE double f(double a) { return a; }\n\n";
  const std::string single = of_kernel(overloads, "  *p = f(Real(1));\n");
  EXPECT_FALSE(has(single, "double")) << single;
  const std::string both =
      of_kernel(overloads, "  *p = f(Real(1)) + static_cast<float>(f(static_cast<double>(*p)));\n");
  EXPECT_TRUE(has(both, "f(double a)")) << both;
  const std::string number = of_kernel(
      overloads + "DEVICE float g(float a) { return a; }\n\nDEVICE float g(float a, float b) { return a + b; }\n",
      "  *p = g(f(*p));\n");
  EXPECT_FALSE(has(number, "float b")) << "another number of arguments\n" << number;
}

TEST(Lean, NamesOfNamespacesAreApart) {
  const std::string text = of_kernel(
      "namespace a {\n\nDEVICE float f(float v) { return v; }\n\n}  // namespace a\n\n"
      "namespace b {\n\nDEVICE float f(float v) { return -v; }\n\n}  // namespace b\n\n"
      "namespace a {\n\nDEVICE float g(float v) { return f(v); }\n\n}  // namespace a\n",
      "  *p = a::g(*p);\n");
  EXPECT_FALSE(has(text, "namespace b")) << text;
  EXPECT_EQ(text.find("namespace a {"), text.rfind("namespace a {")) << "opened once\n" << text;
}

TEST(Lean, HostBranchesAreForTests) {
  const std::string function =
      "DEVICE float f(float a) {\n#if defined(__CUDACC__)\n  return __frcp_rn(a);\n#else\n  return 1.0f / "
      "a;\n#endif\n}\n\n"
      "DEVICE float g(float a) {\n#if defined(__CUDACC__) && defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800\n"
      "  return a;\n#else\n  return -a;\n#endif\n}\n";
  const std::string text = of_kernel(function, "  *p = f(g(*p));\n");
  EXPECT_FALSE(has(text, "__CUDACC__")) << text;
  EXPECT_FALSE(has(text, "1.0f / a")) << text;
  EXPECT_TRUE(has(text, "#if __CUDA_ARCH__ >= 800\n  return a;\n#else\n  return -a;\n#endif\n")) << text;
  EXPECT_TRUE(has(of_kernel(function, "  *p = f(g(*p));\n", Compilers::both), "1.0f / a"));
}

TEST(Lean, KnownConditionsAreResolved) {
  const std::string text = of_kernel(
      "constexpr bool kYes = true;\nconstexpr int kOne = 1;\n\n"
      "DEVICE float f(float a, bool b) {\n  if constexpr (!kYes) {\n    return 0.0f;\n  } else {\n    a += 2.0f;\n  }\n"
      "  if (kYes && b) a *= 3.0f;\n  return kOne > 1 ? 5.0f : a * kOne;\n}\n",
      "  *p = f(*p, *p > 0.0f);\n");
  EXPECT_TRUE(has(text, "bool b) {\n  a += 2.0f;\n  if (b) a *= 3.0f;\n  return a;\n}\n")) << text;
  EXPECT_FALSE(has(text, "kYes") || has(text, "kOne")) << text;
}

// What is not known stays: parameters of templates, and values at run time.
TEST(Lean, UnknownConditionsStay) {
  const std::string text =
      of_kernel("template <bool kSome>\nDEVICE float f(float a) {\n  if constexpr (kSome) return a;\n  return -a;\n}\n",
                "  *p = f<true>(*p) + f<false>(*p);\n");
  EXPECT_TRUE(has(text, "if constexpr (kSome) return a;\n  return -a;\n")) << text;
}

TEST(Lean, NothingStandsBehindAReturn) {
  const std::string text = of_kernel(
      "constexpr int kPasses = 1;\n\nDEVICE float f(float a) {\n  if constexpr (kPasses == 1) return a;\n"
      "  for (int i = 0; i < kPasses; ++i) a += a;\n  return a;\n}\n",
      "  *p = f(*p);\n");
  EXPECT_TRUE(has(text, "{\n  return a;\n}\n")) << text;
}

TEST(Lean, EmptyHooksTypesAndParametersGo) {
  const std::string text = of_kernel(
      "struct Nothing {};\n\nDEVICE Nothing load() {\n  Nothing nothing{};\n  return nothing;\n}\n\n"
      "DEVICE void hook(float*, const Nothing&) {}\n\n"
      "DEVICE void run(float* p, const Nothing& nothing, int unread) {\n  hook(p, nothing);\n  *p = 1.0f;\n}\n",
      "  const Nothing nothing = load();\n  run(p, nothing, 3);\n");
  EXPECT_TRUE(has(text, "run(float* p) {\n  *p = 1.0f;\n}\n")) << text;
  EXPECT_TRUE(has(text, "{\n  run(p);\n}\n")) << text;
  EXPECT_FALSE(has(text, "Nothing") || has(text, "hook")) << text;
}

// A parameter that alone tells a template's argument is no unused one.
TEST(Lean, ParametersThatTellATypeStay) {
  const std::string text =
      of_kernel("template <class T>\nDEVICE float size(const T& value) { return sizeof(T); }\n", "  *p = size(*p);\n");
  EXPECT_TRUE(has(text, "size(const T& value)")) << text;
  const std::string other =
      of_kernel("template <class T>\nDEVICE float one(const T& value) { return 1.0f; }\n", "  *p = one(*p);\n");
  EXPECT_TRUE(has(other, "float one() { return 1.0f; }")) << other;
  EXPECT_FALSE(has(other, "template")) << other;
}

TEST(Lean, TypesStandAboveFunctionsAndTheKernelLast) {
  const std::string text = of_kernel(
      "DEVICE float f(float a) { return a; }\n\nstruct Pair {\n  float first, second;\n};\n\n"
      "DEVICE float g(const Pair& pair) { return f(pair.first); }\n",
      "  *p = g(Pair{1.0f, 2.0f});\n");
  EXPECT_LT(text.find("struct Pair"), text.find("float f(")) << text;
  EXPECT_LT(text.find("float f("), text.find("float g("));
  EXPECT_LT(text.find("float g("), text.find("void kernel("));
  EXPECT_EQ(text.find("\n\n\n"), text.npos) << "one empty line between units\n" << text;
}

}  // namespace
}  // namespace epifuse::codegen
