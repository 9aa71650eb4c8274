// The vector table: 16 core exceptions, then interrupts (32 of the subsystem, then expansion).
#include <cstdint>

#include "npu/driver.h"
#include "soc.h"

extern "C" {
extern std::uint8_t __stack_top[];
void reset_handler();
void fault_handler();
void systick_handler();
}

namespace {

using Handler = void (*)();
constexpr std::uint32_t INTERRUPTS = 128;

void npu_handler() { ethos_hil::npu::on_interrupt(); }

struct VectorTable {
  const void* stack_top;
  Handler exceptions[15];
  Handler interrupts[INTERRUPTS];
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

}  // namespace

// VTOR needs the table aligned to its size rounded up to a power of two: 144 words, so 1024 bytes.
extern "C" {
extern const VectorTable vector_table;
[[gnu::section(".vectors"), gnu::used]] alignas(1024) const VectorTable vector_table = make_table();
}
