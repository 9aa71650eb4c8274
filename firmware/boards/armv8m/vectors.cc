// The vector table: 16 core exceptions, then interrupts.
#include <cstddef>
#include <cstdint>

#include "soc.h"

extern "C" {
extern std::uint8_t __stack_top[];
void reset_handler();
void fault_handler();
void systick_handler();
void npu_handler();
}

namespace {

using Handler = void (*)();
constexpr std::uint32_t EXCEPTIONS = 16;

struct VectorTable {
  const void* stack_top;
  Handler exceptions[EXCEPTIONS - 1];
  Handler interrupts[ethos_hil::soc::INTERRUPTS];
};

constexpr VectorTable make_table() {
  VectorTable table{};
  table.stack_top = __stack_top;
  for (Handler& handler : table.exceptions) handler = fault_handler;
  for (Handler& handler : table.interrupts) handler = fault_handler;
  table.exceptions[0] = reset_handler;
  table.exceptions[14] = systick_handler;
  table.interrupts[ethos_hil::soc::NPU_IRQ] = npu_handler;
  return table;
}

static_assert(ethos_hil::soc::NPU_IRQ < ethos_hil::soc::INTERRUPTS);

// VTOR needs the table aligned to its size rounded up to a power of two.
constexpr std::size_t alignment_of(std::size_t size) {
  std::size_t power = 1;
  while (power < size) power *= 2;
  return power;
}
constexpr std::size_t ALIGNMENT = alignment_of(sizeof(VectorTable));

}  // namespace

extern "C" {
extern const VectorTable vector_table;
[[gnu::section(".vectors"), gnu::used]] alignas(ALIGNMENT) const VectorTable vector_table = make_table();
}
