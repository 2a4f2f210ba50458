// A list of preparations on several threads. For Engine::prepare and Precompiler::prepare.
#pragma once

#include <cstddef>
#include <functional>

#include <epifuse/engine.hpp>

namespace epifuse {

/// prepare(i) for each i < count, as Engine::prepare promises: on `threads` threads (0: one for each core), each entry
/// though others fail, the first failure thrown in the end.
void prepare_each(std::size_t count, unsigned threads, const std::function<void(std::size_t)>& prepare,
                  const std::function<void(const PreparationProgress&)>& progress);

}  // namespace epifuse
