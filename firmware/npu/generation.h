// What differs between generations of the Ethos-U. A board links the one it can have: u55.cc (Ethos-U55 and U65, whose
// register blocks are the same) or u85.cc.
#pragma once

#include <cstdint>

#include "link/formats.h"
#include "npu/identity.h"
#include "npu/timing_adapter.h"

namespace ethos_hil::npu {

struct Generation {
  std::uint32_t pmu_base;  // offset
  std::uint32_t counters;  // of events, at most EVENT_COUNTERS
  std::uint32_t faults;    // bits of STATUS that say that a job failed

  // Whether this is the generation of `npu`.
  bool (*has)(const Identity& npu);

  // Sets up the ways to the memories, after the selectors QCONFIG and REGIONCFG (see driver.cc).
  void (*set_up_ports)(const Identity& npu);

  // The memory behind `port` (0 or 1) as Vela's system configuration for this NPU has it.
  const TimingAdapter& (*timing)(const Identity& npu, DeviceMemoryMode mode, std::uint32_t port);
};

extern const Generation GENERATION;

}  // namespace ethos_hil::npu
