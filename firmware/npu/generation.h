// The differences between generations of the Ethos-U. A board links the generation it can have: u55.cc (Ethos-U55 and
// U65, whose register blocks are the same) or u85.cc.
#pragma once

#include <cstdint>

#include "npu/identity.h"
#include "npu/timing_adapter.h"

namespace ethos_hil::npu {

struct Generation {
  std::uint32_t pmu_base;  // offset
  std::uint32_t counters;  // of events, at most EVENT_COUNTERS
  std::uint32_t faults;    // bits of STATUS for a failed job

  // Whether `npu` is of this generation.
  bool (*has)(const Identity& npu);

  // Sets up the AXI ports behind the selectors of QCONFIG and REGIONCFG (see driver.cc).
  void (*set_up_ports)(const Identity& npu);

  // The memories in Vela's system configuration for this NPU.
  const TimingAdapters& (*memories)(const Identity& npu);
};

extern const Generation GENERATION;

}  // namespace ethos_hil::npu
