// The default handler: every exception and interrupt without a handler of its own ends here. A fault that may happen
// (recover.h) goes on behind its instruction; any other is reported and parks the CPU. The handler has its own stack,
// because the main stack may be what broke.
#include <cstdint>

#include "boards/armv8m/core.h"
#include "boards/armv8m/recover.h"
#include "boards/board.h"
#include "link/formats.h"
#include "link/report.h"

extern "C" {
extern std::uint8_t __stack_limit[], __stack_top[];
void handle_fault(std::uint32_t* frame);

// Start-up writes it before anything else: a fault may come before .bss is zeroed.
volatile std::uint32_t fault_is_reported;

[[gnu::naked]] void fault_handler() {
  __asm volatile(
      "mrs r0, msp\n"
      "mrs r1, msplim\n"
      "movs r2, #0\n"
      "msr msplim, r2\n"
      "ldr r2, =__fault_stack_top\n"
      "msr msp, r2\n"
      "ldr r2, =__fault_stack_limit\n"
      "msr msplim, r2\n"
      "push {r0, r1, r2, lr}\n"
      "bl handle_fault\n"
      "pop {r0, r1, r2, lr}\n"
      "movs r2, #0\n"
      "msr msplim, r2\n"
      "msr msp, r0\n"
      "msr msplim, r1\n"
      "bx lr\n");
}
}

namespace {

constexpr std::uint32_t STACKED_WORDS = 8;  // r0-r3, r12, lr, pc, xpsr
constexpr std::uint32_t STACKED_PC = 6;
constexpr std::uint32_t FAULT_IS_REPORTED = 0x4641554C;  // not 1: memory that was never written may hold anything

// After a stack overflow or a failed push the core has not written the frame, so its contents are not valid.
bool frame_is_valid(const std::uint32_t* frame, std::uint32_t cfsr) {
  using namespace ethos_hil::core;
  const auto address = reinterpret_cast<std::uintptr_t>(frame);
  const bool on_stack = address >= reinterpret_cast<std::uintptr_t>(__stack_limit) &&
                        address + STACKED_WORDS * 4 <= reinterpret_cast<std::uintptr_t>(__stack_top);
  return on_stack && (cfsr & (CFSR_MSTKERR | CFSR_STKERR | CFSR_STKOF)) == 0;
}

}  // namespace

// Returns only when the program may go on.
void handle_fault(std::uint32_t* frame) {
  using namespace ethos_hil::core;
  // A second fault while the first one is reported: whatever the report needs is broken too.
  if (fault_is_reported == FAULT_IS_REPORTED) ethos_hil::board::park();
  ethos_hil::FaultInfo info{};
  info.cfsr = reg(CFSR);
  info.hfsr = reg(HFSR);
  info.mmfar = reg(MMFAR);
  info.bfar = reg(BFAR);
  info.sfsr = reg(SFSR);
  info.sfar = reg(SFAR);
  const bool valid = frame_is_valid(frame, info.cfsr);
  if (valid) {
    const std::uintptr_t resume = resume_after({info.cfsr, info.hfsr, info.sfsr, frame[STACKED_PC]});
    if (resume != 0) {
      reg(CFSR) = info.cfsr;  // ones clear
      reg(HFSR) = info.hfsr;
      frame[STACKED_PC] = resume;
      return;
    }
  }
  fault_is_reported = FAULT_IS_REPORTED;
  std::uint32_t ipsr;
  __asm volatile("mrs %0, ipsr" : "=r"(ipsr));
  info.exception = ipsr & 0x1FF;
  if (valid) {
    info.r0 = frame[0];
    info.r1 = frame[1];
    info.r2 = frame[2];
    info.r3 = frame[3];
    info.r12 = frame[4];
    info.lr = frame[5];
    info.pc = frame[STACKED_PC];
    info.xpsr = frame[7];
  }
  ethos_hil::report_fault(info);
}
