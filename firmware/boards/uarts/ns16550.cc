// A 16550 with FIFOs, such as Synopsys' DW_apb_uart. Registers: Zephyr, drivers/serial/uart_ns16550.c; the fraction of
// the divider (DLF): Alif's CMSIS-DFP, drivers/include/uart.h and drivers/source/uart.c.
//
// soc.h has UART_REGISTER_STRIDE, the bytes from one register to the next, and UART_FRACTION_BITS, the bits behind the
// divider's point, 0 where there are none.
#include "boards/board.h"
#include "boards/uart.h"
#include "soc.h"

namespace ethos_hil::uart {

namespace {

enum Register : std::uint32_t {
  DATA = 0,              // with LINE_DIVIDER: the low byte of the divider
  INTERRUPT_ENABLE = 1,  // with LINE_DIVIDER: its high byte
  FIFO_CONTROL = 2,
  LINE = 3,
  MODEM = 4,
  STATUS = 5,
  DIVIDER_FRACTION = 0xC0 / 4,  // in words, whatever the stride
};
constexpr std::uint32_t FIFO_ON = 1u << 0;
constexpr std::uint32_t FIFO_RESET = 1u << 1 | 1u << 2;  // both directions
constexpr std::uint32_t LINE_8_BITS = 3;
constexpr std::uint32_t LINE_DIVIDER = 1u << 7;
constexpr std::uint32_t MODEM_READY = 1u << 0 | 1u << 1;  // DTR, RTS
constexpr std::uint32_t STATUS_RECEIVED = 1u << 0;
constexpr std::uint32_t STATUS_OVERRUN = 1u << 1;  // reading clears it
constexpr std::uint32_t STATUS_ROOM = 1u << 5;     // the transmitter's FIFO is empty
constexpr std::uint32_t STATUS_IDLE = 1u << 6;     // and its shift register too
constexpr std::uint32_t POLLS = 100'000;
constexpr std::uint32_t SETTLE_READS =
    16;                                   // a new divider needs eight cycles of the slower clock before the first byte
constexpr std::uint32_t SAMPLES = 16;     // for a bit
constexpr std::uint32_t FIFO_BYTES = 16;  // at least

volatile std::uint8_t* uart;
std::uint32_t clock = soc::PERIPHERAL_HZ;
std::uint32_t speed = BAUD;
std::uint32_t lost_bytes;
std::uint32_t room;  // bytes that surely fit

volatile std::uint32_t& at(std::uint32_t which) {
  return *reinterpret_cast<volatile std::uint32_t*>(uart + which * soc::UART_REGISTER_STRIDE);
}

std::uint32_t read_status() {
  const std::uint32_t status = at(STATUS);
  if ((status & STATUS_OVERRUN) != 0) ++lost_bytes;
  return status;
}

// Synopsys' UART ignores the write while it sends or receives.
void write_line(std::uint32_t value) {
  for (std::uint32_t i = 0; i < POLLS; ++i) {
    at(LINE) = value;
    if ((at(LINE) & 0xFF) == value) return;
    at(FIFO_CONTROL) = FIFO_ON | FIFO_RESET;
  }
}

}  // namespace

bool initialise() {
  uart = reinterpret_cast<volatile std::uint8_t*>(soc::UARTS[0]);
  std::uint32_t status;
  if (!board::try_load(&at(STATUS), status)) {
    uart = nullptr;
    return false;
  }
  at(INTERRUPT_ENABLE) = 0;
  at(FIFO_CONTROL) = FIFO_ON | FIFO_RESET;
  at(MODEM) = MODEM_READY;
  set_speed(0, 0);
  return true;
}

std::uintptr_t address() { return reinterpret_cast<std::uintptr_t>(uart); }

void set_speed(std::uint32_t clock_hz, std::uint32_t baud) {
  if (clock_hz == 0) clock_hz = clock;
  if (baud == 0) baud = speed;
  constexpr std::uint32_t ONE = 1u << soc::UART_FRACTION_BITS;
  const std::uint64_t rate = std::uint64_t{SAMPLES} * baud;
  const auto divider = static_cast<std::uint32_t>((std::uint64_t{ONE} * clock_hz + rate / 2) / rate);
  if (divider < ONE || divider / ONE > 0xFFFF) return;
  clock = clock_hz;
  speed = baud;
  if (uart == nullptr) return;
  write_line(LINE_DIVIDER | LINE_8_BITS);
  at(DATA) = divider / ONE & 0xFF;
  at(INTERRUPT_ENABLE) = divider / ONE >> 8;
  if (ONE != 1) reinterpret_cast<volatile std::uint32_t*>(uart)[DIVIDER_FRACTION] = divider % ONE;
  write_line(LINE_8_BITS);
  for (std::uint32_t i = 0; i < SETTLE_READS; ++i) static_cast<void>(static_cast<std::uint32_t>(at(LINE)));
}

// Which byte fills the FIFO, the UART does not say; it says when all have gone to the line.
bool try_write(std::uint8_t byte) {
  if (uart == nullptr) return true;
  if (room == 0) {
    if ((read_status() & STATUS_ROOM) == 0) return false;
    room = FIFO_BYTES;
  }
  at(DATA) = byte;
  --room;
  return true;
}

bool try_read(std::uint8_t& byte) {
  if (uart == nullptr || (read_status() & STATUS_RECEIVED) == 0) return false;
  byte = static_cast<std::uint8_t>(at(DATA));
  return true;
}

std::uint32_t lost() { return lost_bytes; }

bool is_drained() { return uart == nullptr || (read_status() & STATUS_IDLE) != 0; }

}  // namespace ethos_hil::uart
