// The system registers of an Armv8.1-M core that this firmware uses. Addresses and bits: Armv8-M Architecture Reference
// Manual (DDI 0553), chapter "System control".
#pragma once

#include <cstdint>

namespace ethos_hil::core {

inline volatile std::uint32_t& reg(std::uintptr_t address) {
  return *reinterpret_cast<volatile std::uint32_t*>(address);
}

constexpr std::uintptr_t SYST_CSR = 0xE000E010;
constexpr std::uintptr_t SYST_RVR = 0xE000E014;
constexpr std::uintptr_t SYST_CVR = 0xE000E018;
constexpr std::uint32_t SYST_CSR_ENABLE = 1u << 0;
constexpr std::uint32_t SYST_CSR_TICKINT = 1u << 1;
constexpr std::uint32_t SYST_CSR_CLKSOURCE_CPU = 1u << 2;

constexpr std::uintptr_t NVIC_ISER = 0xE000E100;  // enables interrupts
constexpr std::uintptr_t NVIC_ICER = 0xE000E180;  // disables interrupts
constexpr std::uintptr_t NVIC_ICPR = 0xE000E280;  // clears what is pending
constexpr std::uint32_t NVIC_WORDS = 16;          // each has 32 interrupts; those that a core lacks ignore writes

constexpr std::uintptr_t ICSR = 0xE000ED04;
constexpr std::uint32_t ICSR_RETTOBASE = 1u << 11;  // no other exception is active
constexpr std::uint32_t ICSR_PENDSTCLR = 1u << 25;  // SysTick is not pending any more
constexpr std::uintptr_t VTOR = 0xE000ED08;
constexpr std::uintptr_t CCR = 0xE000ED14;
constexpr std::uint32_t CCR_DC = 1u << 16;   // data cache enabled
constexpr std::uint32_t CCR_IC = 1u << 17;   // instruction cache enabled
constexpr std::uint32_t CCR_BP = 1u << 18;   // branch prediction
constexpr std::uint32_t CCR_LOB = 1u << 19;  // low-overhead loops
constexpr std::uintptr_t SHCSR = 0xE000ED24;
constexpr std::uint32_t SHCSR_FAULTS_ENABLED = 0xFu << 16;  // MemManage, BusFault, UsageFault, SecureFault
constexpr std::uintptr_t CFSR = 0xE000ED28;
constexpr std::uint32_t CFSR_MSTKERR = 1u << 4;
constexpr std::uint32_t CFSR_PRECISERR = 1u << 9;
constexpr std::uint32_t CFSR_IMPRECISERR = 1u << 10;
constexpr std::uint32_t CFSR_STKERR = 1u << 12;
constexpr std::uint32_t CFSR_BFARVALID = 1u << 15;
constexpr std::uint32_t CFSR_STKOF = 1u << 20;
constexpr std::uintptr_t HFSR = 0xE000ED2C;
constexpr std::uint32_t HFSR_FORCED = 1u << 30;
constexpr std::uint32_t HFSR_DEBUGEVT = 1u << 31;
constexpr std::uintptr_t MMFAR = 0xE000ED34;
constexpr std::uintptr_t BFAR = 0xE000ED38;
constexpr std::uintptr_t CPACR = 0xE000ED88;
constexpr std::uint32_t CPACR_CP10_CP11 = 0xFu << 20;  // FPU and MVE
constexpr std::uintptr_t MPU_CTRL = 0xE000ED94;
constexpr std::uint32_t MPU_CTRL_ENABLE = 1u << 0;
constexpr std::uint32_t MPU_CTRL_PRIVDEFENA = 1u << 2;  // what no region has is as without an MPU
constexpr std::uintptr_t MPU_RNR = 0xE000ED98;          // which region the next two are of
constexpr std::uintptr_t MPU_RBAR = 0xE000ED9C;
constexpr std::uint32_t MPU_RBAR_XN = 1u << 0;  // nothing is executed there
constexpr std::uintptr_t MPU_RLAR = 0xE000EDA0;
constexpr std::uint32_t MPU_RLAR_EN = 1u << 0;
constexpr std::uintptr_t MPU_MAIR0 = 0xE000EDC0;  // four memory attributes
constexpr std::uintptr_t SFSR = 0xE000EDE4;
constexpr std::uintptr_t SFAR = 0xE000EDE8;
constexpr std::uintptr_t DEMCR = 0xE000EDFC;
constexpr std::uint32_t DEMCR_TRCENA = 1u << 24;  // the DWT works
constexpr std::uintptr_t DWT_CTRL = 0xE0001000;
constexpr std::uint32_t DWT_CTRL_CYCCNTENA = 1u << 0;
constexpr std::uintptr_t DWT_CYCCNT = 0xE0001004;  // cycles of the core
constexpr std::uintptr_t FPCCR = 0xE000EF34;
constexpr std::uint32_t FPCCR_LSPACT = 1u << 0;  // a frame has room for floating-point state that is still in registers
constexpr std::uintptr_t ICIALLU = 0xE000EF50;   // invalidate the instruction cache
constexpr std::uintptr_t DCIMVAC = 0xE000EF5C;   // invalidate a line
constexpr std::uintptr_t DCCMVAC = 0xE000EF68;   // clean a line
constexpr std::uintptr_t CPDLPSTATE = 0xE001E300;  // Cortex-M55/M85: power states of core, EPU and RAM
constexpr std::uint32_t CPDLPSTATE_CLPSTATE = 0x3u << 0;
constexpr std::uint32_t CPDLPSTATE_ELPSTATE = 0x3u << 4;
constexpr std::uint32_t CPDLPSTATE_RLPSTATE = 0x3u << 8;
constexpr std::uint32_t CPDLPSTATE_ELPSTATE_RET = 0x1u << 4;  // the FPU/MVE unit sleeps with its registers kept

constexpr std::uint32_t CACHE_LINE = 32;

inline void barrier() { __asm volatile("dsb\n isb" ::: "memory"); }

}  // namespace ethos_hil::core
