// What may be given by position: operands whose order is stated, or fewer than two. Every function that takes a list of
// views is asked.
#include <gtest/gtest.h>

#include <functional>
#include <string>
#include <vector>

#include <epifuse/epifuse.hpp>

#include "support/refusal.hpp"

namespace epifuse {
namespace {

using test::refusal;

constexpr const char* kRefusal =
    "operands are given by position, but nothing states the order of this chain's (bias, x): pass them by name, "
    "{{\"bias\", …}, {\"x\", …}}, or state it with inputs({\"bias\", \"x\"}) or in the text: 'input bias, x; …'";

struct Positions : testing::Test {
  const std::vector<float> x = {1, 2, 3}, bias = {10, 20, 30};
  std::vector<float> y = {-1, -1, -1};
  const TensorView vx{x.data(), DType::f32, {3}}, vb{bias.data(), DType::f32, {3}};
  const OutputView vy{y.data(), DType::f32, {3}};
  const std::vector<OutputView> out = {vy};
  const std::vector<TensorView> in = {vx, vb};
  Engine engine{Device::cpu()};

  std::vector<float> launched(const Epilogue& tail) {
    engine.launch(tail, nullptr, vy, {vx, vb});
    return y;
  }
};

// ---- operands

TEST_F(Positions, AreRefusedWhereNobodyStatedTheOrder) {
  for (const Epilogue& tail : {Epilogue::parse("bias + x"), Epilogue{input("bias") + input("x")},
                               Epilogue::parse("bias + x").with(Math::precise)}) {
    EXPECT_FALSE(tail.takes_inputs_by_position());
    alignas(256) std::byte memory[256];
    const std::vector<Preparation> list = {{tail, out, in}};
    const std::vector<PrecompiledLaunch> launches = {{list[0], {}}};
    const std::vector<DType> types = {DType::f32};
    for (const std::function<void()>& call : std::vector<std::function<void()>>{
             [&] { engine.launch(tail, nullptr, vy, in); },
             [&] {
               engine.launch(tail, nullptr, vy, {vx, vb});
             },
             [&] {
               engine.launch(tail, nullptr, vy, in, {}, Workspace{memory, sizeof memory});
             },
             [&] { engine.prepare(tail, vy, in); },
             [&] { engine.prepare(list); },
             [&] { Precompiler({.disk_cache = false}).prepare(launches); },
             [&] { engine.workspace_bytes(tail, vy, in); },
             [&] { Inspection(tail, out, in); },
             [&] { tail.result_shapes(in); },
             [&] { tail.result_types(in); },
             [&] { tail.compute_type(in, types); },
             [&] { gradient(tail, {"x"}).forward_types(in); },
         })
      EXPECT_EQ(refusal(call), kRefusal);
    EXPECT_EQ(y, (std::vector<float>{-1, -1, -1})) << "nothing was written";
  }
}

TEST_F(Positions, AreNoMatterByName) {
  const std::vector<float> difference = {-9, -18, -27};
  const std::vector<DType> types = {DType::f16};
  for (const char* const text : {"x - bias", "-bias + x"}) {
    const Epilogue tail = Epilogue::parse(text);
    engine.launch(tail, nullptr, vy, {{"x", vx}, {"bias", vb}});
    EXPECT_EQ(y, difference) << text;
    engine.prepare(tail, vy, {{"bias", vb}, {"x", vx}});
    EXPECT_EQ(engine.workspace_bytes(tail, vy, {{"bias", vb}, {"x", vx}}), 0U);
    const std::vector<Preparation> list = {{tail, out, {{"x", vx}, {"bias", vb}}}};
    EXPECT_EQ(list[0].inputs[list[0].tail.inputs()[0] == "x" ? 0 : 1].data, x.data()) << text;
    engine.prepare(list);
    // Which operand is which shows in what the functions give.
    const TensorView wide(nullptr, DType::f64, {5, 3}), narrow(nullptr, DType::f16, {3});
    EXPECT_EQ(tail.result_shapes({{"x", narrow}, {"bias", wide}})[0], (Dims{5, 3}));
    EXPECT_EQ(tail.result_types({{"x", narrow}, {"bias", wide}})[0], DType::f64);
    EXPECT_EQ(tail.compute_type({{"x", narrow}, {"bias", wide}}, types), DType::f64);
    EXPECT_EQ(tail.compute_type({{"x", narrow}, {"bias", narrow}}, types), DType::f32);
    const std::vector<OutputView> result = {{nullptr, DType::f64, {5, 3}}};
    const Inspection inspection(tail, result, {{"x", narrow}, {"bias", wide}});
    for (const OperandSummary& operand : inspection.plan().operands)
      EXPECT_EQ(operand.dtype, operand.name == "x" ? DType::f16 : DType::f64) << text << ": " << operand.name;
    EXPECT_EQ(gradient(tail, {"x"}).forward_types({{"x", narrow}, {"bias", narrow}})[0], DType::f16);
  }
  const Epilogue tail = Epilogue::parse("x - bias");
  EXPECT_EQ(refusal([&] { tail.result_shapes({{"x", vx}}); }), "the operand 'bias' of the chain is missing");
  EXPECT_EQ(refusal([&] {
              Preparation(tail, out, {{"x", vx}, {"bais", vb}});
            }),
            "the chain has no operand 'bais' (did you mean 'bias'?); it has: x, bias");
}

// However the difference is written, x is the first operand: whoever states an order gets that.
TEST_F(Positions, AreThoseOfTheStatement) {
  const std::vector<float> difference = {-9, -18, -27};
  const Expr a = input("x"), b = input("bias");
  for (const Epilogue& tail :
       {Epilogue{a - b}.inputs({"x", "bias"}), Epilogue{-b + a}.inputs({"x", "bias"}),
        Epilogue{-b + a}.inputs({"x", "bias"}).with(Math::fast), Epilogue::parse("input x, bias; -bias + x"),
        Epilogue::parse("input x, bias; x - bias").with(Math::precise), Epilogue::parse("input x; -bias + x"),
        Epilogue::parse("input x; input bias; input x; -bias + x"),
        Epilogue::parse("t = x - bias; input x, bias; t")}) {
    EXPECT_TRUE(tail.takes_inputs_by_position());
    EXPECT_EQ(launched(tail), difference) << tail.str();
    EXPECT_EQ(launched(Epilogue::parse(tail.str())), difference) << tail.str() << " keeps the statement";
    EXPECT_EQ(launched(gradient(tail, {"x"}).forward), difference) << "so does the forward pass";
  }
}

TEST_F(Positions, AreNotStatedByHalf) {
  for (const char* const text : {"input x; x + bias + residual", "t = bias + x; input x, bias; t", "bias + x",
                                 "t = bias + x; input x; t", "input x; x + bias - bias * residual"})
    EXPECT_FALSE(Epilogue::parse(text).takes_inputs_by_position()) << text;
  for (const char* const text : {"input x, bias; x + bias + residual", "input never, x; x * 2", "input never; x * 2"})
    EXPECT_TRUE(Epilogue::parse(text).takes_inputs_by_position()) << text;
}

TEST_F(Positions, OfOneOperandNeedNoStatement) {
  for (const Epilogue& tail :
       {Epilogue::parse("x * 2 + x"), Epilogue{input("x") * 3}, Epilogue::parse("scalar a; 3 * x")})
    EXPECT_TRUE(tail.takes_inputs_by_position());
  engine.launch(Epilogue::parse("x * 2 + x"), nullptr, vy, {vx});
  EXPECT_EQ(y, (std::vector<float>{3, 6, 9}));
}

// Lists that the library itself gives are statements.
TEST_F(Positions, OfGeneratedEpiloguesAreListed) {
  const Epilogue tail = Epilogue::parse("bias * x");
  const Gradient found = gradient(tail, {"x"});
  EXPECT_FALSE(found.forward.takes_inputs_by_position()) << "its operands stand as those of the tail do";
  EXPECT_TRUE(found.backward.takes_inputs_by_position());
  ASSERT_EQ(found.backward.inputs(), (std::vector<std::string>{"dout", "bias", "x"}));
  engine.launch(found.backward, nullptr, vy, {vx, vb, vx});
  EXPECT_EQ(y, (std::vector<float>{10, 40, 90}));
  const Chain chain = chain_of(tail);
  const Subchain whole = subchain_of(tail, chain.results, {});
  ASSERT_EQ(whole.epilogue.inputs().size(), 2U);
  EXPECT_EQ(launched(whole.epilogue), (std::vector<float>{10, 40, 90}));
}

// The statement is the handle's, and changes nothing that is computed, compiled or cached.
TEST_F(Positions, DoNotChangeTheProgram) {
  const Epilogue plain = Epilogue::parse("x + bias");
  const Epilogue stated = plain.inputs({"x", "bias"});
  EXPECT_EQ(ir_text(stated), ir_text(plain));
  const std::vector<OutputView> result = {{nullptr, DType::f32, {3}}};
  const Inspection named(plain, result, {{"x", vx}, {"bias", vb}});
  const Inspection listed(stated, result, in);
  EXPECT_EQ(named.cuda(), listed.cuda());
  EXPECT_EQ(named.plan().kernel_class, listed.plan().kernel_class);
  EXPECT_EQ(plain.str(), "x + bias");
  EXPECT_EQ(stated.str(), "input x, bias; x + bias");
  EXPECT_EQ(Epilogue::parse("input x; x * 2").str(), "x * 2");
}

// ---- run-time scalars

TEST_F(Positions, OfScalarsAreThoseOfTheirDeclarations) {
  for (const Epilogue& tail :
       {Epilogue::parse("scalar a, b; x * a - b"), Epilogue::parse("scalar a; scalar b; -b + x * a"),
        Epilogue::parse("-b + x * a", std::vector<std::string>{"a", "b"})}) {
    EXPECT_TRUE(tail.takes_scalars_by_position());
    engine.launch(tail, nullptr, vy, {vx}, {2, 10});
    EXPECT_EQ(y, (std::vector<float>{-8, -6, -4})) << tail.str();
  }
}

TEST_F(Positions, OfScalarsAreRefusedInExpressions) {
  const Expr a = scalar("a"), b = scalar("b"), operand = input("x");
  const Epilogue one{operand * a};
  engine.launch(one, nullptr, vy, {vx}, {2});
  EXPECT_EQ(y, (std::vector<float>{2, 4, 6}));
  for (const Epilogue& tail : {Epilogue{operand * a - b}, Epilogue{-b + operand * a}}) {
    EXPECT_FALSE(tail.takes_scalars_by_position());
    EXPECT_NE(refusal([&] {
                engine.launch(tail, nullptr, vy, {vx}, {2, 10});
              }).find("nothing states the order of this expression's ("),
              std::string::npos);
    engine.prepare(tail, vy, {vx});  // which needs no scalars
    engine.launch(tail, nullptr, vy, {{"x", vx}, {"a", 2}, {"b", 10}});
    EXPECT_EQ(y, (std::vector<float>{-8, -6, -4})) << tail.str();
    // Text declares them.
    EXPECT_TRUE(Epilogue::parse(tail.str()).takes_scalars_by_position());
  }
  EXPECT_EQ(refusal([&] {
              engine.launch(Epilogue{operand * a - b}, nullptr, vy, {vx}, {2, 10});
            }),
            "run-time scalars are given by position, but nothing states the order of this expression's (a, b): pass "
            "all arguments by name, {{\"a\", …}, {\"b\", …}}");
}

}  // namespace
}  // namespace epifuse
