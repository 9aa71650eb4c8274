// Instructions that may fault and go on. Each has a row in the table of recover.cc: where it is, what may stop it, and
// where the program goes on then. Any other fault is reported (fault.cc).
#pragma once

#include <cstdint>

namespace ethos_hil::core {

// The fault status registers, and the program counter that the core stacked.
struct FaultState {
  std::uint32_t cfsr;
  std::uint32_t hfsr;
  std::uint32_t sfsr;
  std::uintptr_t pc;
};

// Where to resume after this fault, or 0 when no row of the table allows it.
std::uintptr_t resume_after(const FaultState& state);

}  // namespace ethos_hil::core
