// What boards with an Armv8.1-M core differ in besides addresses (soc.h) and UART (uart.h). Each kind of board has a
// folder with it, its port. What most have in common is a file of armv8m/ that a port may have one of its own instead
// of: npu_handler.cc and sram_port.cc.
#pragma once

#include "boards/board.h"

namespace ethos_hil::port {

// Gives UART and NPU what they need: power, clocks, pins. Called before either is used, and again after a restart of
// the firmware. What does not answer is left: the NPU is then found missing, with a message. Returns the clocks that it
// leaves; 0 stands for what soc.h has.
board::Clocks prepare();

}  // namespace ethos_hil::port
