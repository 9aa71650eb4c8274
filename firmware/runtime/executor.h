// Runs a method's chain of instructions once.
#pragma once

#include "runtime/method.h"

namespace ethos_hil {

// The instructions of one execution, counting those in loops each time. It is far above any real program, and low
// enough that an endless loop ends with an error in seconds.
constexpr std::uint32_t MAX_STEPS = 1'000'000;

struct ExecuteOptions {
  std::uint32_t npu_timeout_ms;
  bool send_delegate_outputs;
  // Prefixes of the delegates' command streams, which each call runs before all of its stream.
  const Cut* cuts;
  std::uint32_t cut_count;
  // Receives the counters of each job when it finishes.
  void (*count)(std::uint32_t instruction, std::uint32_t delegate, const npu::JobCounters& counters);
  std::uint32_t max_steps = MAX_STEPS;
};

// Runs the method once. Inputs must be in place. Ends in an error when an instruction cannot be executed.
void execute(Method& method, const ExecuteOptions& options);

}  // namespace ethos_hil
