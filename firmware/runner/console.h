// The runner's console: lines in the form of ExecuTorch's runner for Arm, a level, "[executorch:where]" and a text.
// Each is one semihosting call, because the calls take the time.
#pragma once

#include "link/report.h"

namespace ethos_hil::runner {

// The destination of reports in runner mode: log lines and errors go to the console, an error's kind as its "where" in
// small letters, a fault in the words of CMSIS's handler, the end as the program's exit status.
extern const Sink CONSOLE;

// Prints a line of the runner itself.
void say(const Text& text);

// Prints a line without prefix, for tools that look for how it starts.
void say_plain(const Text& text);

// Prints an error of the runner itself and ends the program with status 1.
[[noreturn]] void reject(const Text& text);

}  // namespace ethos_hil::runner
