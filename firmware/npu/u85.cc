// Ethos-U85: each of four memory attributes names a port, SRAM or EXT, and each port has one limit.
#include "npu/generation.h"
#include "npu/registers.h"

namespace ethos_hil::npu {

namespace {

bool has(const Identity& npu) { return npu.product() == PRODUCT_U85; }

constexpr std::uint32_t ATTRIBUTE_EXT = 1u << 2;  // not shared, device memory: the rest of an attribute is zero

constexpr std::uint32_t limit(std::uint32_t reads, std::uint32_t writes) {
  constexpr std::uint32_t BURSTS_256_BYTES = 2u << 16;
  return (reads - 1) | (writes - 1) << 8 | BURSTS_256_BYTES;
}

// Defaults of Arm's driver (ethosu_config_u85.h). The attributes are in the order that makes a selector mean the same
// as on Ethos-U55: 0 and 1 are SRAM, 2 and 3 external memory.
void set_up_ports(const Identity&) {
  for (std::uint32_t i = 0; i < 4; ++i) at(Register::MEM_ATTR0, i) = i < 2 ? 0 : ATTRIBUTE_EXT;
  at(Register::AXI_SRAM) = limit(12, 16);
  at(Register::AXI_EXT) = limit(64, 32);
  at(Register::POWER_CTRL) = 0;
}

const TimingAdapters& memories(const Identity&) { return U85_MEMORIES; }

}  // namespace

constexpr Generation GENERATION{FAMILIES[PRODUCT_U85].pmu_base,
                                FAMILIES[PRODUCT_U85].counters,
                                STATUS_BUS_ERROR | STATUS_PARSE_ERROR | STATUS_ECC | STATUS_BRANCH_FAULT,
                                has,
                                set_up_ports,
                                memories};

}  // namespace ethos_hil::npu
