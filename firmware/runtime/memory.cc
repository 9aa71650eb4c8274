#include "runtime/memory.h"

#include <initializer_list>

#include "link/report.h"
#include "runtime/poison.h"

namespace ethos_hil {

namespace {

std::uint32_t saturate(std::uint64_t value) {
  return value > UINT32_MAX ? UINT32_MAX : static_cast<std::uint32_t>(value);
}

}  // namespace

Memory::Memory(board::Pool sram, board::Pool ddr) : sram_{sram, 0}, ddr_{ddr, 0} {
  forbid(sram.begin, sram.size);
  forbid(ddr.begin, ddr.size);
}

std::uint8_t* Memory::allocate(std::uint64_t size, const char* purpose, Place place) {
  // Rounding up a size near 2^64 would wrap to a small one. Such a size does not fit in any case.
  const std::uint64_t rounded = size > UINT32_MAX ? size : (size + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT + POOL_GAP;
  for (Arena* arena : {&sram_, &ddr_}) {
    if (place == (arena == &sram_ ? Place::DDR : Place::SRAM) || rounded > arena->free()) continue;
    std::uint8_t* start = arena->pool.begin + arena->used;
    arena->used += static_cast<std::uint32_t>(rounded);
    allow(start, size);
    if (arena == &ddr_ && place == Place::SRAM_FIRST) {
      log(LogLevel::INFO, Text() << purpose << " (" << rounded << " bytes) does not fit the SRAM and is in DDR");
    }
    return start;
  }
  Text text;
  text << purpose << " needs " << rounded << " bytes in one piece; free are ";
  if (place != Place::DDR) text << sram_.free() << " of " << sram_.pool.size << " bytes of SRAM";
  if (place == Place::SRAM_FIRST) text << " and ";
  if (place != Place::SRAM) text << ddr_.free() << " of " << ddr_.pool.size << " bytes of DDR";
  const std::uint32_t sram = place == Place::DDR ? 0 : sram_.free();
  const std::uint32_t ddr = place == Place::SRAM ? 0 : ddr_.free();
  fail(ErrorKind::OUT_OF_MEMORY, text, saturate(rounded), sram > ddr ? sram : ddr);
}

}  // namespace ethos_hil
