// Runs a method's chain of instructions once.
#pragma once

#include "runtime/method.h"

namespace ethos_hil {

struct ExecuteOptions {
  std::uint32_t npu_timeout_ms;
  bool send_delegate_outputs;
};

// Inputs must be in place. Sends delegate outputs, if asked for, and counters as the delegates finish. Ends in an ERROR
// frame when something cannot be done.
void execute(Method& method, const ExecuteOptions& options);

}  // namespace ethos_hil
