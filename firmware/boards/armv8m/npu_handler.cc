// The handler of the NPU's interrupt, where its line leads straight to the processor.
#include "npu/driver.h"

extern "C" void npu_handler() { ethos_hil::npu::on_interrupt(); }
