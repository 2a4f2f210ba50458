// Sources are made lean: small texts, and what must be left of them.
#include "codegen/lean/lean.hpp"

#include <gtest/gtest.h>

#include <stdexcept>
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
      "// Used.\nDEVICE float used(float a) { return a + 1; }\n\nDEVICE float never(float a) { return used(a); }\n\n"
      "constexpr int kNever = 3;\n",
      "  *p = used(*p);\n");
  EXPECT_TRUE(has(text, "// Used.\n")) << text;
  EXPECT_FALSE(has(text, "never")) << text;
  EXPECT_FALSE(has(text, "kNever")) << text;
}

// A template with a mistake is found here, not dropped without a word.
TEST(Lean, RefusesBracesThatDoNotMatch) {
  const std::string function = "DEVICE float f(float a) { return a; }\n";
  EXPECT_TRUE(
      has(of_kernel("namespace a {\n" + function + "}  // namespace a\n", "  *p = a::f(*p);\n"), "float f(float a)"));
  EXPECT_THROW(of_kernel(function + "}\n", "  *p = f(*p);\n"), std::logic_error);
  EXPECT_THROW(of_kernel("namespace a {\n" + function, "  *p = a::f(*p);\n"), std::logic_error);
}

// Which overload a call takes is the compiler's to say.
TEST(Lean, HoldsOverloadsOfAllTypes) {
  const std::string text = of_kernel(
      "DEVICE float f(float a) { return a; }\n\nDEVICE int f(int a) { return a; }\n\n"
      "DEVICE float g(float a) { return a; }\n\nDEVICE float g(float a, float b) { return a + b; }\n",
      "  *p = g(f(*p));\n");
  EXPECT_TRUE(has(text, "f(int a)")) << text;
  EXPECT_FALSE(has(text, "float b")) << "another number of arguments\n" << text;
}

// A specialisation is named by a call, or may be what a template's call means. Its primary template is no call of it.
TEST(Lean, HoldsSpecialisationsThatCallsMean) {
  const std::string specialised =
      "typedef float Real;\n\nstruct A {\n  int bits;\n};\n\nstruct B {\n  int bits;\n};\n\n"
      "template <class R, class T>\nDEVICE R of(T a);\n\n"
      "template <>\nDEVICE float of<float, A>(A a) { return a.bits; }\n\n"
      "template <>\nDEVICE float of<float, B>(B b) { return b.bits; }\n\n"
      "template <class T>\nDEVICE Real any(T a) { return of<Real, T>(a); }\n\n";
  const auto left = [&](const std::string& statements) {
    return of_kernel(specialised, "  A a;\n  B b;\n" + statements);
  };
  EXPECT_TRUE(has(left("  *p = of<float, A>(a);\n"), "*p = (a.bits);"));
  EXPECT_FALSE(has(left("  *p = of<float, A>(a);\n"), "b.bits"));
  EXPECT_TRUE(has(left("  *p = any(a);\n"), "of<float, A>(A a)"));
  EXPECT_TRUE(has(left("  *p = of<Real, B>(b);\n"), "of<float, B>(B b)"));
}

// A double comes from its type, from a number without an f, or from a function of the compiler that names it.
TEST(Lean, OverloadsOfDoublesGoWhereNothingIsOne) {
  const std::string overloads =
      "DEVICE float f(float a) { return a; }\n\nDEVICE double f(double a) { return 2.0 * a; }\n\n"
      "template <class T>\nDEVICE T from(float a);\n\ntemplate <class T>\nDEVICE T from(double a);\n\n";
  const auto holds = [&](const std::string& before, const std::string& statements) {
    return has(of_kernel(overloads + before, statements), "double a");
  };
  EXPECT_FALSE(holds("typedef float Real;\n", "  *p = f(Real(1)) + f(0x1.8p+0f) + f(1e5f) + from<Real>(0x2e5);\n"));
  EXPECT_TRUE(holds("typedef double Real;\n", "  *p = f(Real(1));\n"));
  EXPECT_TRUE(holds("", "  *p = f(1.5);\n"));
  EXPECT_TRUE(holds("", "  *p = f(1e5);\n"));
  EXPECT_TRUE(holds("", "  *p = f(0x1p+0);\n"));
  EXPECT_TRUE(holds("DEVICE float g(int a) { return f(__int2double_rn(a)); }\n", "  *p = g(1);\n"));
}

constexpr const char* kNothing = "struct Nothing {};\n\nstruct Row {\n  float a;\n};\n\n";

TEST(Lean, TypesThatHoldNothingGo) {
  const std::string text =
      of_kernel(std::string(kNothing) +
                    "struct Work {\n  Row& row;\n  Nothing& none;\n  DEVICE void run() const { row.a += 1; }\n};\n\n"
                    "DEVICE float f(const Row& row, const Nothing&, float b) { return row.a + b; }\n\n"
                    "DEVICE float g(const Nothing& none, Row& row, Nothing& other) {\n  Work{row, other}.run();\n"
                    "  return f(row, none, f(row, other, 1));\n}\n",
                "  const Nothing none{};\n  Nothing other;\n  Row row{*p};\n  *p = g(none, row, other);\n");
  EXPECT_FALSE(has(text, "Nothing") || has(text, "none") || has(text, "other")) << text;
  EXPECT_TRUE(has(text, "f(const Row& row, float b)")) << text;
  EXPECT_TRUE(has(text, "g(Row& row)")) << text;
  EXPECT_TRUE(has(text, "Work{row}.run();\n  return f(row, f(row, 1));")) << text;
  EXPECT_TRUE(has(text, "{\n  Row row{*p};\n  *p = g(row);\n}")) << text;
}

// A call that makes one, a size that is asked for, a variable whose name means something else elsewhere, a member's own
// name.
TEST(Lean, TypesThatHoldNothingStayWhereTheyMatter) {
  const std::string function =
      std::string(kNothing) +
      "DEVICE float f(const Row& row, const Nothing&) { return row.a; }\n\n"
      "DEVICE float f(float a, const Nothing&) { return a; }\n\n";  // of two a parameter that nobody reads stays
  for (const std::string statements :
       {"  *p = f(Row{*p}, Nothing());\n", "  Nothing none;\n  *p = f(Row{*p}, none) + sizeof(Nothing);\n",
        "  Nothing none;\n  *p = f(Row{*p}, none);\n  for (int none = 0; none < 2; ++none) *p += none;\n"})
    EXPECT_TRUE(has(of_kernel(function, statements), statements)) << of_kernel(function, statements);
  const std::string member = of_kernel(
      std::string(kNothing) +
          "struct Other {\n  float none;\n};\n\nDEVICE float f(const Other& o, const Nothing&) { return o.none; }\n",
      "  Nothing none;\n  *p = f(Other{*p}, none);\n");
  EXPECT_TRUE(has(member, "float none;") && has(member, "return o.none;")) << member;
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

// Hooks without a statement go with their calls, and with members that only they called.
TEST(Lean, EmptyHooksGo) {
  const std::string text = of_kernel(
      "constexpr bool kEnds = false;\n\nstruct Row {\n  float a;\n  DEVICE void clear() { a = 0; }\n};\n\n"
      "DEVICE void hook(float*, const Row&) {}\n\nDEVICE void end(float*) {}\n\n",
      "  Row row = {*p};\n  hook(p, row);\n  if constexpr (kEnds) end(p);\n  *p = row.a;\n");
  EXPECT_TRUE(has(text, "{\n  Row row = {*p};\n  *p = row.a;\n}\n")) << text;
  EXPECT_FALSE(has(text, "hook") || has(text, "end") || has(text, "clear") || has(text, "kEnds")) << text;
}

// What an argument does, and the statement that a branch needs.
TEST(Lean, CallsThatMayMatterStay) {
  const std::string hooks =
      "DEVICE void hook(float) {}\n\nDEVICE void hook(int) {}\n\nDEVICE float next(float* p) { return *p += 1; }\n\n";
  for (const std::string statements : {"  hook(next(p));\n", "  if (*p > 0)\n    hook(*p);\n  else\n    *p = 1;\n",
                                       "  for (int i = 0; i < 2; ++i)\n    hook(*p);\n"})
    EXPECT_TRUE(has(of_kernel(hooks, statements), statements)) << of_kernel(hooks, statements);
}

// A function of that name which does something may be meant.
TEST(Lean, HooksOfWhichOneDoesSomethingStay) {
  const std::string text = of_kernel(
      "struct A {\n  DEVICE void hook() {}\n};\n\nstruct B {\n  float a;\n  DEVICE void hook() { a = 1; }\n};\n\n",
      "  A a;\n  a.hook();\n  B b{*p};\n  b.hook();\n  *p = b.a;\n");
  EXPECT_TRUE(has(text, "a.hook();") && has(text, "b.hook();")) << text;
}

// Nobody calls an operator by its name.
TEST(Lean, OperatorsStay) {
  const std::string text = of_kernel(
      "struct Row {\n  float a;\n  DEVICE float operator[](int) const { return a; }\n};\n\n", "  *p = Row{*p}[0];\n");
  EXPECT_TRUE(has(text, "operator[]")) << text;
}

TEST(Lean, TextsThatNobodyReadsStay) {
  const std::string never = "DEVICE float never(float a) { return a; }\n\n";
  std::string text = never;
  while (text.size() < std::size_t{1} << 20) text += "// Long.\n";
  EXPECT_TRUE(has(of_kernel(text, "  *p = 1;\n"), "never"));
  EXPECT_FALSE(has(of_kernel(never, "  *p = 1;\n"), "never"));
}

TEST(Lean, TypesStandAboveFunctionsAndTheKernelLast) {
  const std::string text = of_kernel(
      "DEVICE float f(float a) { return a * 2; }\n\nstruct Pair {\n  float first, second;\n};\n\n"
      "DEVICE float g(const Pair& pair) { return f(pair.first) + f(pair.second); }\n",
      "  *p = g(Pair{1.0f, 2.0f});\n");
  EXPECT_LT(text.find("struct Pair"), text.find("float f(")) << text;
  EXPECT_LT(text.find("float f("), text.find("float g("));
  EXPECT_LT(text.find("float g("), text.find("void kernel("));
  EXPECT_EQ(text.find("\n\n\n"), text.npos) << "one empty line between units\n" << text;
}

// ---- what is known

TEST(Lean, ConstantsOfZeroAndOneAreWrittenOut) {
  const std::string text = of_kernel(
      "constexpr int kOne = 1;\n\nconstexpr int kThreads = 64;\n\nconstexpr bool kNever = false;\n\n"
      "constexpr int kLanes = kNever ? 7 : kThreads / 2;\n\n",
      "  p[kOne * 3 + (kNever ? 1 : kOne - 1)] = p[threadIdx.x / kOne % kLanes];\n"
      "  if (kNever || *p > kOne) *p = kThreads;\n");
  EXPECT_TRUE(has(text, "  p[3] = p[threadIdx.x % kLanes];\n  if (*p > 1) *p = kThreads;\n")) << text;
  EXPECT_TRUE(has(text, "constexpr int kLanes = 32;")) << text;
  EXPECT_FALSE(has(text, "kOne") || has(text, "kNever")) << text;
}

// What binds closer, what is of another type, and what is no constant of the source.
TEST(Lean, ExpressionsKeepTheirMeaning) {
  const std::string constants = "constexpr int kOne = 1;\n\nconstexpr int kZero = 0;\n\n";
  const auto folded = [&](const std::string& expression) {
    const std::string text = of_kernel(constants, "  int i = threadIdx.x;\n  *p = " + expression + ";\n");
    const auto begin = text.find("*p = ") + 5;
    return text.substr(begin, text.find(';', begin) - begin);
  };
  EXPECT_EQ(folded("(i + kZero) * 2"), "i * 2");
  EXPECT_EQ(folded("(i + 3 * kOne) * 2"), "(i + 3) * 2");
  EXPECT_EQ(folded("i - (i + kOne)"), "i - (i + 1)");
  EXPECT_EQ(folded("i - kZero - 2"), "i - 2");
  EXPECT_EQ(folded("kZero - i"), "0 - i");
  EXPECT_EQ(folded("kZero * next(i)"), "0 * next(i)") << "a call may do something";
  EXPECT_EQ(folded("kOne ? i : next(i)"), "i");
  EXPECT_EQ(folded("kZero && next(i)"), "false");
  EXPECT_EQ(folded("next(i) && kZero"), "next(i) && 0");
  EXPECT_EQ(folded("kOne * -i"), "-i");
  EXPECT_EQ(folded("1.0f * i"), "1.0f * i");
  EXPECT_EQ(folded("i >> kZero"), "i >> 0");
  EXPECT_EQ(folded("a.kOne + b->kOne"), "a.kOne + b->kOne");
  EXPECT_EQ(folded("i / kZero"), "i / 0");
}

TEST(Lean, LoopsOfOneTurnAndBranchesThatAreKnownGo) {
  const std::string text =
      of_kernel("constexpr int kRows = 1;\n\n",
                "  for (int k = 0; k < kRows; ++k) {\n    const float a = p[k];\n    p[k + 1] = a;\n  }\n"
                "  if constexpr (kRows > 1) {\n    p[2] = 2;\n  } else {\n    p[3] = 3;\n  }\n"
                "  for (int k = 0; k < kRows - 1; ++k) p[k] = 4;\n");
  EXPECT_TRUE(has(text, "{\n  const float a = p[0];\n  p[1] = a;\n  p[3] = 3;\n}\n")) << text;
}

// A name that is declared twice, a loop that may end early, and a variable that its loop changes or that a lambda is
// given.
TEST(Lean, BlocksAndLoopsStayWhereTheyMatter) {
  const std::string twice = of_kernel("",
                                      "  float a = 1;\n  if constexpr (true) {\n    const float a = 2;\n    p[1] = a;\n"
                                      "  }\n  p[0] = a;\n");
  EXPECT_TRUE(has(twice, "  {\n    const float a = 2;\n    p[1] = a;\n  }\n")) << twice;
  for (const std::string loop : {"  for (int k = 0; k < 1; ++k) {\n    if (p[k] > 0) break;\n    p[k] = 1;\n  }\n",
                                 "  for (int k = 0; k < 1; ++k) {\n    k += 1;\n    p[k] = 1;\n  }\n",
                                 "  for (int k = 0; k < 1; ++k) p[k] = twice(1, [k](float a) { return a * k; });\n",
                                 "  for (int k = 0; k < 2; ++k) p[k] = 1;\n"})
    EXPECT_TRUE(has(of_kernel("", loop), loop)) << of_kernel("", loop);
}

// What the compiler is told to unroll has no loop of one turn; in a nest the other loop keeps its own line.
TEST(Lean, UnrolledLoopsOfOneTurnDissolve) {
  const std::string text =
      of_kernel("",
                "#pragma unroll\n  for (int i = 0; i < 4; ++i) {\n#pragma unroll\n    for (int k = 0; "
                "k < 1; ++k) {\n      p[i + k] = k;\n    }\n  }\n");
  EXPECT_TRUE(has(text, "#pragma unroll\n  for (int i = 0; i < 4; ++i) {\n    p[i] = 0;\n  }\n")) << text;
  const std::string outer =
      of_kernel("",
                "#pragma unroll\n  for (int k = 0; k < 1; ++k)\n#pragma unroll\n    for (int i = 0; "
                "i < 4; ++i) p[i] = k;\n");
  EXPECT_TRUE(has(outer, "{\n#pragma unroll\n  for (int i = 0; i < 4; ++i) p[i] = 0;\n}\n")) << outer;
}

// What stands behind a return that is always taken is never reached.
TEST(Lean, StatementsBehindAReturnGo) {
  const std::string text = of_kernel(
      "template <int n>\nDEVICE float f(float a) {\n  if constexpr (n == 1) {\n    return a + 1;\n  }\n  return a + "
      "2;\n}\n\n",
      "  p[0] = f<1>(p[0]) + f<1>(p[1]);\n");
  EXPECT_TRUE(has(text, "float f(float a) {\n  return a + 1;\n}\n")) << text;
}

// The other compiler takes what stands behind the #if.
TEST(Lean, StatementsBehindAReturnOfOneCompilerStay) {
  const std::string body =
      "#ifdef __CUDACC__\n  if constexpr (true) {\n    p[0] = 1;\n    return;\n  }\n#endif\n  p[0] = 2;\n";
  const std::string text = of_kernel("", body, Compilers::both);
  EXPECT_TRUE(has(text, "#ifdef __CUDACC__\n  p[0] = 1;\n  return;\n#endif\n  p[0] = 2;\n")) << text;
  EXPECT_FALSE(has(of_kernel("", body), "p[0] = 2")) << "CUDA's compiler never reaches it";
}

// ---- parameters

TEST(Lean, ParametersThatAreAlwaysTheSameGo) {
  const std::string text = of_kernel(
      "struct Row {\n  float a;\n};\n\n"
      "template <bool kFull, class T>\nDEVICE float f(const T& row, int chunk, float* unread, float b) {\n"
      "  if constexpr (kFull) return row.a + b + chunk;\n  return b;\n}\n\n",
      "  Row row = {*p};\n  p[0] = f<true>(row, 0, p, p[1]);\n  p[1] = f<true>(row, 0, p, p[2]);\n");
  EXPECT_TRUE(has(text, "__forceinline__ float f(const Row& row, float b) {\n  return row.a + b;\n}\n")) << text;
  EXPECT_TRUE(has(text, "  p[0] = f(row, p[1]);\n  p[1] = f(row, p[2]);\n")) << text;
  EXPECT_FALSE(has(text, "template")) << text;
}

// One that a compiler which is not CUDA's has from elsewhere.
TEST(Lean, FunctionsOfOneCompilerStayForBoth) {
  const std::string function =
      "#ifdef __CUDACC__\ntemplate <int n>\nDEVICE void wait() {\n  asm volatile(\"wait %0;\" "
      "::\"n\"(n));\n}\n#endif\n\n";
  EXPECT_TRUE(has(of_kernel(function, "  wait<3>();\n", Compilers::both), "  wait<3>();\n"));
  EXPECT_FALSE(has(of_kernel(function, "  wait<3>();\n"), "wait<3>"));
}

// Calls that differ, an argument that does something, a type that only this parameter tells, an array that is no
// reference to its element.
TEST(Lean, ParametersThatMatterStay) {
  const std::string next = "DEVICE float next(float* p) { return *p += 1; }\n\n";
  const auto stays = [&](const std::string& function, const std::string& statements) {
    const std::string text = of_kernel(next + function, statements);
    return has(text, statements);
  };
  EXPECT_TRUE(stays("DEVICE float f(float a, int k) { return a + k; }\n\n", "  p[0] = f(p[0], 0) + f(p[1], 1);\n"));
  EXPECT_TRUE(stays("DEVICE float f(float a, float) { return a + 1; }\n\n", "  p[0] = f(p[0], next(p));\n"));
  EXPECT_TRUE(
      stays("template <class T, class U>\nDEVICE float f(float a, const U& b, const T*) {\n  T c = 1;\n  return a + b "
            "+ c;\n}\n\n",
            "  int* q = 0;\n  auto other = *p;\n  p[0] = f(p[0], other, &q[1]);\n"));
  const std::string array = of_kernel(
      "struct Held {\n  float a;\n};\n\ntemplate <class T>\nDEVICE float f(T& held) { return held[0].a + held[1].a; "
      "}\n\n",
      "  Held held[2] = {{p[0]}, {p[1]}};\n  p[0] = f(held);\n");
  EXPECT_TRUE(has(array, "f(T& held)")) << array;
}

// An argument is a pointer and a distance, an element of an array that is aligned, of a variable's member, or of what a
// cast points to.
TEST(Lean, TypesAreFoundInDeclarations) {
  const auto is_known = [](const std::string& statements) {
    const std::string text = of_kernel(
        "struct Held {\n  float* at;\n  float packed[2];\n};\n\nstruct Other {\n  int packed[2];\n};\n\n"
        "template <class T>\nDEVICE float f(const T* a) {\n  T b = a[0];\n  return b;\n}\n\n"
        "template <class T>\nDEVICE float g(const T& a) {\n  T b = a;\n  return b;\n}\n\n",
        "  Held held = {p};\n  Other other = {};\n  int i = threadIdx.x;\n  alignas(16) float own[2] = {};\n" +
            statements + "  p[9] = held.at[0] + other.packed[0] + own[0];\n");
    return !has(text, "template");
  };
  EXPECT_TRUE(is_known("  p[0] = f(p + i);\n"));
  EXPECT_TRUE(is_known("  p[0] = f(held.at + 2 * i);\n"));
  EXPECT_TRUE(is_known("  p[0] = g(own[i]);\n"));
  EXPECT_TRUE(is_known("  p[0] = g(held.packed[i]);\n"));
  EXPECT_TRUE(is_known("  p[0] = g(reinterpret_cast<const float*>(p)[i]);\n"));
  EXPECT_FALSE(is_known("  p[0] = g(held.packed[i]) + g(other.packed[i]);\n"));
  EXPECT_FALSE(is_known("  p[0] = f(i + p);\n"));
  EXPECT_FALSE(is_known("  p[0] = g(i + 1);\n"));
}

TEST(Lean, EnumeratorsAreCompared) {
  const std::string function =
      "enum class Hint { none, last };\n\ntemplate <Hint kHint>\nDEVICE float f(float a) {\n"
      "  if constexpr (kHint == Hint::none) return a;\n  return a * 3;\n}\n\n";
  const std::string one = of_kernel(function, "  p[0] = f<Hint::last>(p[0]);\n  p[1] = f<Hint::last>(p[1]);\n");
  EXPECT_TRUE(has(one, "float f(float a) {\n  return a * 3;\n}\n")) << one;
  EXPECT_FALSE(has(one, "Hint")) << one;
  const std::string two = of_kernel(function, "  p[0] = f<Hint::last>(p[0]);\n  p[1] = f<Hint::none>(p[1]);\n");
  EXPECT_TRUE(has(two, "if constexpr (kHint == Hint::none) return a;")) << two;
}

// ---- templates of one type

TEST(Lean, TypesWithTheSameArgumentsAreNoTemplates) {
  const std::string type = "template <class T, int n>\nstruct Packet {\n  T words[n];\n};\n\n";
  const std::string one =
      of_kernel(type, "  Packet<float, 2> a = {};\n  const Packet<float, 2> b = a;\n  *p = b.words[1];\n");
  EXPECT_TRUE(has(one, "// Header.\n\nstruct Packet {\n  float words[2];\n};\n")) << one;
  EXPECT_TRUE(has(one, "  Packet a = {};\n  const Packet b = a;\n")) << one;
  const std::string two =
      of_kernel(type, "  Packet<float, 2> a = {};\n  Packet<int, 2> b = {};\n  *p = a.words[1] + b.words[1];\n");
  EXPECT_TRUE(has(two, "Packet<float, 2> a") && has(two, "Packet<int, 2> b")) << two;
  // Outside of a template both branches must be valid.
  const std::string branch =
      "template <class T>\nstruct Box {\n  T a;\n  DEVICE float get() const {\n    if constexpr (sizeof(T) == 4) {\n"
      "      return a;\n    } else {\n      return a.b;\n    }\n  }\n};\n\n";
  EXPECT_TRUE(has(of_kernel(branch, "  Box<float> box = {*p};\n  *p = box.get();\n"), "Box<float> box"));
}

// Below it stands who calls it without saying for which type.
TEST(Lean, OneSpecialisationIsAFunction) {
  const std::string functions =
      "struct A {\n  int bits;\n};\n\nstruct B {\n  int bits;\n};\n\ntemplate <class T>\nDEVICE T of(float a);\n\n"
      "template <int n>\nDEVICE int first(float a) {\n  if (n > threadIdx.x) return of<A>(a).bits;\n  return n;\n}\n\n"
      "template <>\nDEVICE A of<A>(float a) { return A{int(a) * 3}; }\n\n"
      "template <>\nDEVICE B of<B>(float a) { return B{int(a) * 5}; }\n\n";
  const std::string one = of_kernel(functions, "  *p = first<2>(*p) + first<3>(*p);\n");
  EXPECT_TRUE(has(one, "A of(float a) { return A{int(a) * 3}; }")) << one;
  EXPECT_TRUE(has(one, "return of(a).bits;")) << one;
  EXPECT_LT(one.find("A of("), one.find("int first(")) << one;
  const std::string two = of_kernel(functions, "  *p = first<2>(*p) + first<3>(*p) + of<B>(*p).bits;\n");
  EXPECT_TRUE(has(two, "T of(float a);") && has(two, "of<A>(a)") && has(two, "of<B>(*p)")) << two;
}

TEST(Lean, OverloadsForAnyTypeGoWhereEachCallHasItsOwn) {
  const std::string functions =
      "struct A {\n  int bits;\n};\n\ntemplate <class T>\nDEVICE float of(T a) { return a * 7; }\n\n"
      "DEVICE float of(A a) { return a.bits * 3; }\n\n";
  const std::string own = of_kernel(functions, "  A a[2] = {};\n  p[0] = of(a[1]);\n  p[1] = of(a[0]);\n");
  EXPECT_FALSE(has(own, "a * 7")) << own;
  const std::string other = of_kernel(functions, "  A a[2] = {};\n  p[0] = of(a[1]);\n  p[1] = of(p[2]);\n");
  EXPECT_TRUE(has(other, "a * 7")) << other;
}

// Helpers and operations alike. A variable of the name may stand where it is not called.
TEST(Lean, NamespacesGo) {
  const std::string functions =
      "namespace detail {\n\nDEVICE float twice(float a) { return a * __sinf(a); }\n\n"
      "DEVICE float more(float a) { return twice(a) + twice(a + 1); }\n\n}  // namespace detail\n\n";
  const std::string text = of_kernel(functions, "  p[0] = detail::more(p[0]);\n  p[1] = detail::more(p[1] * p[2]);\n");
  EXPECT_FALSE(has(text, "detail")) << text;
  EXPECT_TRUE(has(text, "p[1] = more(p[1] * p[2]);")) << text;
  const std::string local =
      of_kernel(functions, "  float twice = p[3];\n  p[0] = detail::more(p[0]) + detail::more(p[1]) * twice;\n");
  EXPECT_TRUE(has(local, "p[0] = more(p[0]) + more(p[1]) * twice;")) << local;
  const std::string called =
      of_kernel(functions, "  float more = p[3];\n  p[0] = detail::more(p[0]) + detail::more(p[1]) * more;\n");
  EXPECT_TRUE(has(called, "p[0] = detail_more(p[0]) + detail_more(p[1]) * more;")) << called;
}

// CUDA has an exp2, and a source may have two functions of a name.
TEST(Lean, OperationsWhoseNamesAreTakenHaveThatOfTheirNamespace) {
  const std::string functions =
      "namespace fast {\n\nDEVICE float exp2(float a) {\n  float r;\n  asm(\"ex2 %0, %1;\" : \"=f\"(r) : \"f\"(a));\n  "
      "return r;\n}\n\nDEVICE float silu(float a) { return a * exp2(a); }\n\n}  // namespace fast\n\n"
      "namespace ops {\n\nDEVICE float silu(float a) { return a * fast::exp2(-a); }\n\n}  // namespace ops\n\n";
  const std::string text = of_kernel(functions, "  p[0] = fast::silu(p[0]) + ops::silu(p[1]) + ::exp2(p[2]);\n");
  EXPECT_FALSE(has(text, "namespace")) << text;
  EXPECT_TRUE(has(text, "float fast_exp2(float a) {")) << text;
  EXPECT_TRUE(has(text, "return a * fast_exp2(a);") && has(text, "return a * fast_exp2(-a);")) << text;
  EXPECT_TRUE(has(text, "+ ::exp2(p[2]);")) << text;
}

// ---- functions in place

TEST(Lean, WhatOnePlaceCallsStandsThere) {
  const std::string text = of_kernel(
      "// Why.\nDEVICE void once(float* to, const float& from) {\n  const float twice = from * 2;\n  *to = "
      "twice;\n}\n\n"
      "DEVICE void both(float* a) { once(a, a[1]); }\n\n",
      "  both(p);\n");
  EXPECT_TRUE(has(text, "{\n  // Why.\n  const float twice = p[1] * 2;\n  *p = twice;\n}\n")) << text;
}

// Names that would meet, a return, two places, a value that it changes and the caller has by the same name.
TEST(Lean, FunctionsThatCannotStandInPlaceStay) {
  const auto stays = [&](const std::string& function, const std::string& statements) {
    const std::string text = of_kernel(function, statements);
    return has(text, statements);
  };
  EXPECT_TRUE(stays("DEVICE void f(float* to) {\n  const float a = to[1];\n  *to = a;\n}\n\n",
                    "  const float a = 1;\n  f(p);\n  p[2] = a;\n"));
  EXPECT_TRUE(stays("DEVICE void f(float* to) {\n  if (*to > 0) return;\n  *to = 1;\n}\n\n", "  f(p);\n"));
  EXPECT_TRUE(stays("DEVICE void f(float* to) {\n  to[0] = 1;\n  to[1] = 2;\n}\n\n", "  f(p);\n  f(p);\n"));
  EXPECT_TRUE(stays("DEVICE void f(float* to, int n) {\n  n += 1;\n  to[n] = 1;\n}\n\n",
                    "  int n = threadIdx.x;\n  f(p, n);\n  p[n] = 2;\n"));
}

// A loop, a value that it changes, and arguments that are no names; members that only their like call.
TEST(Lean, WhatBranchesMayStandInPlace) {
  const std::string text = of_kernel(
      "DEVICE void f(float* to, int n, int left) {\n  for (; n < left; ++n) to[n] = left;\n  if (n > 3) to[0] = "
      "1;\n}\n\n",
      "  f(p, threadIdx.x, blockIdx.x * 4);\n");
  EXPECT_TRUE(has(text, "{\n  int n = threadIdx.x;\n  const int left = blockIdx.x * 4;\n  for (; n < left; ++n)"))
      << text;
  const std::string members = of_kernel(
      "struct A {\n  float a;\n  DEVICE void merge(const A& b) { a += b.a; }\n  DEVICE void add() { a += 1; }\n};\n\n"
      "struct B {\n  A a;\n  DEVICE void merge(const B& b) { a.merge(b.a); }\n};\n\n",
      "  B b;\n  b.a.a = p[0];\n  b.a.add();\n  p[1] = b.a.a;\n");
  EXPECT_FALSE(has(members, "merge")) << members;
}

// Members that types made from it have, too, where nothing is of the type itself.
TEST(Lean, HiddenMembersGo) {
  const std::string types =
      "struct Base {\n  float a = 0;\n  DEVICE void add(float b) { a += b; }\n};\n\n"
      "struct Other : Base {\n  DEVICE void add(float b) { a -= b; }\n};\n\n";
  EXPECT_FALSE(has(of_kernel(types, "  Other one;\n  one.add(*p);\n  *p = one.a;\n"), "a += b"));
  EXPECT_TRUE(
      has(of_kernel(types, "  Other one;\n  one.add(*p);\n  Base two;\n  two.add(*p);\n  *p = one.a;\n"), "a += b"));
}

// A loop that never turns goes with what it is told, which else would be told to the next statement.
TEST(Lean, DirectivesGoWithTheirLoops) {
  const std::string text = of_kernel("constexpr int kNone = 0;\n",
                                     "#pragma unroll\n  for (int i = 0; i < kNone; ++i) p[i] = 1;\n  *p = 2;\n");
  EXPECT_TRUE(has(text, "{\n  *p = 2;\n}")) << text;
}

TEST(Lean, VariablesThatNothingReadsGo) {
  const auto left = [](const std::string& statements) { return of_kernel("", statements + "  *p = 3;\n"); };
  for (const std::string statements :
       {"  float a[2], b[3];\n", "  const int a = threadIdx.x * 4;  // of it\n",
        "  const float* a = reinterpret_cast<const float*>(p);\n", "  const auto f = [&](int i) { return p[i]; };\n",
        "  int a[1];\n  a[0] = threadIdx.x;\n",
        "  int a[4];\n#pragma unroll\n  for (int i = 0; i < 4; ++i) a[i] = i * 2;\n",
        "  const int a = threadIdx.x;\n  const int b = a * 2;\n"})
    EXPECT_TRUE(has(left(statements), "{\n  *p = 3;\n}")) << left(statements);
  EXPECT_TRUE(has(left("  float a = p[1], b[3], c = p[2];\n  p[3] = a + c;\n"), "float a = p[1], c = p[2];"));
}

// What is written through it stands elsewhere; a call may do more; a member is none.
TEST(Lean, VariablesThatMatterStay) {
  const std::string call = "DEVICE int count(float* to) {\n  *to += 1;\n  if (*to > 2) *to = 0;\n  return 1;\n}\n\n";
  for (const std::string statements :
       {"  float* to = p + 1;\n  to[2] = 3;\n", "  float& to = p[1];\n  to = 3;\n", "  const int seen = count(p);\n",
        "  int a[2];\n  a[0] = count(p);\n",
        "  struct Two {\n    float a[2];\n  };\n  Two two;\n  *reinterpret_cast<Two*>(p) = two;\n",
        "  int n = 0;\n  n += 1;\n  p[n] = 2;\n"}) {
    const std::string text = of_kernel(call, statements);
    EXPECT_TRUE(has(text, statements) || (has(statements, "count") && has(text, "*to += 1"))) << text;
  }
}

}  // namespace
}  // namespace epifuse::codegen
