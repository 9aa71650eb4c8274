// The NPU's port for the memory next to it, and its other one for all else.
#include "boards/board.h"

namespace ethos_hil::board {

bool is_at_sram_port(const void* pointer) {
  const Pool sram = sram_pool();
  const auto offset = reinterpret_cast<std::uintptr_t>(pointer) - reinterpret_cast<std::uintptr_t>(sram.begin);
  return offset < sram.size;
}

}  // namespace ethos_hil::board
