// From EngineOptions, PlanTarget and the environment to what jit/ and plan/ take. For the files of api/.
#pragma once

#include <epifuse/engine.hpp>
#include <epifuse/inspect.hpp>

#include "jit/bundle.hpp"
#include "jit/compiler.hpp"
#include "plan/device/machine.hpp"

namespace epifuse {

/// Throws Error(io) for one that cannot be used.
jit::Bundle open_bundle(const Bundle& bundle);

/// Opens the bundles. Throws Error(io) for one that cannot be used, Error(invalid_argument) for a setting that is none.
jit::CompilerOptions compiler_options(const EngineOptions& options);

/// Throws Error(invalid_argument) for what is no GPU.
plan::Machine machine_of(const PlanTarget& target);
/// As the tool's --arch: what NVRTC knows of these, it says itself.
void check_architecture(int architecture);

}  // namespace epifuse
