// Runs a method's chain of instructions once.
#pragma once

#include "runtime/method.h"

namespace ethos_hil {

struct ExecuteOptions {
  std::uint32_t npu_timeout_ms;
  bool send_delegate_outputs;
  // Takes the counters of every delegate call as it finishes.
  void (*count)(std::uint32_t instruction, std::uint32_t delegate, const npu::JobCounters& counters);
};

// Inputs must be in place. Ends in an error when something cannot be done.
void execute(Method& method, const ExecuteOptions& options);

}  // namespace ethos_hil
