// Generated from harness/boards/data/numaker-m55m1.toml (harness/socs/firmware_files.py). Do not edit.
// Nuvoton M55M1, Cortex-M55. Addresses are those of secure code.
#pragma once

#include <cstdint>

namespace ethos_hil::soc {

constexpr std::uint16_t NUMBER = 1010;
constexpr std::uintptr_t UARTS[] = {0x4024d000};  // where UART 0 may be
constexpr std::uintptr_t NPU_BASE = 0x40003000;
constexpr std::uint32_t NPU_IRQ = 13;
constexpr std::uint32_t INTERRUPTS = 162;
constexpr std::uintptr_t TIMING_ADAPTERS[] = {0x00000000, 0x00000000};
constexpr std::uint32_t CPU_HZ = 220'000'000;
constexpr std::uint32_t PERIPHERAL_HZ = 12'000'000;

}  // namespace ethos_hil::soc
