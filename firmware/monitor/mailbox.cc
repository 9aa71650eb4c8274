#include "monitor/mailbox.h"

#include <cstring>

#include "boards/uart.h"
#include "link/crc32.h"

// The host finds it by its name. Nothing clears it: `.mailbox` is neither in .data nor in .bss.
extern "C" {
[[gnu::section(".mailbox"), gnu::used]] ethos_hil::Mailbox monitor_mailbox{};
}

namespace ethos_hil::monitor {

namespace {

std::uint32_t checksum() { return crc32(&monitor_mailbox, offsetof(Mailbox, crc32)); }

}  // namespace

bool is_requested() {
  return std::memcmp(monitor_mailbox.magic, MAILBOX_MAGIC, sizeof monitor_mailbox.magic) == 0 &&
         monitor_mailbox.crc32 == checksum();
}

void request(const board::Clocks& clocks) {
  monitor_mailbox = {};
  std::memcpy(monitor_mailbox.magic, MAILBOX_MAGIC, sizeof monitor_mailbox.magic);
  monitor_mailbox.cpu_hz = clocks.cpu_hz;
  monitor_mailbox.peripheral_hz = clocks.peripheral_hz;
  // 0 would be the speed at that time, which may be a faster one by then.
  monitor_mailbox.baud = monitor_mailbox.first_baud = clocks.baud != 0 ? clocks.baud : uart::BAUD;
  monitor_mailbox.crc32 = checksum();
}

board::Clocks clocks() { return {monitor_mailbox.cpu_hz, monitor_mailbox.peripheral_hz, monitor_mailbox.baud}; }

std::uint32_t first_baud() { return monitor_mailbox.first_baud; }

void set_baud(std::uint32_t baud) {
  monitor_mailbox.baud = baud;
  monitor_mailbox.crc32 = checksum();
}

}  // namespace ethos_hil::monitor
