// The firmware's reports: log lines, errors, faults and the end. Every error is final: fail() reports it, ends the
// conversation with a non-zero status and parks the CPU, so no caller has to pass an error on and none can forget to.
#pragma once

#include <cstdint>

#include "link/formats.h"
#include "link/text.h"

namespace ethos_hil {

enum class LogLevel : std::uint32_t { DEBUG = 0, INFO = 1, ERROR = 2 };

// The destination of reports: frames over the UART unless report_to() names another one.
struct Sink {
  void (*log)(LogLevel level, const Text& text);
  void (*error)(ErrorKind kind, const Text& text, std::uint32_t needed, std::uint32_t available);
  void (*fault)(const FaultInfo& info);
  // The CPU is parked if this returns.
  void (*end)(std::uint32_t status, std::uint32_t runs);
};
void report_to(const Sink& sink);

void log(LogLevel level, const Text& text);

// Reports an error without ending, for errors that take several frames. `needed` and `available` are as formats.h
// defines them for `kind`.
void report_error(ErrorKind kind, const Text& text, std::uint32_t needed = 0, std::uint32_t available = 0);

// Reports an error, then calls finish(1).
[[noreturn]] void fail(ErrorKind kind, const Text& text, std::uint32_t needed = 0, std::uint32_t available = 0);

// Reports a fault, then calls finish(1).
[[noreturn]] void report_fault(const FaultInfo& info);

// Counts an execution as finished.
void count_run();

// What comes after the end, when the last byte has left; it does not return. Without it the CPU sleeps for ever.
using Ending = void (*)();
void finish_with(Ending ending);

// Ends with `status`.
[[noreturn]] void finish(std::uint32_t status);

}  // namespace ethos_hil
