// What a plan says of bytes where views read an element several times: from memory once, and again from caches or from
// shared memory. Called by explain.cpp.
#pragma once

#include <epifuse/inspect.hpp>

#include "plan/bind/views.hpp"
#include "plan/plan.hpp"

namespace epifuse::plan {

/// Counts elements once that views share which read a tensor side by side. The operands of `summary` are there, and no
/// sum of their bytes.
void count_views_once(PlanSummary& summary, const Lowered& lowered, const Plan& plan, const Machine& machine);

/// The same of rows, and of windows with dimensions of their own. The sums are there, too.
void count_rows_once(PlanSummary& summary, const Lowered& lowered, const Plan& plan);
void count_windows_once(PlanSummary& summary, const Lowered& lowered);
void count_rows_read_again(PlanSummary& summary, const Lowered& lowered, const Plan& plan);

}  // namespace epifuse::plan
