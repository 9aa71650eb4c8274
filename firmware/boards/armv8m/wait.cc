// A bounded wait for an interrupt, timed by SysTick, which runs only during a wait.
#include "boards/armv8m/core.h"
#include "boards/board.h"

namespace {
volatile std::uint32_t ticks_left;
}

extern "C" void systick_handler() {
  if (ticks_left != 0) ticks_left = ticks_left - 1;
}

namespace ethos_hil::board {

bool wait_for(const volatile bool& flag, std::uint32_t milliseconds) {
  using namespace core;
  ticks_left = milliseconds;
  reg(SYST_RVR) = identity().cpu_hz / 1000 - 1;
  reg(SYST_CVR) = 0;
  reg(SYST_CSR) = SYST_CSR_ENABLE | SYST_CSR_TICKINT | SYST_CSR_CLKSOURCE_CPU;
  // Interrupts are masked around the test and the wfi, so that none is taken between the two, which would lose its
  // wake-up. A pending interrupt still ends the wfi, and is taken when the mask is lifted.
  __asm volatile("cpsid i" ::: "memory");
  while (!flag && ticks_left != 0) {
    __asm volatile("dsb\n wfi\n cpsie i\n isb\n cpsid i" ::: "memory");
  }
  __asm volatile("cpsie i" ::: "memory");
  reg(SYST_CSR) = 0;
  return flag;
}

void park() {
  __asm volatile("cpsid i" ::: "memory");
  while (true) __asm volatile("wfi");
}

}  // namespace ethos_hil::board
