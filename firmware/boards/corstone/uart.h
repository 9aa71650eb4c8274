// CMSDK APB UART 0, transmit only. Registers: Arm Cortex-M System Design Kit TRM (DDI 0479), "APB UART".
#pragma once

#include <cstddef>
#include <cstdint>

namespace ethos_hil::corstone {

void uart_initialise();
void uart_write(const std::uint8_t* bytes, std::size_t count);

}  // namespace ethos_hil::corstone
