// Addresses and clocks of the Corstone-300 (SSE-300 on MPS3), secure aliases. The non-secure alias of each is
// 0x10000000 lower. Memories are in corstone300.ld.
#pragma once

#include <cstdint>

namespace ethos_hil::corstone {

constexpr std::uint16_t NUMBER = 300;
// CMSDK APB UART 0: Corstone-300 device header (UART0_BASE_S), Zephyr's mps3_corstone300 device tree.
constexpr std::uintptr_t UART0_BASE = 0x59303000;
// Register block of the Ethos-U55 or U65 and its interrupt: the same sources.
constexpr std::uintptr_t NPU_BASE = 0x58102000;
constexpr std::uint32_t NPU_IRQ = 56;
// Arm's core_platform, targets/corstone-300.
constexpr std::uintptr_t TIMING_ADAPTERS[] = {0x58103000, 0x58103200};
// MPS3 AN552/AN547: the CPU runs at 32 MHz, the peripheral bus at 25 MHz.
constexpr std::uint32_t CPU_HZ = 32'000'000;
constexpr std::uint32_t PERIPHERAL_HZ = 25'000'000;

}  // namespace ethos_hil::corstone
