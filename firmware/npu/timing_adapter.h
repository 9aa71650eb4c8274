// A timing adapter makes the memory behind one of the NPU's AXI ports as slow as a stated one, on boards and FVPs that
// have it. Registers: Arm's core_platform, drivers/timing_adapter.
#pragma once

#include <cstdint>

namespace ethos_hil::npu {

struct TimingAdapter {
  std::uint32_t reads;          // outstanding at most
  std::uint32_t writes;         // outstanding at most
  std::uint32_t read_latency;   // cycles
  std::uint32_t write_latency;  // cycles
  std::uint32_t on;             // cycles in which the memory takes transfers ...
  std::uint32_t off;            // ... and then does not
  std::uint32_t bandwidth;      // transfers within those at most

  // Makes the one at `port` so; nothing where there is none.
  void apply(std::uint32_t port) const;
};

}  // namespace ethos_hil::npu
