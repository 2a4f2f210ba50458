// Chains with matrix products on any device: one kernel does all where the device has one; else products go to memory,
// and a chain without products reads them there. For engine.cpp.
#pragma once

#include <memory>

#include "api/engine_impl.hpp"

namespace epifuse {

/// The same engine, which also takes chains with products.
std::unique_ptr<Engine::Impl> with_products(std::unique_ptr<DeviceEngine> engine);

}  // namespace epifuse
