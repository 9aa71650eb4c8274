// The UART of Nuvoton's NuMicro parts, of the M55M1 for one. Registers: Nuvoton's M55M1BSP,
// Library/Device/Nuvoton/M55M1/Include/uart_reg.h; the divider: Library/StdDriver/inc/uart.h. The port connects its
// clock and pins.
#include "boards/board.h"
#include "boards/uart.h"
#include "soc.h"

namespace ethos_hil::uart {

namespace {

enum Index : std::uint32_t {
  DATA = 0x00 / 4,
  INTERRUPT_ENABLE = 0x04 / 4,
  FIFO = 0x08 / 4,
  LINE = 0x0C / 4,
  FIFO_STATUS = 0x18 / 4,
  BAUD_RATE = 0x24 / 4,
  FUNCTION = 0x30 / 4,
};
constexpr std::uint32_t LINE_8_BITS = 3;
constexpr std::uint32_t STATUS_OVERFLOW = 1u << 0;  // a one clears it
constexpr std::uint32_t STATUS_RX_EMPTY = 1u << 14;
constexpr std::uint32_t STATUS_TX_FULL = 1u << 23;
constexpr std::uint32_t STATUS_TX_EMPTY = 1u << 28;  // the last stop bit has left
// Mode 2: a bit takes as many cycles as the divider says, and two more. The divider is 9 at least.
constexpr std::uint32_t MODE_2 = 3u << 28;
constexpr std::uint32_t MODE_2_MORE = 2;
constexpr std::uint32_t LEAST_DIVIDER = 9;

volatile std::uint32_t* uart;
std::uint32_t clock = soc::PERIPHERAL_HZ;
std::uint32_t speed = BAUD;
std::uint32_t lost_bytes;

std::uint32_t read_status() {
  const std::uint32_t status = uart[FIFO_STATUS];
  if ((status & STATUS_OVERFLOW) != 0) {
    ++lost_bytes;
    uart[FIFO_STATUS] = STATUS_OVERFLOW;
  }
  return status;
}

}  // namespace

bool initialise() {
  uart = reinterpret_cast<volatile std::uint32_t*>(soc::UARTS[0]);
  std::uint32_t status;
  if (!board::try_load(uart + FIFO_STATUS, status)) {
    uart = nullptr;
    return false;
  }
  uart[FUNCTION] = 0;  // a UART, none of the other things that this block can be
  uart[INTERRUPT_ENABLE] = 0;
  uart[LINE] = LINE_8_BITS;
  uart[FIFO] = 0;
  set_speed(0, 0);
  return true;
}

std::uintptr_t address() { return reinterpret_cast<std::uintptr_t>(uart); }

void set_speed(std::uint32_t clock_hz, std::uint32_t baud) {
  if (clock_hz == 0) clock_hz = clock;
  if (baud == 0) baud = speed;
  const std::uint32_t cycles = (clock_hz + baud / 2) / baud;
  if (cycles < LEAST_DIVIDER + MODE_2_MORE || cycles - MODE_2_MORE > 0xFFFF) return;
  clock = clock_hz;
  speed = baud;
  if (uart != nullptr) uart[BAUD_RATE] = MODE_2 | (cycles - MODE_2_MORE);
}

bool try_write(std::uint8_t byte) {
  if (uart == nullptr) return true;
  if ((read_status() & STATUS_TX_FULL) != 0) return false;
  uart[DATA] = byte;
  return true;
}

bool try_read(std::uint8_t& byte) {
  if (uart == nullptr || (read_status() & STATUS_RX_EMPTY) != 0) return false;
  byte = static_cast<std::uint8_t>(uart[DATA]);
  return true;
}

std::uint32_t lost() { return lost_bytes; }

bool is_drained() { return uart == nullptr || (read_status() & STATUS_TX_EMPTY) != 0; }

}  // namespace ethos_hil::uart
