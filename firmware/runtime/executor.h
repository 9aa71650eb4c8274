// Runs a method's chain of instructions once.
#pragma once

#include "runtime/method.h"

namespace ethos_hil {

// Instructions of one execution, those of loops each time. Far more than any program has, and still few enough that one
// which jumps backwards for ever ends by itself, with a word, in seconds.
constexpr std::uint32_t MAX_STEPS = 1'000'000;

struct ExecuteOptions {
  std::uint32_t npu_timeout_ms;
  bool send_delegate_outputs;
  // Takes the counters of every delegate call as it finishes.
  void (*count)(std::uint32_t instruction, std::uint32_t delegate, const npu::JobCounters& counters);
  std::uint32_t max_steps = MAX_STEPS;
};

// Inputs must be in place. Ends in an error when something cannot be done.
void execute(Method& method, const ExecuteOptions& options);

}  // namespace ethos_hil
