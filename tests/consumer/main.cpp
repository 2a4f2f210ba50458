// What a user's first program may look like; here it proves that the installed headers and library are complete.
#include <iostream>

#include <epifuse/epifuse.hpp>

int main() {
  namespace ef = epifuse;
  const float x[6] = {-1, 2, -3, 4, -5, 6};
  const float bias[3] = {10, 20, 30};
  float y[6] = {};
  const ef::Epilogue tail{ef::relu(ef::input("x")) + ef::input("bias")};
  ef::Engine engine(ef::Device::cpu());
  engine.launch(
      tail, nullptr, ef::OutputView(y, ef::DType::f32, {2, 3}),
      {{"x", ef::TensorView(x, ef::DType::f32, {2, 3})}, {"bias", ef::TensorView(bias, ef::DType::f32, {3})}});
  std::cout << "consumer: EpiFuse " << ef::version() << ", " << tail.str() << " = " << y[0] << " … " << y[5] << "\n";
  return y[0] == 10 && y[5] == 36 ? 0 : 1;
}
