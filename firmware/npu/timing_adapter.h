// A timing adapter slows the memory behind one of the NPU's AXI ports down to stated figures, on boards and FVPs that
// have one. Registers: Arm's core_platform, drivers/timing_adapter.
#pragma once

#include <cstdint>

#include "link/formats.h"

namespace ethos_hil::npu {

struct TimingAdapter {
  std::uint32_t reads;          // outstanding at most
  std::uint32_t writes;         // outstanding at most
  std::uint32_t read_latency;   // cycles
  std::uint32_t write_latency;  // cycles
  std::uint32_t on;             // cycles in which the memory accepts transfers ...
  std::uint32_t off;            // ... and cycles in which it does not
  std::uint32_t bandwidth;      // most transfers in those cycles together

  // Sets up the adapter at `port`. No effect where there is none.
  void apply(std::uint32_t port) const;
};

// The adapters of ports 0 and 1, for the memories of Vela's system configuration.
struct TimingAdapters {
  TimingAdapter usual[2];
  TimingAdapter dedicated[2];  // in the memory mode Dedicated_Sram

  const TimingAdapter& at(DeviceMemoryMode mode, std::uint32_t port) const {
    const TimingAdapter* adapters = mode == DeviceMemoryMode::DEDICATED_SRAM ? dedicated : usual;
    return adapters[mode == DeviceMemoryMode::SRAM_ONLY ? 0 : port];
  }
};

}  // namespace ethos_hil::npu
