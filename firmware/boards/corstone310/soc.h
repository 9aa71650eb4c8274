// Generated from harness/socs/corstone_310.py (harness/socs/firmware_files.py). Do not edit.
// SSE-310 on MPS3, Cortex-M85. Addresses are those of secure code.
#pragma once

#include <cstdint>

namespace ethos_hil::soc {

constexpr std::uint16_t NUMBER = 310;
constexpr std::uintptr_t UARTS[] = {0x59303000};  // where UART 0 may be
constexpr std::uintptr_t NPU_BASE = 0x50004000;
constexpr std::uint32_t NPU_IRQ = 16;
constexpr std::uint32_t INTERRUPTS = 128;
constexpr std::uintptr_t TIMING_ADAPTERS[] = {0x00000000, 0x00000000};
constexpr std::uint32_t CPU_HZ = 32'000'000;
constexpr std::uint32_t PERIPHERAL_HZ = 25'000'000;

}  // namespace ethos_hil::soc
