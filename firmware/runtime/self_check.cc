#include "runtime/self_check.h"

#include <initializer_list>

#include "boards/board.h"

namespace ethos_hil {

namespace {

struct NamedPool {
  const char* name;
  board::Pool pool;
};

bool keeps(volatile std::uint32_t* word, const char* name, Text& problem) {
  const Hex address{static_cast<std::uint32_t>(reinterpret_cast<std::uintptr_t>(word))};
  std::uint32_t before;
  std::uint32_t after;
  if (!board::try_load(word, before) || !board::try_store(word, ~before) || !board::try_load(word, after)) {
    problem << "there is no " << name << " at " << address << ": the bus reports an error";
    return false;
  }
  if (after != ~before) {
    problem << "the " << name << " at " << address << " does not keep what is written to it: " << Hex{~before}
            << " was written, " << Hex{after} << " is read; is it closed to secure code?";
    return false;
  }
  return board::try_store(word, before);
}

}  // namespace

bool check_memories(Text& problem) {
  constexpr std::uintptr_t WORD = sizeof(std::uint32_t);
  for (const auto& [name, pool] : {NamedPool{"SRAM", board::sram_pool()}, NamedPool{"DDR", board::package_window()}}) {
    const auto begin = reinterpret_cast<std::uintptr_t>(pool.begin);
    const std::uintptr_t last = (begin + pool.size - WORD) & ~(WORD - 1);
    for (const std::uintptr_t address : {begin, last}) {
      if (!keeps(reinterpret_cast<volatile std::uint32_t*>(address), name, problem)) return false;
    }
  }
  return true;
}

}  // namespace ethos_hil
