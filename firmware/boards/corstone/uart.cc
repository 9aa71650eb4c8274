#include "boards/corstone/uart.h"

#include "boards/board.h"
#include "soc.h"

namespace ethos_hil::corstone {

namespace {

enum Index : std::uint32_t { DATA, STATE, CONTROL, INTERRUPT, BAUD_DIVIDER, IDENTIFICATION = 0xFE0 / 4 };
constexpr std::uint32_t STATE_TX_FULL = 1u << 0;
constexpr std::uint32_t CONTROL_TX_ENABLE = 1u << 0;
constexpr std::uint32_t LEAST_DIVIDER = 16;
constexpr std::uint32_t BAUD = 115'200;

// PID0 to PID2 and CID0 to CID3. PID3 has the revision of a customer.
constexpr std::uint8_t IDENTITY[] = {0x21, 0xB8, 0x1B};
constexpr std::uint8_t COMPONENT[] = {0x0D, 0xF0, 0x05, 0xB1};

volatile std::uint32_t* uart;

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
  constexpr std::uint32_t DIVIDER = soc::PERIPHERAL_HZ / BAUD;
  return board::try_store(base + BAUD_DIVIDER, DIVIDER) && reads(base + BAUD_DIVIDER, DIVIDER);
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

}  // namespace

void uart_initialise() {
  uart = find();
  if (uart == nullptr) return;
  uart_set_speed(0, 0);
  uart[CONTROL] = CONTROL_TX_ENABLE;
}

std::uintptr_t uart_address() { return reinterpret_cast<std::uintptr_t>(uart); }

void uart_set_speed(std::uint32_t clock_hz, std::uint32_t baud) {
  if (clock_hz == 0) clock_hz = soc::PERIPHERAL_HZ;
  if (baud == 0) baud = BAUD;
  if (uart != nullptr && clock_hz / baud >= LEAST_DIVIDER) uart[BAUD_DIVIDER] = clock_hz / baud;
}

void uart_write(const std::uint8_t* bytes, std::size_t count) {
  if (uart == nullptr) return;
  for (std::size_t i = 0; i < count; ++i) {
    while ((uart[STATE] & STATE_TX_FULL) != 0) {
    }
    uart[DATA] = bytes[i];
  }
}

}  // namespace ethos_hil::corstone
