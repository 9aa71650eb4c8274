// Addresses and clocks of the Corstone-320 (SSE-320 on MPS4), secure aliases. The non-secure alias of each is
// 0x10000000 lower. Memories are in corstone320.ld.
#pragma once

#include <cstdint>

namespace ethos_hil::corstone {

constexpr std::uint16_t NUMBER = 320;
// CMSDK APB UART 0. Sources disagree: 0x59303000 according to CMSIS, whose template for this board warns of the other
// address; 0x58203000 according to Zephyr's mps4_corstone320 device tree. CMake's ETHOS_HIL_UART_BASE decides.
constexpr std::uintptr_t UART0_BASE = ETHOS_HIL_UART_BASE;
// Register block of the Ethos-U85 and its interrupt: Zephyr's mps4_corstone320 device tree.
constexpr std::uintptr_t NPU_BASE = 0x50004000;
constexpr std::uint32_t NPU_IRQ = 16;
// Arm's core_platform, targets/corstone-320.
constexpr std::uintptr_t TIMING_ADAPTERS[] = {0x50006000, 0x50006800};
// The system clock of Zephyr's device tree, for both.
constexpr std::uint32_t CPU_HZ = 25'000'000;
constexpr std::uint32_t PERIPHERAL_HZ = 25'000'000;

}  // namespace ethos_hil::corstone
