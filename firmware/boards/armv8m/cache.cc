// Data cache maintenance by address. The data cache is off after reset and this firmware leaves it off: a benchmark of
// the NPU does not need it, and does not measure the CPU's part of a run. These two functions keep the driver correct
// on a board that turns it on.
#include "boards/armv8m/core.h"
#include "boards/board.h"

namespace ethos_hil::board {

namespace {

void for_each_line(const void* address, std::size_t count, std::uintptr_t operation) {
  core::barrier();
  if ((core::reg(core::CCR) & core::CCR_DC) != 0) {
    const auto begin = reinterpret_cast<std::uintptr_t>(address) & ~std::uintptr_t{core::CACHE_LINE - 1};
    const auto end = reinterpret_cast<std::uintptr_t>(address) + count;
    for (std::uintptr_t line = begin; line < end; line += core::CACHE_LINE) core::reg(operation) = line;
    core::barrier();
  }
}

}  // namespace

void clean_cache(const void* address, std::size_t count) { for_each_line(address, count, core::DCCMVAC); }

void invalidate_cache(const void* address, std::size_t count) { for_each_line(address, count, core::DCIMVAC); }

}  // namespace ethos_hil::board
