// Runs one program from files of the host, as ExecuTorch's runner for Arm does under semihosting
// (examples/arm/executor_runner): with the same command line, file names, layouts and exit status, and the lines that
// tools parse.
#pragma once

#include "link/text.h"

namespace ethos_hil::runner {

// Whether there is a host that asks for a run.
bool requested();

// Runs it; call requested() first. Exits with status 0, or with 1 after a line that starts with "E": at once if there
// is a `problem` with the board's memories.
[[noreturn]] void run(const Text& problem);

}  // namespace ethos_hil::runner
