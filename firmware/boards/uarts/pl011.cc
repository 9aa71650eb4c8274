// Arm PL011. Registers: PrimeCell UART (PL011) TRM (DDI 0183), chapter "Programmer's model".
#include "boards/board.h"
#include "boards/uart.h"
#include "soc.h"

namespace ethos_hil::uart {

namespace {

enum Index : std::uint32_t {
  DATA = 0x00 / 4,
  RECEIVE_STATUS = 0x04 / 4,  // any write clears the errors
  FLAGS = 0x18 / 4,
  DIVIDER = 0x24 / 4,
  DIVIDER_FRACTION = 0x28 / 4,
  LINE = 0x2C / 4,
  CONTROL = 0x30 / 4,
  INTERRUPT_MASK = 0x38 / 4,
  PERIPHERAL_ID = 0xFE0 / 4,
};
constexpr std::uint32_t RECEIVE_OVERRUN = 1u << 3;
constexpr std::uint32_t FLAG_BUSY = 1u << 3;
constexpr std::uint32_t FLAG_RX_EMPTY = 1u << 4;
constexpr std::uint32_t FLAG_TX_FULL = 1u << 5;
constexpr std::uint32_t LINE_8_BITS_FIFOS = 3u << 5 | 1u << 4;
constexpr std::uint32_t CONTROL_ON = 1u << 0 | 1u << 8 | 1u << 9;  // UART, transmitter, receiver
constexpr std::uint32_t PART = 0x11;                               // UARTPeriphID0
constexpr std::uint32_t FRACTIONS = 64;
constexpr std::uint32_t SAMPLES = 16;  // for a bit

volatile std::uint32_t* uart;
std::uint32_t clock = soc::PERIPHERAL_HZ;
std::uint32_t speed = BAUD;
std::uint32_t lost_bytes;

volatile std::uint32_t* find() {
  for (const std::uintptr_t address : soc::UARTS) {
    auto* base = reinterpret_cast<volatile std::uint32_t*>(address);
    std::uint32_t id;
    if (board::try_load(base + PERIPHERAL_ID, id) && (id & 0xFF) == PART) return base;
  }
  return nullptr;
}

}  // namespace

bool initialise() {
  uart = find();
  if (uart == nullptr) return false;
  uart[INTERRUPT_MASK] = 0;
  set_speed(0, 0);
  return true;
}

std::uintptr_t address() { return reinterpret_cast<std::uintptr_t>(uart); }

// The divider counts sixteenths of a bit, in steps of a 64th. It takes effect with a write of LINE, and may only change
// while the UART is off.
void set_speed(std::uint32_t clock_hz, std::uint32_t baud) {
  if (clock_hz == 0) clock_hz = clock;
  if (baud == 0) baud = speed;
  const std::uint64_t rate = std::uint64_t{SAMPLES} * baud;
  const auto divider = static_cast<std::uint32_t>((std::uint64_t{FRACTIONS} * clock_hz + rate / 2) / rate);
  if (divider < FRACTIONS || divider / FRACTIONS > 0xFFFF) return;
  clock = clock_hz;
  speed = baud;
  if (uart == nullptr) return;
  uart[CONTROL] = 0;
  uart[DIVIDER] = divider / FRACTIONS;
  uart[DIVIDER_FRACTION] = divider % FRACTIONS;
  uart[LINE] = LINE_8_BITS_FIFOS;
  uart[CONTROL] = CONTROL_ON;
}

bool try_write(std::uint8_t byte) {
  if (uart == nullptr) return true;
  if ((uart[FLAGS] & FLAG_TX_FULL) != 0) return false;
  uart[DATA] = byte;
  return true;
}

bool try_read(std::uint8_t& byte) {
  if (uart == nullptr || (uart[FLAGS] & FLAG_RX_EMPTY) != 0) return false;
  byte = static_cast<std::uint8_t>(uart[DATA]);
  if ((uart[RECEIVE_STATUS] & RECEIVE_OVERRUN) != 0) {
    ++lost_bytes;
    uart[RECEIVE_STATUS] = 0;
  }
  return true;
}

std::uint32_t lost() { return lost_bytes; }

bool is_drained() { return uart == nullptr || (uart[FLAGS] & FLAG_BUSY) == 0; }

}  // namespace ethos_hil::uart
