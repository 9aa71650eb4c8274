// Memory for one program: two pools that only grow. Nothing is ever freed, because one boot runs one program.
#pragma once

#include <cstdint>
#include <new>

#include "boards/board.h"

namespace ethos_hil {

// The pool to allocate from.
enum class Place {
  SRAM_FIRST,  // SRAM if it fits, else DDR
  SRAM,
  DDR,
};

class Memory {
 public:
  // A cache line of the Cortex-M55; twice what the NPU needs.
  static constexpr std::uint32_t ALIGNMENT = 32;

  Memory(board::Pool sram, board::Pool ddr);

  // Returns `size` bytes at a multiple of ALIGNMENT, with undefined contents. Ends in ERROR OUT_OF_MEMORY, which names
  // `purpose`, when there is no room.
  std::uint8_t* allocate(std::uint64_t size, const char* purpose, Place place = Place::SRAM_FIRST);

  // Returns `count` value-initialised objects.
  template <typename T>
  T* allocate_array(std::uint32_t count, const char* purpose) {
    auto* items = reinterpret_cast<T*>(allocate(std::uint64_t{count} * sizeof(T), purpose));
    for (std::uint32_t i = 0; i < count; ++i) new (items + i) T{};
    return items;
  }

  std::uint32_t sram_free() const { return sram_.free(); }
  std::uint32_t used() const { return sram_.used + ddr_.used; }
  std::uint32_t sram_used() const { return sram_.used; }
  std::uint32_t sram_size() const { return sram_.pool.size; }
  std::uint32_t ddr_used() const { return ddr_.used; }
  std::uint32_t ddr_size() const { return ddr_.pool.size; }

 private:
  struct Arena {
    board::Pool pool;
    std::uint32_t used;

    std::uint32_t free() const { return pool.size - used; }
  };

  Arena sram_;
  Arena ddr_;
};

}  // namespace ethos_hil
