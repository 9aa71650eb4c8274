// The register blocks of Ethos-U55, U65 and U85, whose first part is the same. Offsets and bits: the interface headers
// of Arm's core driver (ethosu55_interface.h, ethosu65_interface.h, ethosu85_interface.h).
#pragma once

#include <cstdint>

#include "boards/board.h"

namespace ethos_hil::npu {

enum class Register : std::uint32_t {
  ID = 0x00,
  STATUS = 0x04,
  CMD = 0x08,
  RESET = 0x0C,
  QBASE_LOW = 0x10,
  QBASE_HIGH = 0x14,
  QREAD = 0x18,
  QCONFIG = 0x1C,
  QSIZE = 0x20,
  PROT = 0x24,
  CONFIG = 0x28,
  POWER_CTRL = 0x38,  // Ethos-U85
  REGIONCFG = 0x3C,
  AXI_LIMIT0 = 0x40,  // Ethos-U55 and U65: four words
  MEM_ATTR0 = 0x40,   // Ethos-U85: four words
  AXI_SRAM = 0x50,    // Ethos-U85
  AXI_EXT = 0x54,     // Ethos-U85
  BASEP0_LOW = 0x80,  // eight pairs of low and high words
};

// Offsets from generation.h's PMU_BASE.
enum class PmuRegister : std::uint32_t {
  PMCR = 0x180,
  PMCNTENSET = 0x184,
  PMCNTENCLR = 0x188,
  PMOVSSET = 0x18C,
  PMOVSCLR = 0x190,
  PMINTCLR = 0x198,
  PMCCNTR_LOW = 0x1A0,
  PMCCNTR_HIGH = 0x1A4,
  PMCCNTR_CFG = 0x1A8,
  PMEVCNTR0 = 0x300,   // a word for each counter
  PMEVTYPER0 = 0x380,  // a word for each counter
};

inline volatile std::uint32_t& at(Register which, std::uint32_t index = 0) {
  return board::npu_registers()[static_cast<std::uint32_t>(which) / 4 + index];
}

constexpr std::uint32_t STATUS_RUNNING = 1u << 0;
constexpr std::uint32_t STATUS_IRQ_RAISED = 1u << 1;
constexpr std::uint32_t STATUS_BUS_ERROR = 1u << 2;
constexpr std::uint32_t STATUS_RESETTING = 1u << 3;
constexpr std::uint32_t STATUS_PARSE_ERROR = 1u << 4;
constexpr std::uint32_t STATUS_END_REACHED = 1u << 5;
constexpr std::uint32_t STATUS_WEIGHT_FAULT = 1u << 7;  // Ethos-U55 and U65: weights that cannot be decoded
constexpr std::uint32_t STATUS_ECC = 1u << 8;
constexpr std::uint32_t STATUS_BRANCH_FAULT = 1u << 9;  // Ethos-U85

// Bits 2 and 3 of CMD allow clock and power to be removed while the NPU idles; this driver always writes zeros.
constexpr std::uint32_t CMD_STAY_AWAKE = 0;
constexpr std::uint32_t CMD_RUN = 1u << 0;
constexpr std::uint32_t CMD_CLEAR_IRQ = 1u << 1;

// RESET sets the level at which the NPU runs; PROT has the same two bits and shows it.
constexpr std::uint32_t PRIVILEGED = 1u << 0;
constexpr std::uint32_t NON_SECURE = 1u << 1;

constexpr std::uint32_t PMCR_ENABLE = 1u << 0;
constexpr std::uint32_t PMCR_RESET_EVENTS = 1u << 1;
constexpr std::uint32_t PMCR_RESET_CYCLES = 1u << 2;
constexpr std::uint32_t PMCNT_CYCLES = 1u << 31;  // in the masks of counters
constexpr std::uint32_t EVENT_NPU_IDLE = 32;
constexpr std::uint32_t EVENT_NPU_ACTIVE = 35;

}  // namespace ethos_hil::npu
