// The Ethos-U85 of the E8 reaches the SRAM through its ports for it, and through those alone; MRAM and OSPI memories
// through the others (alif_ml-embedded-evaluation-kit, source/hal/source/platform/alif/source/platform_drivers.c). Each
// of an Ethos-U55's two reaches the SRAM.
#include "boards/board.h"
#include "soc.h"

namespace ethos_hil::board {

namespace {

constexpr std::uintptr_t U85 = 0x49042000;
constexpr std::uintptr_t EXTERNAL = 0x80000000;  // MRAM and what lies above it

}  // namespace

bool is_at_sram_port(const void* pointer) {
  const auto address = reinterpret_cast<std::uintptr_t>(pointer);
  if (soc::NPU_BASE == U85) return address < EXTERNAL;
  const Pool sram = sram_pool();
  return address - reinterpret_cast<std::uintptr_t>(sram.begin) < sram.size;
}

}  // namespace ethos_hil::board
