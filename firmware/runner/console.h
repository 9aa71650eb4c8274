// The runner's console: lines as ExecuTorch's runner for Arm writes them, a level, "[executorch:where]" and a text.
// Each is one semihosting call, because a call is what costs.
#pragma once

#include "link/report.h"

namespace ethos_hil::runner {

// Where everything that is reported goes in runner mode: log lines and errors to the console, an error's kind as its
// "where" in small letters, a fault in the words of CMSIS's handler, the end as the program's exit status.
extern const Sink CONSOLE;

// A line of the runner itself.
void say(const Text& text);

// A line as it is, for what tools look for at its beginning.
void say_plain(const Text& text);

// An error of the runner itself; ends the program with status 1.
[[noreturn]] void reject(const Text& text);

}  // namespace ethos_hil::runner
