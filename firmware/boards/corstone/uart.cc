#include "boards/corstone/uart.h"

#include "soc.h"

namespace ethos_hil::corstone {

namespace {

struct Registers {
  std::uint32_t data;
  std::uint32_t state;
  std::uint32_t control;
  std::uint32_t interrupt;
  std::uint32_t baud_divider;
};
constexpr std::uint32_t STATE_TX_FULL = 1u << 0;
constexpr std::uint32_t CONTROL_TX_ENABLE = 1u << 0;
constexpr std::uint32_t BAUD = 115'200;

volatile Registers& uart = *reinterpret_cast<volatile Registers*>(soc::UART0_BASE);

}  // namespace

void uart_initialise() {
  uart.baud_divider = soc::PERIPHERAL_HZ / BAUD;
  uart.control = CONTROL_TX_ENABLE;
}

void uart_write(const std::uint8_t* bytes, std::size_t count) {
  for (std::size_t i = 0; i < count; ++i) {
    while ((uart.state & STATE_TX_FULL) != 0) {
    }
    uart.data = bytes[i];
  }
}

}  // namespace ethos_hil::corstone
