// Whether a delegate's output is an output of the whole method, so that its bytes need not be sent twice.
#pragma once

#include <cstdint>

#include "runtime/method.h"

namespace ethos_hil {

constexpr std::uint32_t NO_OUTPUT = UINT32_MAX;

// The method's output that is the value `value`, if nothing after instruction `at` can change it; otherwise NO_OUTPUT.
std::uint32_t final_output(Method& method, std::uint32_t value, std::uint32_t at);

}  // namespace ethos_hil
