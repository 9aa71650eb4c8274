// Nuvoton NuMicro M55M1. After reset the processor has 12 MHz of an internal oscillator. This gives it 220 MHz, the NPU
// with it, and UART 0 the 12 MHz and the pins of the NuMaker board's debug port.
//
// Sources: Nuvoton's M55M1BSP: Library/Device/Nuvoton/M55M1/Include/M55M1.h, sys_reg.h, clk_reg.h, pmc_reg.h, fmc_reg.h
// (addresses and bits), Library/StdDriver/src/clk.c (the order in which clocks change, and what goes with a speed),
// Library/Device/Nuvoton/M55M1/Source/system_M55M1.c (the debug port), SampleCode/MachineLearning/KeywordSpotting/
// BoardInit.cpp (what the NPU needs).
#include "boards/port.h"

#include "boards/armv8m/core.h"
#include "soc.h"

namespace ethos_hil::port {

namespace {

using core::reg;

constexpr std::uintptr_t SYS_RSTCTL = 0x40000004;
constexpr std::uint32_t RSTCTL_NPU = 1u << 6;
constexpr std::uintptr_t SYS_REGLCTL = 0x40000100;
constexpr std::uintptr_t SYS_UARTRST = 0x400002CC;
constexpr std::uint32_t UARTRST_UART0 = 1u << 0;
constexpr std::uintptr_t SYS_GPB_MFP3 = 0x4000031C;
constexpr std::uint32_t MFP3_PB12_PB13 = 0x1Fu << 0 | 0x1Fu << 8;
constexpr std::uint32_t MFP3_UART0 = 6u << 0 | 6u << 8;  // PB12 receives, PB13 transmits

constexpr std::uintptr_t CLK_SRCCTL = 0x40001000;
constexpr std::uintptr_t CLK_STATUS = 0x40001004;
constexpr std::uint32_t HIRC = 1u << 3;  // 12 MHz, internal; in both
constexpr std::uint32_t HXT = 1u << 4;   // 24 MHz, the crystal
constexpr std::uint32_t APLL0 = 1u << 6;
constexpr std::uint32_t STATUS_SWITCHED = 1u << 8;
constexpr std::uintptr_t CLK_APLL0CTL = 0x40001018;
// 24 MHz / 6 * 2 * 55 / 2 = 220 MHz; stable after 4920 cycles of the crystal.
constexpr std::uint32_t APLL0CTL_220_MHZ = (6u - 1) << 9 | (55u - 2) | 1u << 14 | 2u << 28;
constexpr std::uintptr_t CLK_APLL0SEL = 0x4000101C;
constexpr std::uint32_t APLL0SEL_HXT = 0;
constexpr std::uintptr_t CLK_FMCCTL = 0x4000123C;
constexpr std::uintptr_t CLK_NPUCTL = 0x4000128C;
constexpr std::uintptr_t CLK_SRAMCTL = 0x400012C0;
constexpr std::uint32_t SRAMCTL_ALL = 0xF;
constexpr std::uintptr_t CLK_UARTCTL = 0x400012E0;
constexpr std::uintptr_t CLK_SCLKSEL = 0x40001400;
constexpr std::uint32_t SCLKSEL_MASK = 7;
constexpr std::uint32_t SCLKSEL_HIRC = 0;
constexpr std::uint32_t SCLKSEL_APLL0 = 4;
constexpr std::uintptr_t CLK_UARTSEL0 = 0x40001460;
constexpr std::uint32_t UARTSEL0_UART0 = 7;
constexpr std::uint32_t UARTSEL0_UART0_HIRC = 1;
constexpr std::uintptr_t CLK_HCLKDIV = 0x40001508;
constexpr std::uint32_t HCLKDIV_2 = 1u << 8;
constexpr std::uintptr_t CLK_PCLKDIV = 0x4000150C;
constexpr std::uint32_t PCLKDIV_2 = 0x11111;  // five buses, each with half of the clock
constexpr std::uintptr_t CLK_UARTDIV0 = 0x4000153C;
constexpr std::uint32_t UARTDIV0_UART0 = 0xF;
constexpr std::uint32_t ENABLE = 1u << 0;

constexpr std::uintptr_t PMC_PLCTL = 0x40002010;
constexpr std::uintptr_t PMC_PLSTS = 0x40002014;
constexpr std::uint32_t PL_MASK = 3;  // level 0 is for more than 200 MHz
constexpr std::uint32_t PL_BUSY = 1u << 31;

constexpr std::uintptr_t FMC_CYCCTL = 0x4004404C;
constexpr std::uint32_t CYCCTL_MASK = 0xF;
constexpr std::uint32_t CYCCTL_225_MHZ = 9;  // cycles of an access to the flash

constexpr std::uint32_t PLL_HZ = 220'000'000;
constexpr std::uint32_t HIRC_HZ = 12'000'000;
constexpr std::uint32_t POLLS = 1'000'000;  // as the BSP, about a second at 12 MHz

bool becomes(std::uintptr_t address, std::uint32_t mask, std::uint32_t value) {
  for (std::uint32_t i = 0; i < POLLS; ++i) {
    if ((reg(address) & mask) == value) return true;
  }
  return false;
}

void unlock() {
  for (std::uint32_t i = 0; i < POLLS && reg(SYS_REGLCTL) == 0; ++i) {
    reg(SYS_REGLCTL) = 0x59;
    reg(SYS_REGLCTL) = 0x16;
    reg(SYS_REGLCTL) = 0x88;
  }
}

void lock() { reg(SYS_REGLCTL) = 0; }

void pulse(std::uintptr_t address, std::uint32_t bit) {
  reg(address) = reg(address) | bit;
  reg(address) = reg(address) & ~bit;
}

bool select(std::uint32_t source) {
  reg(CLK_SCLKSEL) = (reg(CLK_SCLKSEL) & ~SCLKSEL_MASK) | source;
  return becomes(CLK_STATUS, STATUS_SWITCHED, STATUS_SWITCHED);
}

// False where it stays with the internal oscillator.
bool speed_up() {
  reg(CLK_SRCCTL) = reg(CLK_SRCCTL) | HIRC | HXT;
  if (!becomes(CLK_STATUS, HIRC | HXT, HIRC | HXT) || !select(SCLKSEL_HIRC)) return false;
  if (!becomes(PMC_PLCTL, PL_BUSY, 0)) return false;
  reg(PMC_PLCTL) = reg(PMC_PLCTL) & ~PL_MASK;
  if (!becomes(PMC_PLSTS, PL_BUSY, 0)) return false;
  reg(CLK_SRCCTL) = reg(CLK_SRCCTL) & ~APLL0;
  reg(CLK_APLL0CTL) = APLL0CTL_220_MHZ;
  reg(CLK_APLL0SEL) = APLL0SEL_HXT;
  reg(CLK_SRCCTL) = reg(CLK_SRCCTL) | APLL0;
  if (!becomes(CLK_STATUS, APLL0, APLL0)) return false;
  reg(CLK_HCLKDIV) = HCLKDIV_2;
  reg(CLK_PCLKDIV) = PCLKDIV_2;
  reg(FMC_CYCCTL) = (reg(FMC_CYCCTL) & ~CYCCTL_MASK) | CYCCTL_225_MHZ;
  return select(SCLKSEL_APLL0);
}

}  // namespace

board::Clocks prepare() {
  unlock();
  const bool is_fast = speed_up();
  // The UART, and its pins.
  reg(CLK_UARTSEL0) = (reg(CLK_UARTSEL0) & ~UARTSEL0_UART0) | UARTSEL0_UART0_HIRC;
  reg(CLK_UARTDIV0) = reg(CLK_UARTDIV0) & ~UARTDIV0_UART0;
  reg(CLK_UARTCTL) = reg(CLK_UARTCTL) | ENABLE;
  pulse(SYS_UARTRST, UARTRST_UART0);
  reg(SYS_GPB_MFP3) = (reg(SYS_GPB_MFP3) & ~MFP3_PB12_PB13) | MFP3_UART0;
  // The NPU, and what it reads from while the processor sleeps.
  reg(CLK_SRAMCTL) = reg(CLK_SRAMCTL) | SRAMCTL_ALL;
  reg(CLK_FMCCTL) = reg(CLK_FMCCTL) | ENABLE;
  reg(CLK_NPUCTL) = reg(CLK_NPUCTL) | ENABLE;
  pulse(SYS_RSTCTL, RSTCTL_NPU);
  lock();
  return {is_fast ? PLL_HZ : HIRC_HZ, HIRC_HZ, 0};
}

}  // namespace ethos_hil::port
