// The way from reset to main. The core is set up in the order of Arm's CMSIS start-up code for the SSE-300/SSE-310.
#include <cstdint>

#include "boards/armv8m/core.h"
#include "boards/board.h"

extern "C" {
extern std::uint32_t __data_start, __data_end, __data_load, __bss_start, __bss_end, __stack_limit;
extern const std::uintptr_t vector_table[];
int main();
[[noreturn]] void start();

// MSPLIM first: from here on a stack overflow is a UsageFault instead of overwritten data. Memory with error correction
// has no valid code until a whole word was written, so both stacks are painted by words: the main one with the colour
// that stack.cc looks for, the fault handler's because it stores bytes.
[[gnu::naked, gnu::noreturn]] void reset_handler() {
  __asm volatile(
      "cpsid i\n"
      "movs r3, #0\n"
      "ldr r0, =fault_is_reported\n"
      "str r3, [r0]\n"
      "ldr r0, =__fault_stack_limit\n"
      "ldr r1, =__fault_stack_top\n"
      "1: str r3, [r0], #4\n"
      "cmp r0, r1\n"
      "bne 1b\n"
      "ldr r0, =__stack_limit\n"
      "msr msplim, r0\n"
      "ldr r1, =__stack_top\n"
      "msr msp, r1\n"
      "ldr r2, =0xC5C5C5C5\n"
      "2: str r2, [r0], #4\n"
      "cmp r0, r1\n"
      "bne 2b\n"
      "b start\n");
}
}

namespace {

using namespace ethos_hil::core;

void enable_core() {
  reg(VTOR) = reinterpret_cast<std::uintptr_t>(vector_table);
  // The power states must allow FP and MVE before CPACR gives access to them.
  constexpr std::uint32_t STATES = CPDLPSTATE_CLPSTATE | CPDLPSTATE_ELPSTATE | CPDLPSTATE_RLPSTATE;
  reg(CPDLPSTATE) = (reg(CPDLPSTATE) & ~STATES) | CPDLPSTATE_ELPSTATE_RET;
  reg(CPACR) = reg(CPACR) | CPACR_CP10_CP11;
  // Whoever loaded the image wrote past the instruction cache. Without it, code outside of the TCM takes seconds for
  // the hash of a package on an FPGA.
  reg(ICIALLU) = 0;
  barrier();
  reg(CCR) = reg(CCR) | CCR_LOB | CCR_BP | CCR_IC;
  // Each fault gets its own exception number instead of escalating to HardFault.
  reg(SHCSR) = reg(SHCSR) | SHCSR_FAULTS_ENABLED;
  barrier();
}

void fill_memory() {
  const std::uint32_t* from = &__data_load;
  for (std::uint32_t* to = &__data_start; to != &__data_end; ++to, ++from) *to = *from;
  for (std::uint32_t* to = &__bss_start; to != &__bss_end; ++to) *to = 0;
}

}  // namespace

void start() {
  enable_core();
  fill_memory();
  __asm volatile("cpsie i" ::: "memory");
  main();
  ethos_hil::board::park();
}
