// Generated from harness/boards/data/ek-ra8p1.toml (harness/socs/firmware_files.py). Do not edit.
// Renesas RA8P1, Cortex-M85. Addresses are those of secure code.
#pragma once

#include <cstdint>

namespace ethos_hil::soc {

constexpr std::uint16_t NUMBER = 1020;
constexpr std::uintptr_t UARTS[] = {0x40358800};  // where UART 0 may be
constexpr std::uintptr_t NPU_BASE = 0x40140000;
constexpr std::uint32_t NPU_IRQ = 0;
constexpr std::uint32_t INTERRUPTS = 96;
constexpr std::uintptr_t TIMING_ADAPTERS[] = {0x00000000, 0x00000000};
constexpr std::uint32_t CPU_HZ = 24'000'000;
constexpr std::uint32_t PERIPHERAL_HZ = 24'000'000;

constexpr std::uint32_t NPU_EVENT = 103;

}  // namespace ethos_hil::soc
