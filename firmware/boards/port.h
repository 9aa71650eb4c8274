// What differs between boards with an Armv8.1-M core, apart from addresses (soc.h) and UART (uart.h). Each kind has a
// folder with it, its port. What most share is in armv8m/: npu_handler.cc and sram_port.cc. A port may have its own
// instead.
#pragma once

#include "boards/board.h"

namespace ethos_hil::port {

// Gives UART and NPU what they need: power, clocks, pins. Called before either is used, and again after a restart of
// the firmware. What does not answer is left: the NPU is then found missing, with a message. Returns the clocks that it
// leaves; 0 stands for what soc.h has.
board::Clocks prepare();

}  // namespace ethos_hil::port
