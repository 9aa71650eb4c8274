// The handler of the NPU's interrupt, which the event link keeps asking for until it is told (Zephyr,
// drivers/misc/ethos_u/ethos_u_renesas.c; FSP, bsp_irq.h: R_BSP_IrqStatusClear).
#include "boards/armv8m/core.h"
#include "boards/ra8/event_link.h"
#include "npu/driver.h"

extern "C" void npu_handler() {
  using namespace ethos_hil;
  npu::on_interrupt();
  port::event_link() = port::event_link() & ~port::EVENT_LINK_REQUEST;
  static_cast<void>(static_cast<std::uint32_t>(port::event_link()));  // waits until it has arrived
  core::barrier();
}
