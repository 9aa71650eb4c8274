// Semihosting on an M-profile CPU: a breakpoint with a fixed number, the operation in r0, its argument in r1, the
// answer in r0 (Arm, "Semihosting for AArch32 and AArch64"). Without a host the breakpoint is a HardFault, which
// fault.cc turns into the answer -1.
#include "boards/board.h"

extern "C" [[gnu::naked]] std::int32_t semihosting_call(std::uint32_t, const void*) {
  __asm volatile(
      ".global semihosting_trap\n"
      "semihosting_trap:\n"
      "bkpt 0xAB\n"
      "bx lr\n");
}

namespace ethos_hil::board {

std::int32_t semihosting(std::uint32_t operation, const void* argument) {
  return semihosting_call(operation, argument);
}

}  // namespace ethos_hil::board
