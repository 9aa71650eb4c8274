// The default handler: every exception and interrupt without a handler of its own ends here, is reported and parks the
// CPU. It has its own stack, because the main stack may be what broke.
#include <cstdint>

#include "boards/armv8m/core.h"
#include "boards/board.h"
#include "link/formats.h"
#include "link/report.h"

extern "C" {
extern std::uint8_t __stack_limit[], __stack_top[];
[[noreturn]] void report_fault(const std::uint32_t* frame);

// The first lines handle a semihosting call that no host took (semihosting.cc): a breakpoint at that one instruction.
// They write -1 into the stacked r0 and continue after the breakpoint. HFSR (0xE000ED2C) has DEBUGEVT set then, in some
// implementations FORCED (bits 31 and 30). CFSR (0xE000ED28) must be 0, otherwise there may be no stack frame to look
// at.
[[gnu::naked]] void fault_handler() {
  __asm volatile(
      "ldr r3, =0xE000ED28\n"
      "ldrd r1, r2, [r3]\n"
      "cbnz r1, 1f\n"
      "lsrs r1, r2, #30\n"
      "beq 1f\n"
      "ldr r0, [sp, #24]\n"
      "ldr r1, =semihosting_trap\n"
      "cmp r0, r1\n"
      "bne 1f\n"
      "adds r0, #2\n"
      "str r0, [sp, #24]\n"
      "mov r0, #-1\n"
      "str r0, [sp]\n"
      "str r2, [r3, #4]\n"  // ones clear its bits
      "bx lr\n"
      "1:\n"
      "mrs r0, msp\n"
      "movs r1, #0\n"
      "msr msplim, r1\n"
      "ldr r1, =__fault_stack_top\n"
      "msr msp, r1\n"
      "ldr r1, =__fault_stack_limit\n"
      "msr msplim, r1\n"
      "b report_fault\n");
}
}

namespace {

constexpr std::uint32_t STACKED_WORDS = 8;  // r0-r3, r12, lr, pc, xpsr

// After a stack overflow or a failed push the core has not written the frame, so its contents are not valid.
bool frame_is_valid(const std::uint32_t* frame, std::uint32_t cfsr) {
  using namespace ethos_hil::core;
  const auto address = reinterpret_cast<std::uintptr_t>(frame);
  const bool on_stack = address >= reinterpret_cast<std::uintptr_t>(__stack_limit) &&
                        address + STACKED_WORDS * 4 <= reinterpret_cast<std::uintptr_t>(__stack_top);
  return on_stack && (cfsr & (CFSR_MSTKERR | CFSR_STKERR | CFSR_STKOF)) == 0;
}

}  // namespace

void report_fault(const std::uint32_t* frame) {
  using namespace ethos_hil::core;
  ethos_hil::FaultInfo info{};
  info.cfsr = reg(CFSR);
  info.hfsr = reg(HFSR);
  info.mmfar = reg(MMFAR);
  info.bfar = reg(BFAR);
  info.sfsr = reg(SFSR);
  info.sfar = reg(SFAR);
  std::uint32_t ipsr;
  __asm volatile("mrs %0, ipsr" : "=r"(ipsr));
  info.exception = ipsr & 0x1FF;
  if (frame_is_valid(frame, info.cfsr)) {
    info.r0 = frame[0];
    info.r1 = frame[1];
    info.r2 = frame[2];
    info.r3 = frame[3];
    info.r12 = frame[4];
    info.lr = frame[5];
    info.pc = frame[6];
    info.xpsr = frame[7];
  }
  ethos_hil::report_fault(info);
}
