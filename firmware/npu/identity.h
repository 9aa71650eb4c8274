// The identity of an NPU, and of the NPU that a program was compiled for. Both are a pair of words laid out like the ID
// and CONFIG registers (Arm Ethos-U55 NPU TRM, "ID" and "CONFIG"; for Ethos-U85 ethosu85_interface.h of Arm's driver).
#pragma once

#include <cstdint>

#include "link/text.h"
#include "npu/families.h"

namespace ethos_hil::npu {

struct Identity {
  std::uint32_t id;
  std::uint32_t config;

  std::uint32_t architecture_major() const { return id >> 28; }
  std::uint32_t architecture_minor() const { return id >> 20 & 0xFF; }
  std::uint32_t architecture_patch() const { return id >> 16 & 0xF; }

  std::uint32_t macs() const { return 1u << (config & 0xF); }
  std::uint32_t stream_version() const { return config >> 4 & 0xF; }
  // KiB of internal memory, or without SHRAM the number of ports of each kind.
  std::uint32_t shram_kib() const { return config >> 8 & 0xFF; }
  std::uint32_t axi_ports() const { return config >> 8 & 0x7; }
  bool has_custom_dma() const { return (config >> 27 & 1) != 0; }
  std::uint32_t product() const { return config >> 28; }
  // Null for a family that the firmware does not know.
  const Family* family() const {
    return product() < sizeof FAMILIES / sizeof *FAMILIES ? FAMILIES + product() : nullptr;
  }
};

// "ethos-u55-128, architecture 1.0.6 (CONFIG 0x00001807, ID 0x10066001)"
Text& operator<<(Text& text, const Identity& identity);

// Whether `npu` can run programs compiled for `program`, by the comparisons of Arm's core driver.
bool can_run(const Identity& npu, const Identity& program);

}  // namespace ethos_hil::npu
