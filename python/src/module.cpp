// The extension module epifuse._core: launches, inspection, and what the machine has. The package's Python files are
// its only users.
#include <array>

#include <nanobind/nanobind.h>
#include <nanobind/stl/map.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include "arrays.hpp"
#include "engines.hpp"
#include "launcher.hpp"

namespace epifuse::python {
namespace {

nb::dict operand_dict(const OperandSummary& operand) {
  nb::dict entry;
  entry["name"] = operand.name;
  entry["dtype"] = std::string(to_string(operand.dtype));
  entry["shape"] = tuple_of(operand.shape);
  entry["strides"] = tuple_of(operand.strides);
  entry["access"] = operand.access;
  entry["bytes_per_access"] = operand.bytes_per_access;
  entry["bytes"] = operand.bytes;
  entry["reads"] = operand.reads;
  entry["why"] = operand.why;
  return entry;
}

nb::dict pass_dict(const PassSummary& pass) {
  nb::dict entry;
  entry["accumulates"] = pass.accumulates;
  entry["reads"] = pass.reads;
  entry["writes"] = pass.writes;
  return entry;
}

nb::dict reduction_dict(const ReductionSummary& reduction) {
  nb::dict entry;
  entry["rows"] = reduction.rows;
  entry["row_length"] = reduction.row_length;
  entry["inner_reduction"] = reduction.inner_reduction;
  entry["rows_side_by_side"] = reduction.rows_side_by_side;
  entry["segments_per_row"] = reduction.segments_per_row;
  entry["segment_length"] = reduction.segment_length;
  entry["segment_lanes"] = reduction.segment_lanes;
  entry["lane_segments"] = reduction.lane_segments;
  entry["shared_by"] = reduction.shared_by;
  entry["group_threads"] = reduction.group_threads;
  entry["cluster_blocks"] = reduction.cluster_blocks;
  entry["blocks_per_row"] = reduction.blocks_per_row;
  entry["rows_per_block"] = reduction.rows_per_block;
  entry["rounds"] = reduction.rounds;
  entry["lag"] = reduction.lag;
  entry["prefetch_distance"] = reduction.prefetch_distance;
  entry["prefetch_bytes"] = reduction.prefetch_bytes;
  entry["next_rows_bytes"] = reduction.next_rows_bytes;
  entry["bytes_under_way"] = reduction.bytes_under_way;
  nb::list passes;
  for (const PassSummary& pass : reduction.passes) passes.append(pass_dict(pass));
  entry["passes"] = passes;
  entry["held"] = reduction.held;
  entry["saved"] = reduction.saved;
  entry["held_in"] = reduction.held_in;
  entry["staged_bytes"] = reduction.staged_bytes;
  return entry;
}

// The members and their names are those of `epifuse dump --emit plan --json`; a test compares them.
nb::dict plan_dict(const PlanSummary& plan) {
  nb::dict entry;
  entry["schedule"] = plan.schedule;
  entry["why"] = plan.why;
  entry["compute_type"] = plan.compute_type;
  entry["space"] = tuple_of(plan.space);
  entry["coordinates"] = plan.coordinates;
  entry["index_bits"] = plan.index_bits;
  entry["steps"] = plan.steps;
  entry["steps_of"] = plan.steps_of;
  entry["threads"] = plan.threads;
  entry["blocks"] = plan.blocks;
  entry["reverse_order"] = plan.reverse_order;
  entry["elements"] = plan.elements;
  entry["elements_per_access"] = plan.elements_per_access;
  entry["bytes_read"] = plan.bytes_read;
  entry["bytes_written"] = plan.bytes_written;
  entry["bytes_read_again"] = plan.bytes_read_again;
  entry["bytes_from_caches"] = plan.bytes_from_caches;
  entry["workspace_bytes"] = plan.workspace_bytes;
  entry["bytes_per_thread"] = plan.bytes_per_thread;
  entry["reduction"] = plan.reduction ? nb::object(reduction_dict(*plan.reduction)) : nb::none();
  entry["instructions"] = plan.instructions;
  entry["formulas"] = plan.formulas;
  entry["added_ulps"] = plan.added_ulps;
  entry["kernel_class"] = plan.kernel_class;
  entry["products"] = plan.products;
  nb::list operands;
  for (const OperandSummary& operand : plan.operands) operands.append(operand_dict(operand));
  entry["operands"] = operands;
  return entry;
}

nb::dict stats_dict(const EngineStats& stats) {
  nb::dict entry;
  entry["launches"] = stats.launches;
  entry["kernels"] = stats.kernels;
  entry["compiles"] = stats.compiles;
  entry["bundle_hits"] = stats.bundle_hits;
  entry["disk_hits"] = stats.disk_hits;
  entry["compile_ms"] = stats.compile_ms;
  entry["disk_misses"] = stats.disk_misses;
  entry["bad_entries"] = stats.bad_entries;
  entry["vain_waits"] = stats.vain_waits;
  entry["saved_ms"] = stats.saved_ms;
  return entry;
}

nb::dict all_stats_dict() {
  nb::dict entry;
  for (const auto& [device, stats] : all_stats()) entry[device.c_str()] = stats_dict(stats);
  return entry;
}

nb::dict kernel_dict(const KernelStats& kernel) {
  nb::dict entry;
  entry["name"] = kernel.name;
  entry["chain"] = kernel.chain;
  entry["kernel_class"] = kernel.kernel_class;
  entry["origin"] = kernel.origin;
  entry["registers"] = kernel.registers;
  entry["spilled_bytes"] = kernel.spilled_bytes;
  entry["launches"] = kernel.launches;
  entry["bytes"] = kernel.bytes;
  return entry;
}

nb::dict all_kernel_stats_dict() {
  nb::dict entry;
  for (const auto& [device, kernels] : all_kernel_stats()) {
    nb::list list;
    for (const KernelStats& kernel : kernels) list.append(kernel_dict(kernel));
    entry[device.c_str()] = list;
  }
  return entry;
}

nb::dict value_dict(const ChainValue& value) {
  nb::dict entry;
  entry["op"] = value.op;
  entry["arguments"] = value.arguments;
  entry["name"] = value.name;
  entry["constant"] = value.constant;
  entry["dtype"] = std::string(to_string(value.dtype));
  entry["axes"] = value.axes;
  entry["axes_rest"] = value.axes_rest;
  entry["keepdim"] = value.keepdim;
  entry["sizes"] = value.sizes;
  entry["view"] = value.view;
  entry["gives_truth"] = value.gives_truth;
  return entry;
}

nb::list values_of(const Launcher& launcher) {
  nb::list list;
  for (const ChainValue& value : chain_of(launcher.tail()).values) list.append(value_dict(value));
  return list;
}

nb::list operations() {
  nb::list list;
  for (const OpInfo& info : list_operations()) list.append(nb::make_tuple(info.signature, info.group, info.formula));
  return list;
}

nb::list devices() {
  nb::list list;
  for (const DeviceSummary& device : system_report().devices) {
    nb::dict entry;
    entry["index"] = device.index;
    entry["name"] = device.name;
    entry["architecture"] = device.architecture;
    entry["multiprocessors"] = device.multiprocessors;
    entry["l2_bytes"] = device.l2_bytes;
    entry["peak_bandwidth"] = device.peak_bandwidth;
    list.append(entry);
  }
  return list;
}

nb::dict doctor() {
  const SystemReport report = system_report();
  nb::dict entry;
  entry["version"] = report.version;
  entry["nvrtc"] = report.nvrtc;
  entry["nvrtc_architectures"] = report.nvrtc_architectures;
  entry["driver"] = report.driver;
  entry["cache_directory"] = report.cache_directory;
  entry["devices"] = devices();
  entry["problems"] = report.problems;
  return entry;
}

void bind_launcher(nb::module_& module) {
  nb::class_<Launcher>(module, "Launcher", "A chain with what its results shall be. epifuse.Tail is its face.")
      .def(nb::init<const std::string&, const std::vector<std::string>&, const std::vector<std::optional<std::string>>&,
                    const std::vector<std::optional<std::vector<std::int64_t>>>&>(),
           nb::arg("text"), nb::arg("scalars") = nb::list(), nb::arg("dtypes") = nb::list(),
           nb::arg("orders") = nb::list(),
           "Parses `text`; `dtypes` and `orders` fix the types of the results and how their dimensions lie in memory. "
           "ValueError for bad text.")
      .def("run", &Launcher::run, "Launches on arrays, then run-time scalars, by position; returns the results.")
      .def(
          "call",
          [](const Launcher& self, const nb::tuple& arguments, const nb::dict& named, const nb::object& out,
             const nb::object& dtypes) { return self.call(nb::borrow<nb::args>(arguments), named, out, dtypes); },
          nb::arg("arguments"), nb::arg("named"), nb::arg("out").none(), nb::arg("dtypes").none(),
          "Launches; see epifuse.Tail.")
      .def(
          "launch",
          [](const Launcher& self, const nb::tuple& arguments, const nb::object& out, const nb::object& dtypes) {
            return self.launch(nb::borrow<nb::args>(arguments), out, dtypes);
          },
          nb::arg("arguments"), nb::arg("out").none(), nb::arg("dtypes") = nb::none(),
          "The same for callers who know the order: operands, then run-time scalars.")
      .def(
          "prepare",
          [](const Launcher& self, const nb::tuple& arguments, const nb::dict& named, const nb::object& out,
             const nb::object& dtypes) { self.prepare(nb::borrow<nb::args>(arguments), named, out, dtypes); },
          nb::arg("arguments"), nb::arg("named"), nb::arg("out").none(), nb::arg("dtypes").none(),
          "Compiles and launches nothing.")
      .def(
          "inspect",
          [](const Launcher& self, const nb::list& arguments, const nb::object& dtypes, int architecture,
             int multiprocessors, std::int64_t l2_bytes, double bandwidth) {
            return self.inspect(arguments, dtypes, {architecture, multiprocessors, l2_bytes, bandwidth});
          },
          nb::arg("arguments"), nb::arg("dtypes").none(), nb::arg("architecture"), nb::arg("multiprocessors"),
          nb::arg("l2_bytes") = 0, nb::arg("bandwidth") = 0.0,
          "Plans a launch; arguments are arrays or tuples (type, shape, strides or None). The GPU's numbers may be 0: "
          "those of a usual device.")
      .def("values", &values_of, "The values of the chain as dictionaries, in order.")
      .def_prop_ro(
          "result_values", [](const Launcher& self) { return chain_of(self.tail()).results; },
          "Positions of the results in values().")
      .def_prop_ro(
          "inputs", [](const Launcher& self) { return self.tail().inputs(); },
          "Names of the tensor operands, in order.")
      .def_prop_ro(
          "scalars", [](const Launcher& self) { return self.tail().scalars(); },
          "Names of the run-time scalars, in order.")
      .def_prop_ro(
          "results", [](const Launcher& self) { return self.tail().results(); }, "Names of the results, in order.")
      .def("subchain", &Launcher::subchain, nb::arg("writes"), nb::arg("known"), nb::arg("in_f64"),
           "The part of the chain that computes some of its values, by position, from operands and other values: its "
           "text, and the positions of what it reads. `in_f64`: it computes in f64 whatever it reads.")
      .def("compute_type", &Launcher::compute_type, nb::arg("operands"), nb::arg("results"),
           "What a launch computes in, for operands (type, shape) and results of these types: f32 or f64.")
      .def("result_types", &Launcher::result_types, nb::arg("dtypes"), nb::arg("ranks"),
           "The types of new results for operands of these types and numbers of dimensions.")
      .def_prop_ro("dtypes", &Launcher::dtypes, "Types of the results, in order; None where the operands decide.")
      .def_prop_ro(
          "is_elementwise", [](const Launcher& self) { return self.tail().is_elementwise(); },
          "No reductions and no shape operations.")
      .def_prop_ro(
          "text", [](const Launcher& self) { return self.text(); }, "The chain in the text language.")
      .def_prop_ro(
          "stated_text", [](const Launcher& self) { return self.stated_text(); },
          "The same, which states the order of the operands where the given text does.")
      .def_prop_ro("unordered", &Launcher::unordered,
                   "Why operands are not taken by position: nobody stated their order. None where somebody did.");
}

void bind_inspection(nb::module_& module) {
  nb::class_<Inspection>(module, "Inspection", "What EpiFuse plans, emits and compiles for a chain and its arrays.")
      .def_prop_ro(
          "summary", [](const Inspection& self) { return plan_dict(self.plan()); }, "The plan as a dictionary.")
      .def(
          "plan_text",
          [](const Inspection& self, double bandwidth, int registers) { return self.plan_text(bandwidth, registers); },
          nb::arg("bandwidth") = 0.0, nb::arg("registers") = 0,
          "The plan for people; `bandwidth` in bytes per second gives the time that the bytes need (0: unknown).")
      .def_prop_ro(
          "source", [](const Inspection& self) { return self.cuda(); }, "The CUDA source.")
      .def(
          "ptx", [](const Inspection& self, int architecture) { return self.ptx(architecture); },
          nb::arg("architecture"), nb::call_guard<nb::gil_scoped_release>(),
          "PTX for an architecture such as 90, by NVRTC. epifuse.Error without NVRTC.")
      .def(
          "registers", [](const Inspection& self, int architecture) { return self.registers(architecture); },
          nb::arg("architecture"), nb::call_guard<nb::gil_scoped_release>(),
          "Registers per thread of the kernel compiled for that architecture.");
}

std::string_view name_of(GradientSource source) {
  constexpr std::array<std::string_view, 5> kNames = {"gradient", "result", "saved", "operand", "shape"};
  return kNames.at(static_cast<std::size_t>(source));
}

nb::dict gradient_dict(const std::string& text, const std::vector<std::string>& scalars,
                       const std::vector<std::string>& wrt, const std::vector<std::string>& overwritten) {
  const Gradient found = gradient(Epilogue::parse(text, scalars), wrt, {overwritten});
  nb::dict entry;
  entry["forward"] = found.forward.str();
  entry["backward"] = found.backward.str();
  entry["saved"] = found.saved;
  nb::list operands;
  for (const GradientOperand& operand : found.operands)
    operands.append(nb::make_tuple(operand.name, std::string(name_of(operand.source)), operand.index));
  entry["operands"] = operands;
  return entry;
}

}  // namespace

NB_MODULE(_core, module) {
  nb::set_leak_warnings(false);  // PyTorch's caches of compiled code outlive the interpreter, and hold launchers
  bind_errors();
  bind_launcher(module);
  bind_inspection(module);
  module.def("operations", &operations, "The operations of the language: (signature, group, definition).");
  module.def("stats", &all_stats_dict,
             "Counters of each device's engine: launches, kernels, compiles, bundle_hits, disk_hits, compile_ms, "
             "disk_misses, bad_entries, "
             "vain_waits, saved_ms (docs/guide/python.md).");
  module.def(
      "kernel_stats", &all_kernel_stats_dict,
      "The kernels of each device's engine, those that moved most bytes first: name, chain, kernel_class, origin, "
      "registers, spilled_bytes, launches, bytes (docs/guide/python.md).");
  module.def("gradient", &gradient_dict, "The gradient of a chain as text: (text, scalars, wrt, overwritten).");
  module.def("doctor", &doctor, "What this machine has, and in `problems` what is missing. Never raises.");
  module.def("devices", &devices, "The GPUs that the driver lists.");
  module.attr("version") = version();
}

}  // namespace epifuse::python
