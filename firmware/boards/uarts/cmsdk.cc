// CMSDK APB UART. Registers: Arm Cortex-M System Design Kit TRM (DDI 0479), "APB UART".
#include "boards/board.h"
#include "boards/uart.h"
#include "soc.h"

namespace ethos_hil::uart {

namespace {

enum Index : std::uint32_t { DATA, STATE, CONTROL, INTERRUPT, BAUD_DIVIDER, IDENTIFICATION = 0xFE0 / 4 };
constexpr std::uint32_t STATE_TX_FULL = 1u << 0;
constexpr std::uint32_t STATE_RX_FULL = 1u << 1;
constexpr std::uint32_t STATE_RX_OVERRUN = 1u << 3;  // a one clears it
constexpr std::uint32_t CONTROL_TX_ENABLE = 1u << 0;
constexpr std::uint32_t CONTROL_RX_ENABLE = 1u << 1;
constexpr std::uint32_t LEAST_DIVIDER = 16;

// PID0 to PID2 and CID0 to CID3. PID3 has the revision of a customer.
constexpr std::uint8_t IDENTITY[] = {0x21, 0xB8, 0x1B};
constexpr std::uint8_t COMPONENT[] = {0x0D, 0xF0, 0x05, 0xB1};

// The UART cannot tell when its shift register is empty. It divides the clock of its bus, on which a read takes two
// cycles at least (AMBA APB protocol, IHI 0024), so that many reads of STATE take as long as a byte.
constexpr std::uint32_t BITS_OF_BYTE = 10;
constexpr std::uint32_t CYCLES_OF_READ = 2;

volatile std::uint32_t* uart;
std::uint32_t clock = soc::PERIPHERAL_HZ;
std::uint32_t speed = BAUD;
std::uint32_t divider = soc::PERIPHERAL_HZ / BAUD;
std::uint32_t lost_bytes;
std::uint32_t reads_left;  // until the last byte has left

bool reads(const volatile std::uint32_t* at, std::uint32_t expected) {
  std::uint32_t value;
  return board::try_load(at, value) && value == expected;
}

bool is_identified(const volatile std::uint32_t* base) {
  const volatile std::uint32_t* at = base + IDENTIFICATION;
  for (const std::uint8_t byte : IDENTITY) {
    if (!reads(at++, byte)) return false;
  }
  ++at;
  for (const std::uint8_t byte : COMPONENT) {
    if (!reads(at++, byte)) return false;
  }
  return true;
}

// A simulator's UART may lack the identification. It has a divider that keeps what is written; nothing else here does.
bool keeps_divider(volatile std::uint32_t* base) {
  return board::try_store(base + BAUD_DIVIDER, divider) && reads(base + BAUD_DIVIDER, divider);
}

volatile std::uint32_t* find() {
  for (const std::uintptr_t address : soc::UARTS) {
    auto* base = reinterpret_cast<volatile std::uint32_t*>(address);
    if (is_identified(base)) return base;
  }
  for (const std::uintptr_t address : soc::UARTS) {
    auto* base = reinterpret_cast<volatile std::uint32_t*>(address);
    if (keeps_divider(base)) return base;
  }
  return nullptr;
}

// A byte that comes while the last one was not read is lost, and sets a bit once, however many follow.
std::uint32_t read_state() {
  const std::uint32_t state = uart[STATE];
  if ((state & STATE_RX_OVERRUN) != 0) {
    ++lost_bytes;
    uart[STATE] = STATE_RX_OVERRUN;
  }
  return state;
}

}  // namespace

bool initialise() {
  uart = find();
  if (uart == nullptr) return false;
  set_speed(0, 0);
  uart[CONTROL] = CONTROL_TX_ENABLE | CONTROL_RX_ENABLE;
  return true;
}

std::uintptr_t address() { return reinterpret_cast<std::uintptr_t>(uart); }

void set_speed(std::uint32_t clock_hz, std::uint32_t baud) {
  if (clock_hz == 0) clock_hz = clock;
  if (baud == 0) baud = speed;
  if (clock_hz / baud < LEAST_DIVIDER) return;
  clock = clock_hz;
  speed = baud;
  divider = clock / speed;
  if (uart != nullptr) uart[BAUD_DIVIDER] = divider;
}

bool try_write(std::uint8_t byte) {
  if (uart == nullptr) return true;
  if ((read_state() & STATE_TX_FULL) != 0) return false;
  uart[DATA] = byte;
  reads_left = divider * BITS_OF_BYTE / CYCLES_OF_READ;
  return true;
}

bool try_read(std::uint8_t& byte) {
  if (uart == nullptr || (read_state() & STATE_RX_FULL) == 0) return false;
  byte = static_cast<std::uint8_t>(uart[DATA]);
  return true;
}

std::uint32_t lost() { return lost_bytes; }

bool is_drained() {
  if (uart == nullptr || reads_left == 0) return true;
  if ((read_state() & STATE_TX_FULL) == 0) --reads_left;
  return false;
}

}  // namespace ethos_hil::uart
