// Ethos-U55 and U65: each of four AXI limits belongs to a port, 0 and 1 to port 0 (SRAM), 2 and 3 to port 1.
#include "npu/generation.h"
#include "npu/registers.h"

namespace ethos_hil::npu {

namespace {

bool has(const Identity& npu) { return npu.product() == PRODUCT_U55 || npu.product() == PRODUCT_U65; }

// Defaults of Arm's driver (ethosu_config_u55.h, ethosu_config_u65.h): bursts of 64 bytes (0), device memory that is
// not bufferable (0), and as many outstanding transactions as the NPU can have, stored minus one.
void set_up_ports(const Identity& npu) {
  const bool u65 = npu.product() == PRODUCT_U65;
  const std::uint32_t reads = u65 ? 64 : 32;
  const std::uint32_t writes = u65 ? 32 : 16;
  for (std::uint32_t i = 0; i < 4; ++i) at(Register::AXI_LIMIT0, i) = (reads - 1) << 16 | (writes - 1) << 24;
}

const TimingAdapters& memories(const Identity& npu) {
  return npu.product() == PRODUCT_U65 ? U65_MEMORIES : U55_MEMORIES;
}

}  // namespace

constexpr Generation GENERATION{FAMILIES[PRODUCT_U55].pmu_base,
                                FAMILIES[PRODUCT_U55].counters,
                                STATUS_BUS_ERROR | STATUS_PARSE_ERROR | STATUS_WEIGHT_FAULT | STATUS_ECC,
                                has,
                                set_up_ports,
                                memories};

}  // namespace ethos_hil::npu
