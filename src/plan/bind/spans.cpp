// Users stand behind their arguments, so one pass from the back finds what all users vary over.
#include "plan/bind/spans.hpp"

#include "plan/bind/space.hpp"

namespace epifuse::plan {

Spans::Spans(const ir::Program& program, std::span<const std::uint32_t> spans)
    : program_(program), spans_(spans), computed_(computed_values(program)) {
  users_.assign(program.nodes().size(), 0);
  for (std::size_t i = users_.size(); i-- > 0;) {
    const ir::Node& user = program.nodes()[i];
    for (int k = 0; k < user.computed_arity(); ++k)
      users_[static_cast<std::size_t>(user.args[static_cast<std::size_t>(k)])] |= spans_[i] | users_[i];
    reduced_ |= reduced_by(static_cast<ir::Value>(i));
  }
}

std::uint32_t Spans::written() const {
  if (reduced_ == 0) return 0;
  std::uint32_t all = 0;
  std::uint32_t beside_rows = 0;
  for (const std::uint32_t span : spans_) {
    all |= span;
    if ((span & reduced_) != 0) beside_rows |= span;
  }
  return all & ~beside_rows;
}

std::uint32_t Spans::reduced_by(ir::Value value) const {
  const ir::Node& node = program_.node(value);
  return ir::is_reduction(node.op) && is_computed(value) ? of(node.args[0]) & ~of(value) : 0;
}

}  // namespace epifuse::plan
