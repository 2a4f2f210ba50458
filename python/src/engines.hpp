// One Engine per device for the whole process, and how the library's errors become Python's. For the binding's files
// only.
#pragma once

#include <map>
#include <string>
#include <vector>

#include <nanobind/nanobind.h>

#include <epifuse/epifuse.hpp>

namespace epifuse::python {

/// The engine of a device, made at the first call. Needs no GIL, and must not hold it: making one may take a second.
Engine& engine_for(Device device);

/// Counters of every engine that was made, by device.
std::map<std::string, EngineStats> all_stats();
/// Their kernels, by device.
std::map<std::string, std::vector<KernelStats>> all_kernel_stats();

/// Registers the translation: bad input becomes ValueError, what fails at run time epifuse.Error (_errors.py), with the
/// library's text.
void bind_errors();

}  // namespace epifuse::python
