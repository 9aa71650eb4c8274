// The serial interface of Renesas' RA8 parts (SCI_B) as a UART with FIFOs. Registers: Renesas' FSP, R7KA8P1KF_core0.h
// and R7FA8M1AH.h, R_SCI_B0_Type; their order of use: r_sci_b_uart.c. The port connects its clock and pins.
#include "boards/board.h"
#include "boards/uart.h"
#include "soc.h"

namespace ethos_hil::uart {

namespace {

enum Index : std::uint32_t {
  RECEIVED = 0x00 / 4,
  TRANSMIT = 0x04 / 4,
  CONTROL0 = 0x08 / 4,
  CONTROL1 = 0x0C / 4,
  CONTROL2 = 0x10 / 4,
  CONTROL3 = 0x14 / 4,
  CONTROL4 = 0x18 / 4,
  ENABLED = 0x1C / 4,
  FIFO_CONTROL = 0x24 / 4,
  STATUS = 0x48 / 4,
  RECEIVE_FIFO = 0x50 / 4,
  TRANSMIT_FIFO = 0x54 / 4,
  CLEAR = 0x68 / 4,
};
constexpr std::uint32_t CONTROL0_ON = 1u << 0 | 1u << 4;  // receiver, transmitter
constexpr std::uint32_t CONTROL1_IDLE_HIGH = 3u << 4;     // what the pin is while the transmitter is off
constexpr std::uint32_t CONTROL2_8_CYCLES =
    1u << 4 | 1u << 5;  // BGDM and ABCS: eight cycles of the divided clock a bit
constexpr std::uint32_t CONTROL2_NO_MODULATION = 0xFFu << 24 | 4;  // and a field for smart cards as after reset
constexpr std::uint32_t CONTROL2_DIVIDER_SHIFT = 8;
constexpr std::uint32_t CONTROL3_8_BITS = 2u << 8;
constexpr std::uint32_t CONTROL3_LOW_BIT_FIRST = 1u << 12;
constexpr std::uint32_t CONTROL3_FALLING_EDGE = 1u << 15;  // marks a start bit, not a low level
constexpr std::uint32_t CONTROL3_FIFO = 1u << 20;
constexpr std::uint32_t ENABLED_RECEIVER = 1u << 0;  // follow CONTROL0 after some cycles
constexpr std::uint32_t ENABLED_TRANSMITTER = 1u << 4;
constexpr std::uint32_t FIFO_RESET = 1u << 15 | 1u << 23;  // both directions
constexpr std::uint32_t STATUS_OVERRUN = 1u << 24;
constexpr std::uint32_t STATUS_SENT = 1u << 30;
constexpr std::uint32_t CLEAR_ALL = 0x9D070010;
constexpr std::uint32_t CLEAR_RECEIVED = 1u << 31;
constexpr std::uint32_t COUNT_SHIFT = 8;  // of RECEIVE_FIFO
constexpr std::uint32_t COUNT_MASK = 0x3F;
constexpr std::uint32_t FIFO_BYTES = 16;
constexpr std::uint32_t CYCLES_OF_BIT = 8;
constexpr std::uint32_t POLLS = 100'000;  // far more than the few cycles that a change takes

volatile std::uint32_t* uart;
std::uint32_t clock = soc::PERIPHERAL_HZ;
std::uint32_t speed = BAUD;
std::uint32_t lost_bytes;

void wait_for(std::uint32_t enabled) {
  for (std::uint32_t i = 0; i < POLLS; ++i) {
    if ((uart[ENABLED] & (ENABLED_RECEIVER | ENABLED_TRANSMITTER)) == enabled) return;
  }
}

// A byte of a write to the low half of the register: the upper bytes have other meanings.
void put(std::uint8_t byte) { *reinterpret_cast<volatile std::uint8_t*>(uart + TRANSMIT) = byte; }

}  // namespace

bool initialise() {
  uart = reinterpret_cast<volatile std::uint32_t*>(soc::UARTS[0]);
  std::uint32_t status;
  if (!board::try_load(uart + STATUS, status)) {
    uart = nullptr;
    return false;
  }
  set_speed(0, 0);
  return true;
}

std::uintptr_t address() { return reinterpret_cast<std::uintptr_t>(uart); }

// Everything is set again, because it can only change while both directions are off.
void set_speed(std::uint32_t clock_hz, std::uint32_t baud) {
  if (clock_hz == 0) clock_hz = clock;
  if (baud == 0) baud = speed;
  const std::uint32_t rate = CYCLES_OF_BIT * baud;
  const std::uint32_t divider = (clock_hz + rate / 2) / rate;
  if (divider == 0 || divider > 0x100) return;
  clock = clock_hz;
  speed = baud;
  if (uart == nullptr) return;
  uart[CONTROL0] = 0;
  wait_for(0);
  uart[CONTROL3] = CONTROL3_8_BITS | CONTROL3_LOW_BIT_FIRST | CONTROL3_FALLING_EDGE | CONTROL3_FIFO;
  uart[CONTROL2] = CONTROL2_NO_MODULATION | CONTROL2_8_CYCLES | (divider - 1) << CONTROL2_DIVIDER_SHIFT;
  uart[CONTROL1] = CONTROL1_IDLE_HIGH;
  uart[CONTROL4] = 0;
  uart[FIFO_CONTROL] = FIFO_RESET;
  uart[CLEAR] = CLEAR_ALL;
  uart[CONTROL0] = CONTROL0_ON;
  wait_for(ENABLED_RECEIVER | ENABLED_TRANSMITTER);
}

bool try_write(std::uint8_t byte) {
  if (uart == nullptr) return true;
  if ((uart[TRANSMIT_FIFO] & COUNT_MASK) >= FIFO_BYTES) return false;
  put(byte);
  return true;
}

bool try_read(std::uint8_t& byte) {
  if (uart == nullptr) return false;
  // With the flag set the receiver stands still.
  if ((uart[STATUS] & STATUS_OVERRUN) != 0) {
    ++lost_bytes;
    uart[CLEAR] = STATUS_OVERRUN;
  }
  if ((uart[RECEIVE_FIFO] >> COUNT_SHIFT & COUNT_MASK) == 0) return false;
  byte = static_cast<std::uint8_t>(uart[RECEIVED]);
  uart[CLEAR] = CLEAR_RECEIVED;
  return true;
}

std::uint32_t lost() { return lost_bytes; }

bool is_drained() { return uart == nullptr || (uart[STATUS] & STATUS_SENT) != 0; }

}  // namespace ethos_hil::uart
