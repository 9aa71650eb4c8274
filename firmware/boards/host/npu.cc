// No NPU: it accepts every program, so that all of it is loaded and checked, and its first job fails.
#include "link/report.h"
#include "npu/driver.h"

namespace ethos_hil::npu {

Identity identify() { return {0, 0}; }

bool explain_mismatch(const Identity&, Text&) { return false; }

void initialise(const EventSet&, DeviceMemoryMode) {}

void select_events(const EventSet&) {}

JobCounters run(const Job&, std::uint32_t, std::uint32_t instruction) {
  fail(ErrorKind::NPU_FAULT, Text() << "instruction " << instruction << ": this computer has no NPU to run it on");
}

}  // namespace ethos_hil::npu
