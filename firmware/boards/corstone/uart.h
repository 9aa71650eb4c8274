// CMSDK APB UART 0, transmit only. Registers: Arm Cortex-M System Design Kit TRM (DDI 0479), "APB UART".
#pragma once

#include <cstddef>
#include <cstdint>

namespace ethos_hil::corstone {

// Looks for the UART at the addresses of soc.h. Where it is at none, uart_write() drops what it gets.
void uart_initialise();

// The address of the UART that was found, or 0.
std::uintptr_t uart_address();

// The baud rate from now on, if the UART can have it (at least 16 cycles of its clock for a bit). 0 stands for the
// clock of soc.h and for 115,200 baud.
void uart_set_speed(std::uint32_t clock_hz, std::uint32_t baud);

void uart_write(const std::uint8_t* bytes, std::size_t count);

}  // namespace ethos_hil::corstone
