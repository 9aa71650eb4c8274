// The firmware's own restart: everything is as after the loader's start, except what `.mailbox` and the package's
// window hold. It does not reset the system: then a board's ROM would run, and memories might be without power.
#include <cstdint>

#include "boards/armv8m/core.h"
#include "boards/board.h"

extern "C" {
extern std::uint32_t __stack_limit[];
void reset_handler();

// Returns from an exception to reset_handler, with a frame that no exception pushed. `exc_return` is
// that of the exception, whose security state the return keeps.
[[gnu::naked, gnu::noreturn]] void return_to_reset(std::uint32_t*, std::uint32_t) {
  __asm volatile(
      "movs r2, #0\n"
      "msr msplim, r2\n"
      "msr msp, r0\n"
      "mov lr, r1\n"
      "dsb\n"
      "bx lr\n");
}
}

namespace ethos_hil::board {

namespace {

constexpr std::uint32_t FRAME_WORDS = 8;  // r0-r3, r12, lr, pc, xpsr
constexpr std::uint32_t FRAME_PC = 6;
constexpr std::uint32_t FRAME_XPSR = 7;
constexpr std::uint32_t THUMB = 1u << 24;
// EXC_RETURN (Armv8-M Architecture Reference Manual, "EXC_RETURN"): to Thread mode and the main stack, by a frame
// without floating point, whose rest of the registers the hardware need not restore. Secure.
constexpr std::uint32_t TO_THREAD = 0xFFFFFFF9;

std::uint32_t active_exception() {
  std::uint32_t ipsr;
  __asm volatile("mrs %0, ipsr" : "=r"(ipsr));
  return ipsr & 0x1FF;
}

}  // namespace

void restart() {
  using namespace core;
  __asm volatile("cpsid i" ::: "memory");
  reg(SYST_CSR) = 0;
  for (std::uint32_t word = 0; word < NVIC_WORDS; ++word) {
    reg(NVIC_ICER + word * 4) = ~0u;
    reg(NVIC_ICPR + word * 4) = ~0u;
  }
  reg(ICSR) = ICSR_PENDSTCLR;
  barrier();
  if (active_exception() == 0) reset_handler();
  // An exception within another one would have to return twice. Only the loader can help then.
  if ((reg(ICSR) & ICSR_RETTOBASE) == 0) park();
  reg(CFSR) = reg(CFSR);  // ones clear
  reg(HFSR) = reg(HFSR);
  reg(FPCCR) = reg(FPCCR) & ~FPCCR_LSPACT;  // drops floating-point state that was not stacked yet
  std::uint32_t* frame = __stack_limit;
  for (std::uint32_t i = 0; i < FRAME_WORDS; ++i) frame[i] = 0;
  frame[FRAME_PC] = reinterpret_cast<std::uintptr_t>(&reset_handler) & ~std::uintptr_t{1};
  frame[FRAME_XPSR] = THUMB;
  return_to_reset(frame, TO_THREAD);
}

}  // namespace ethos_hil::board
