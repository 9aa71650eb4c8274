// The cycle counter of the Data Watchpoint and Trace unit. It may stand still while the core sleeps.
#include "boards/armv8m/core.h"
#include "boards/board.h"

namespace ethos_hil::board {

void start_cycle_counter() {
  using namespace core;
  reg(DEMCR) = reg(DEMCR) | DEMCR_TRCENA;
  reg(DWT_CTRL) = reg(DWT_CTRL) | DWT_CTRL_CYCCNTENA;
}

std::uint32_t cycles() { return core::reg(core::DWT_CYCCNT); }

}  // namespace ethos_hil::board
