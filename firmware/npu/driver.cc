#include "npu/driver.h"

#include "boards/board.h"
#include "link/report.h"
#include "npu/generation.h"
#include "npu/registers.h"

namespace ethos_hil::npu {

namespace {

// The limit of Arm's driver; a reset takes far fewer polls.
constexpr std::uint32_t RESET_POLLS = 100'000;
constexpr std::uint32_t BASE_ALIGNMENT = 16;

// The four memory selectors that QCONFIG chooses from for the command stream, and two bits each of REGIONCFG for the
// eight regions. Two select port 0, which leads to the SRAM, and two port 1, which leads to external memory.
enum Way : std::uint32_t { SRAM_A, SRAM_B, EXTERNAL_A, EXTERNAL_B };

struct Ways {
  Way stream;
  Way regions[8];
};

// By memory mode: the default of Arm's driver, and for the other two modes the values of ExecuTorch's
// corstone_utils.cmake.
constexpr Ways WAYS[] = {
    {EXTERNAL_A, {EXTERNAL_B, SRAM_A, SRAM_B, SRAM_B, SRAM_B, SRAM_B, SRAM_B, SRAM_B}},
    {SRAM_B, {SRAM_B, SRAM_A, SRAM_A, SRAM_A, SRAM_A, SRAM_A, SRAM_A, SRAM_A}},
    {EXTERNAL_B, {EXTERNAL_B, EXTERNAL_B, SRAM_A, SRAM_A, SRAM_A, SRAM_A, SRAM_A, SRAM_A}},
};
static_assert(static_cast<int>(DeviceMemoryMode::SHARED_SRAM) == 0 &&
              static_cast<int>(DeviceMemoryMode::SRAM_ONLY) == 1 &&
              static_cast<int>(DeviceMemoryMode::DEDICATED_SRAM) == 2);

constexpr std::uint32_t region_config(const Ways& ways) {
  std::uint32_t config = 0;
  for (std::uint32_t region = 0; region < 8; ++region) config |= ways.regions[region] << region * 2;
  return config;
}

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

Identity identify() { return {at(Register::ID), at(Register::CONFIG)}; }

bool explain_mismatch(const Identity& program, Text& reason) {
  const Identity npu = identify();
  if (GENERATION.has(npu) && can_run(npu, program)) return false;
  if (npu.id == 0) {
    reason << "but no NPU answers at " << Hex{address_of(const_cast<const std::uint32_t*>(board::npu_registers()))}
           << ", where ID reads 0";
  } else {
    reason << "the NPU is " << npu;
    if (!GENERATION.has(npu)) reason << ", which this firmware does not drive";
  }
  return true;
}

void initialise(const std::uint16_t (&events)[EVENT_COUNTERS], DeviceMemoryMode mode) {
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
  const Ways& ways = WAYS[static_cast<std::uint32_t>(mode)];
  GENERATION.set_up_ports(npu);
  at(Register::QCONFIG) = ways.stream;
  at(Register::REGIONCFG) = region_config(ways);
  for (std::uint32_t port = 0; port < 2; ++port) GENERATION.timing(npu, mode, port).apply(port);

  at(PmuRegister::PMCCNTR_CFG) = EVENT_NPU_ACTIVE | EVENT_NPU_IDLE << 16;
  for (std::uint32_t i = 0; i < GENERATION.counters; ++i) at(PmuRegister::PMEVTYPER0, i) = events[i];
  at(PmuRegister::PMCNTENSET) = PMCNTEN_CYCLES | ((1u << GENERATION.counters) - 1);
  board::enable_npu_interrupt();
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
  // The CPU's addresses have 32 bits; the high words keep their reset value of zero.
  at(Register::QBASE_LOW) = address_of(job.stream.data);
  at(Register::QSIZE) = job.stream.size;
  for (std::uint32_t i = 0; i < REGIONS; ++i) at(Register::BASEP0_LOW, 2 * i) = address_of(job.bases[i]);
  memory_barrier();
  at(Register::CMD) = CMD_RUN;

  if (!board::wait_for(job_ended, timeout_ms)) {
    Text text;
    text << "instruction " << instruction << ": the NPU did not finish within " << timeout_ms << " ms";
    fail_with_status(ErrorKind::NPU_TIMEOUT, text, at(Register::STATUS));
  }
  const std::uint32_t status = status_at_end;
  if ((status & (GENERATION.faults | STATUS_RUNNING)) != 0 || (status & STATUS_END_REACHED) == 0) {
    Text text;
    text << "instruction " << instruction << ": the NPU " << fault_name(status);
    fail_with_status(ErrorKind::NPU_FAULT, text, status);
  }
  at(PmuRegister::PMCR) = 0;  // counters stand still, so the two halves of the cycle counter belong together
  JobCounters counters{};
  counters.cycles = at(PmuRegister::PMCCNTR_LOW);
  counters.cycles |= std::uint64_t{at(PmuRegister::PMCCNTR_HIGH) & 0xFFFF} << 32;
  for (std::uint32_t i = 0; i < GENERATION.counters; ++i) counters.events[i] = at(PmuRegister::PMEVCNTR0, i);
  return counters;
}

void on_interrupt() {
  status_at_end = at(Register::STATUS);
  at(Register::CMD) = CMD_CLEAR_IRQ;
  memory_barrier();  // the interrupt line must be low before the handler returns
  job_ended = true;
}

}  // namespace ethos_hil::npu
