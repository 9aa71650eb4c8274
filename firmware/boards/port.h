// What boards with an Armv8.1-M core differ in besides addresses (soc.h) and UART (uart.h). Each kind of board has a
// folder with it, its port.
#pragma once

namespace ethos_hil::port {

// Gives UART and NPU what they need: power, clocks, pins. Called once, before either is used. What does not answer is
// left: the NPU is then found missing, with a message.
void prepare();

}  // namespace ethos_hil::port
