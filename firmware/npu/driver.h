// Runs command streams on an Ethos-U and waits, with a bound, for their end. Sequence and defaults are those of Arm's
// core driver; generation.h has the differences between generations. Every failure ends in an ERROR frame with the
// STATUS and QREAD registers.
#pragma once

#include <cstdint>

#include "link/formats.h"
#include "npu/identity.h"
#include "runtime/bytes.h"

namespace ethos_hil::npu {

// ID and CONFIG of the NPU on this board; zeros where there is none.
Identity identify();

// Whether this board's NPU cannot run programs compiled for `program`. If so, `reason` gets the NPU's identity.
bool explain_mismatch(const Identity& program, Text& reason);

// Resets the NPU and sets up what stays the same for all jobs: the ports to the memories, timed as those that programs
// of `mode` are compiled for, and the `events` to count in each job.
void initialise(const EventSet& events, DeviceMemoryMode mode = DeviceMemoryMode::SHARED_SRAM);

// Lets the next jobs count `events`, as far as the NPU has counters.
void select_events(const EventSet& events);

constexpr std::uint32_t REGIONS = 3;  // constants, scratch, fast scratch (null when there is none)

struct Job {
  Bytes stream;
  const void* bases[REGIONS];
};

struct JobCounters {
  std::uint64_t cycles;
  std::uint32_t events[EVENT_COUNTERS];
  std::uint32_t overflows;    // bit i: event counter i has wrapped
  std::uint32_t stream_size;  // bytes of the command stream that ran
};

// `instruction` is for the message.
JobCounters run(const Job& job, std::uint32_t timeout_ms, std::uint32_t instruction);

// For the board's interrupt handler.
void on_interrupt();

}  // namespace ethos_hil::npu
