// Ethos-U55 and U65: each of four AXI limits belongs to a port, 0 and 1 to port 0 (SRAM), 2 and 3 to port 1.
#include "npu/generation.h"
#include "npu/registers.h"

namespace ethos_hil::npu {

namespace {

bool has(const Identity& npu) { return npu.product() == PRODUCT_U55 || npu.product() == PRODUCT_U65; }

// Defaults of Arm's driver (ethosu_config_u55.h, ethosu_config_u65.h): bursts of 64 bytes (0), device memory that
// is not bufferable (0), and
// as many outstanding transactions as the NPU can have, stored minus one.
void set_up_ports(const Identity& npu) {
  const bool u65 = npu.product() == PRODUCT_U65;
  const std::uint32_t reads = u65 ? 64 : 32;
  const std::uint32_t writes = u65 ? 32 : 16;
  for (std::uint32_t i = 0; i < 4; ++i) at(Register::AXI_LIMIT0, i) = (reads - 1) << 16 | (writes - 1) << 24;
}

// Vela's Ethos_U55_High_End_Embedded and Ethos_U65_High_End, in numbers of ExecuTorch's corstone_utils.cmake.
constexpr TimingAdapter U55_SRAM{8, 8, 32, 32, 3999, 1, 4000};
constexpr TimingAdapter U55_FLASH{2, 0, 64, 0, 320, 80, 50};
constexpr TimingAdapter U65_SRAM{16, 16, 32, 32, 15999, 1, 16000};
constexpr TimingAdapter U65_DRAM{24, 12, 500, 250, 4000, 1000, 3750};
constexpr TimingAdapter U65_DEDICATED_SRAM{8, 8, 32, 32, 3999, 1, 4000};
constexpr TimingAdapter U65_DEDICATED_DRAM{64, 32, 500, 250, 4000, 1000, 3750};

const TimingAdapter& timing(const Identity& npu, DeviceMemoryMode mode, std::uint32_t port) {
  const bool u65 = npu.product() == PRODUCT_U65;
  if (u65 && mode == DeviceMemoryMode::DEDICATED_SRAM) return port == 0 ? U65_DEDICATED_SRAM : U65_DEDICATED_DRAM;
  if (port == 0 || mode == DeviceMemoryMode::SRAM_ONLY) return u65 ? U65_SRAM : U55_SRAM;
  return u65 ? U65_DRAM : U55_FLASH;
}

}  // namespace

constexpr Generation GENERATION{
    0, 4, STATUS_BUS_ERROR | STATUS_PARSE_ERROR | STATUS_WEIGHT_FAULT | STATUS_ECC, has, set_up_ports, timing};

}  // namespace ethos_hil::npu
