// Generated from harness/boards/data/alif-e7-hp.toml (harness/socs/firmware_files.py). Do not edit.
// Alif Ensemble E7, M55-HP, Cortex-M55. Addresses are those of secure code.
#pragma once

#include <cstdint>

namespace ethos_hil::soc {

constexpr std::uint16_t NUMBER = 1003;
constexpr std::uintptr_t UARTS[] = {0x4901c000};  // where UART 0 may be
constexpr std::uintptr_t NPU_BASE = 0x400e1000;
constexpr std::uint32_t NPU_IRQ = 55;
constexpr std::uint32_t INTERRUPTS = 480;
constexpr std::uintptr_t TIMING_ADAPTERS[] = {0x00000000, 0x00000000};
constexpr std::uint32_t CPU_HZ = 400'000'000;
constexpr std::uint32_t PERIPHERAL_HZ = 100'000'000;

constexpr std::uint32_t UART_REGISTER_STRIDE = 4;
constexpr std::uint32_t UART_FRACTION_BITS = 4;
constexpr std::uint32_t UART_INDEX = 4;

}  // namespace ethos_hil::soc
