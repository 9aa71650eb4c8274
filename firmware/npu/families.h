// Generated from src/ethos_hil/base/npu (harness/socs/firmware_files.py). Do not edit.
#pragma once

#include <cstdint>

#include "npu/timing_adapter.h"

namespace ethos_hil::npu {

constexpr std::uint32_t PRODUCT_U55 = 0;
constexpr std::uint32_t PRODUCT_U65 = 1;
constexpr std::uint32_t PRODUCT_U85 = 2;

struct Family {
  const char* name;
  bool has_shram;
  bool dedicated;          // whether programs can be for the memory mode Dedicated_Sram
  std::uint32_t pmu_base;  // offset
  std::uint32_t counters;  // of events
};

// By product.
constexpr Family FAMILIES[] = {
    {"ethos-u55", true, false, 0x0000, 4},
    {"ethos-u65", true, true, 0x0000, 4},
    {"ethos-u85", false, true, 0x1000, 8},
};

constexpr TimingAdapters U55_MEMORIES{{{8, 8, 32, 32, 3999, 1, 4000}, {2, 0, 64, 0, 320, 80, 50}},
                                      {{8, 8, 32, 32, 3999, 1, 4000}, {2, 0, 64, 0, 320, 80, 50}}};
constexpr TimingAdapters U65_MEMORIES{{{16, 16, 32, 32, 15999, 1, 16000}, {24, 12, 500, 250, 4000, 1000, 3750}},
                                      {{8, 8, 32, 32, 3999, 1, 4000}, {64, 32, 500, 250, 4000, 1000, 3750}}};
constexpr TimingAdapters U85_MEMORIES{{{8, 8, 32, 32, 3999, 1, 4000}, {64, 32, 500, 250, 4000, 1000, 3750}},
                                      {{8, 8, 32, 32, 3999, 1, 4000}, {64, 32, 500, 250, 4000, 1000, 3750}}};

}  // namespace ethos_hil::npu
