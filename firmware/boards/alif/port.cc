// Alif Ensemble. Power and clocks of processor, SRAM and NPU belong to the Secure Enclave, which sets them as its
// device configuration says before it starts the processor. ExecuTorch's sample for the E8 (zephyr/samples/mv2-ethosu)
// asks it for nothing more, so neither does this.
//
// Sources: alif_ensemble-cmsis-dfp, Device/soc/AE822FA0E5597/include/rtss_hp/soc.h and AE722F80F55D5 (addresses, the
// same in both), drivers/include/sys_ctrl_uart.h (clocks of the UARTs), drivers/source/pinconf.c (pins),
// Boards/DevKit-e7/pins.h and Boards/DevKit-e8/pins.h (which pin has which function).
#include "boards/port.h"

#include "boards/armv8m/core.h"
#include "soc.h"

namespace ethos_hil::port {

namespace {

using core::reg;

// The registers of the host's part of the system are where Armv8-M expects memory: the processor may read such a place
// on its own account and join writes to it. Device-nGnRE, for privileged code, never executed.
constexpr std::uint32_t HOST_REGISTERS = 0x1A000000;
constexpr std::uint32_t HOST_REGISTERS_LAST = 0x1A7FFFFF;
constexpr std::uint32_t ATTRIBUTE_DEVICE_NGNRE = 0x04;

constexpr std::uintptr_t UART_CTRL = 0x4902F008;  // CLKCTL_PER_SLV
constexpr std::uint32_t UART_CTRL_ENABLE = 1u << soc::UART_INDEX;
constexpr std::uint32_t UART_CTRL_PCLK = 1u << 8 << soc::UART_INDEX;  // its clock is that of the bus

constexpr std::uintptr_t PINMUX = 0x1A603000;
constexpr std::uint32_t PAD_READ = 1u << 16;

// With firmware 107 of the Secure Enclave SRAM0 and SRAM1 stay without power and clock until these are cleared
// (alif_ml-embedded-evaluation-kit, source/hal/source/platform/alif/source/platform_drivers.c).
constexpr std::uintptr_t SRAM_POWER = 0x1A60A004;
constexpr std::uint32_t SRAM_OFF = 1u << 8 | 1u << 9 | 1u << 12 | 1u << 13;

constexpr std::uintptr_t pin(std::uint32_t port, std::uint32_t number) { return PINMUX + port * 32 + number * 4; }

struct Pins {
  std::uintptr_t receive;
  std::uintptr_t transmit;
  std::uint32_t function;
};
constexpr Pins UART2{pin(1, 0), pin(1, 1), 1};
constexpr Pins UART4{pin(12, 1), pin(12, 2), 2};
static_assert(soc::UART_INDEX == 2 || soc::UART_INDEX == 4, "only the pins of these are known");
constexpr Pins PINS = soc::UART_INDEX == 2 ? UART2 : UART4;

void map_host_registers() {
  using namespace core;
  reg(MPU_CTRL) = 0;
  reg(MPU_MAIR0) = ATTRIBUTE_DEVICE_NGNRE;
  reg(MPU_RNR) = 0;
  reg(MPU_RBAR) = HOST_REGISTERS | MPU_RBAR_XN;
  reg(MPU_RLAR) = (HOST_REGISTERS_LAST & ~0x1Fu) | MPU_RLAR_EN;
  reg(MPU_CTRL) = MPU_CTRL_PRIVDEFENA | MPU_CTRL_ENABLE;  // everything else as without an MPU
  barrier();
}

}  // namespace

board::Clocks prepare() {
  map_host_registers();
  reg(SRAM_POWER) = reg(SRAM_POWER) & ~SRAM_OFF;
  reg(UART_CTRL) = reg(UART_CTRL) | UART_CTRL_ENABLE | UART_CTRL_PCLK;
  reg(PINS.receive) = PAD_READ | PINS.function;
  reg(PINS.transmit) = PINS.function;
  core::barrier();
  return {};
}

}  // namespace ethos_hil::port
