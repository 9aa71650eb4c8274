// Semihosting on a CPU of the M profile: a breakpoint of a certain number, the operation in r0 and its argument in r1,
// the answer in r0 (Arm, "Semihosting for AArch32 and AArch64"). With nobody there to take it the breakpoint is a
// HardFault, which fault.cc turns into an answer of -1.
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
