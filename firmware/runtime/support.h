// The check whether this firmware can run a method.
#pragma once

#include "runtime/program.h"

namespace ethos_hil {

// The only backend of this firmware.
constexpr char ETHOS_U_BACKEND[] = "EthosUBackend";

// Ends in ERROR UNSUPPORTED and ERROR NPU_MISMATCH, with all reasons at once, when the method needs an operator, a
// backend, a kind of tensor or memory, or an NPU that this device lacks.
void check_support(const Program& program, const pte::ExecutionPlan& plan);

}  // namespace ethos_hil
