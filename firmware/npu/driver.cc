#include "npu/driver.h"

#include "boards/board.h"
#include "link/report.h"
#include "npu/generation.h"
#include "npu/registers.h"
#include "runtime/step_clock.h"

namespace ethos_hil::npu {

namespace {

// The limit of Arm's driver; a reset takes far fewer polls.
constexpr std::uint32_t RESET_POLLS = 100'000;
constexpr std::uint32_t BASE_ALIGNMENT = 16;

// The NPU has four memory selectors, of which QCONFIG chooses one for the command stream, and REGIONCFG, in two bits
// each, one for every region. Two lead through port 0 to the SRAM, two through port 1 to external memory. This driver
// gives both of a pair the same properties, and uses the first one.
enum Selector : std::uint32_t { SRAM = 0, EXTERNAL = 2 };

Selector selector_for(const void* pointer) { return board::is_at_sram_port(pointer) ? SRAM : EXTERNAL; }

volatile bool job_ended;
volatile std::uint32_t status_at_end;

volatile std::uint32_t& at(PmuRegister which, std::uint32_t index = 0) {
  return board::npu_registers()[(GENERATION.pmu_base + static_cast<std::uint32_t>(which)) / 4 + index];
}

std::uint32_t address_of(const void* pointer) {
  return static_cast<std::uint32_t>(reinterpret_cast<std::uintptr_t>(pointer));
}

void memory_barrier() { __asm volatile("dsb" ::: "memory"); }

[[noreturn]] void fail_with_status(ErrorKind kind, Text& text, std::uint32_t status) {
  const std::uint32_t read = at(Register::QREAD);
  text << ": STATUS " << Hex{status} << ", QREAD " << Hex{read};
  fail(kind, text, status, read);
}

const char* fault_name(std::uint32_t status) {
  if ((status & STATUS_BUS_ERROR) != 0) return "met a bus error";
  if ((status & STATUS_PARSE_ERROR) != 0) return "met a command it cannot parse";
  if ((status & STATUS_WEIGHT_FAULT & GENERATION.faults) != 0) return "met weights it cannot decode";
  if ((status & STATUS_ECC) != 0) return "met an ECC fault";
  if ((status & STATUS_BRANCH_FAULT & GENERATION.faults) != 0) return "met a branch it cannot take";
  return "stopped before the end of its command stream";
}

}  // namespace

Identity identify() {
  Identity npu{};
  if (!board::try_load(&at(Register::ID), npu.id)) return {};
  npu.config = at(Register::CONFIG);
  return npu;
}

bool explain_mismatch(const Identity& program, Text& reason) {
  const Identity npu = identify();
  if (GENERATION.has(npu) && can_run(npu, program)) return false;
  if (npu.id == 0) {
    reason << "but no NPU answers at " << Hex{address_of(const_cast<const std::uint32_t*>(board::npu_registers()))}
           << ", where ID reads 0 or not at all";
  } else {
    reason << "the NPU is " << npu;
    if (!GENERATION.has(npu)) reason << ", which this firmware does not drive";
  }
  return true;
}

void initialise(const EventSet& events, DeviceMemoryMode mode) {
  at(Register::RESET) = PRIVILEGED;  // and secure: the memories are used through their secure aliases
  std::uint32_t polls = RESET_POLLS;
  while ((at(Register::STATUS) & STATUS_RESETTING) != 0) {
    if (--polls == 0) {
      Text text;
      text << "the NPU did not come out of reset";
      fail_with_status(ErrorKind::NPU_TIMEOUT, text, at(Register::STATUS));
    }
  }
  const std::uint32_t level = at(Register::PROT) & (PRIVILEGED | NON_SECURE);
  if (level != PRIVILEGED) {
    Text text;
    text << "the NPU runs " << ((level & PRIVILEGED) != 0 ? "privileged" : "unprivileged") << " and "
         << ((level & NON_SECURE) != 0 ? "non-secure" : "secure") << " after reset, expected privileged and secure";
    fail_with_status(ErrorKind::NPU_FAULT, text, at(Register::STATUS));
  }
  // After reset the NPU allows its clock and power to be removed whenever it idles, and with them its registers.
  at(Register::CMD) = CMD_STAY_AWAKE;
  const Identity npu = identify();
  GENERATION.set_up_ports(npu);
  for (std::uint32_t port = 0; port < 2; ++port) GENERATION.memories(npu).at(mode, port).apply(port);

  // No source says that a reset clears what is enabled in the PMU, or what has overflowed.
  const std::uint32_t events_mask = (1u << GENERATION.counters) - 1;
  const std::uint32_t all = PMCNT_CYCLES | events_mask;
  at(PmuRegister::PMCR) = 0;
  at(PmuRegister::PMCNTENCLR) = all;
  at(PmuRegister::PMINTCLR) = all;
  at(PmuRegister::PMOVSCLR) = all;
  at(PmuRegister::PMCCNTR_CFG) = EVENT_NPU_ACTIVE | EVENT_NPU_IDLE << 16;
  select_events(events);
  at(PmuRegister::PMCNTENSET) = all;
  board::enable_npu_interrupt();
}

void select_events(const EventSet& events) {
  for (std::uint32_t i = 0; i < GENERATION.counters; ++i) at(PmuRegister::PMEVTYPER0, i) = events.events[i];
}

JobCounters run(const Job& job, std::uint32_t timeout_ms, std::uint32_t instruction) {
  for (std::uint32_t i = 0; i < REGIONS; ++i) {
    if (!is_aligned(job.bases[i], BASE_ALIGNMENT)) {
      fail(ErrorKind::PROGRAM, Text() << "instruction " << instruction << ": base of region " << i << " is "
                                      << Hex{address_of(job.bases[i])} << ", no multiple of " << BASE_ALIGNMENT);
    }
  }
  job_ended = false;
  at(PmuRegister::PMCR) = PMCR_ENABLE | PMCR_RESET_EVENTS | PMCR_RESET_CYCLES;
  std::uint32_t regions = 0;
  for (std::uint32_t i = 0; i < REGIONS; ++i) regions |= selector_for(job.bases[i]) << 2 * i;
  at(Register::QCONFIG) = selector_for(job.stream.data);
  at(Register::REGIONCFG) = regions;
  // The CPU's addresses have 32 bits. The high words are written all the same: no source says that a reset clears them.
  at(Register::QBASE_LOW) = address_of(job.stream.data);
  at(Register::QBASE_HIGH) = 0;
  at(Register::QSIZE) = job.stream.size;
  for (std::uint32_t i = 0; i < REGIONS; ++i) {
    at(Register::BASEP0_LOW, 2 * i) = address_of(job.bases[i]);
    at(Register::BASEP0_LOW, 2 * i + 1) = 0;
  }
  memory_barrier();
  at(Register::CMD) = CMD_RUN;
  step_clock::mark(StepPart::START);

  const bool has_ended = board::wait_for(job_ended, timeout_ms);
  step_clock::mark(StepPart::WAIT);
  if (!has_ended) {
    Text text;
    text << "instruction " << instruction << ": the NPU did not finish within " << timeout_ms
         << " ms of the board's own time";
    fail_with_status(ErrorKind::NPU_TIMEOUT, text, at(Register::STATUS));
  }
  const std::uint32_t status = status_at_end;
  if ((status & (GENERATION.faults | STATUS_RUNNING)) != 0 || (status & STATUS_END_REACHED) == 0) {
    Text text;
    text << "instruction " << instruction << ": the NPU " << fault_name(status);
    fail_with_status(ErrorKind::NPU_FAULT, text, status);
  }
  if (at(Register::QREAD) != job.stream.size) {
    Text text;
    text << "instruction " << instruction << ": the NPU reports the end, and has not read all " << job.stream.size
         << " bytes of its command stream";
    fail_with_status(ErrorKind::NPU_FAULT, text, status);
  }
  at(PmuRegister::PMCR) = 0;  // counters stand still, so the two halves of the cycle counter belong together
  JobCounters counters{};
  counters.cycles = at(PmuRegister::PMCCNTR_LOW);
  counters.cycles |= std::uint64_t{at(PmuRegister::PMCCNTR_HIGH) & 0xFFFF} << 32;
  for (std::uint32_t i = 0; i < GENERATION.counters; ++i) counters.events[i] = at(PmuRegister::PMEVCNTR0, i);
  counters.stream_size = job.stream.size;
  counters.overflows = at(PmuRegister::PMOVSSET);
  if (counters.overflows != 0) at(PmuRegister::PMOVSCLR) = counters.overflows;
  step_clock::mark(StepPart::END);
  return counters;
}

void on_interrupt() {
  // The line may rise without a reason, and falls some time after it was cleared: then this is not the end of a job.
  const std::uint32_t status = at(Register::STATUS);
  if ((status & STATUS_IRQ_RAISED) == 0) return;
  at(Register::CMD) = CMD_CLEAR_IRQ;
  // A write may still be on its way when a barrier ends. Reading from the same device waits for its arrival.
  static_cast<void>(static_cast<std::uint32_t>(at(Register::STATUS)));
  memory_barrier();
  status_at_end = status;
  job_ended = true;
}

}  // namespace ethos_hil::npu
