/* A plug-in for qemu-system-arm that watches what a program does and writes down where it breaks a rule of the strict
 * board: state=FILE, a file that harness/virtual/watcher.py made and maps too.
 *
 * QEMU's plug-in interface (docs/devel/tcg-plugins.rst, versions 1 to 4); the declarations are ours. It shows an access's
 * address and size and no value, so every rule is one about addresses and their order. Exceptions, the debugger and
 * semihosting write memory without it: a TCM word that differs from the start counts as written.
 */

#include <fcntl.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

typedef uint64_t PluginId;
struct qemu_plugin_tb;
struct qemu_plugin_insn;
enum { NO_REGISTERS = 0, LOADS_AND_STORES = 3 };

typedef void (*AccessCallback)(unsigned int cpu, uint32_t info, uint64_t address, void* instruction);

extern void qemu_plugin_register_vcpu_tb_trans_cb(PluginId id, void (*callback)(PluginId, struct qemu_plugin_tb*));
extern size_t qemu_plugin_tb_n_insns(const struct qemu_plugin_tb* block);
extern struct qemu_plugin_insn* qemu_plugin_tb_get_insn(const struct qemu_plugin_tb* block, size_t index);
extern uintptr_t qemu_plugin_insn_data(const struct qemu_plugin_insn* instruction, void* code, size_t size);
extern size_t qemu_plugin_insn_size(const struct qemu_plugin_insn* instruction);
extern uint64_t qemu_plugin_insn_vaddr(const struct qemu_plugin_insn* instruction);
extern void qemu_plugin_register_vcpu_mem_cb(struct qemu_plugin_insn* instruction, AccessCallback callback,
                                             int registers, int accesses, void* data);
extern void qemu_plugin_register_vcpu_insn_exec_cb(struct qemu_plugin_insn* instruction,
                                                   void (*callback)(unsigned int cpu, void* data), int registers,
                                                   void* data);
extern unsigned int qemu_plugin_mem_size_shift(uint32_t info);
extern _Bool qemu_plugin_mem_is_store(uint32_t info);

/* What QEMU says of itself. Before version 3 qemu_plugin_insn_data has one parameter and returns where the code is. */
struct Info {
  const char* target;
  struct {
    int oldest, newest;
  } version;
};
static int interface;

/* The file. harness/virtual/watcher.py has the same layout and the same numbers. */
enum { TCM_RULE = 1, UART_RULE = 2, BUS_RULE = 4, PART_RULE = 8, RESET_RULE = 16 };
enum { MISSING = 1, READ_ONLY = 2, TCM = 4, SECOND_TCM = 8 };
enum { STATE_READ = 1, CONTROL_WRITTEN = 2, DIVIDER_WRITTEN = 4 };
enum { CPACR_WRITTEN = 1, CPDLPSTATE_WRITTEN = 2 };
enum {
  UNALIGNED = 1,
  TOO_LARGE,
  EXCLUSIVE,
  EXECUTED,
  NOT_WRITTEN,
  PARTLY_WRITTEN,
  NO_MEMORY,
  NO_WRITE,
  NOT_READY,
  NOT_ENABLED,
  NO_FLOATING_POINT
};
enum { MOST_BREACHES = 8, PAGES = 1 << 18, TCMS = 2, TCM_BYTES = 1 << 19, STORE = 1 << 8 };

struct Breach {
  uint32_t kind, pc, address, access;
};

struct State {
  uint32_t rules, breaches, uart, core;
  uint32_t uart_bases[2];
  uint64_t tcm_hosts[TCMS];
  struct Breach breach[MOST_BREACHES];
  uint8_t pages[PAGES];
  uint8_t written[TCMS][TCM_BYTES / 4];
  uint32_t initial[TCMS][TCM_BYTES / 4];
};

static struct State* state;

static const uint32_t LIMIT_OF_PAGES = 0x40000000u, NORMAL_BEGIN = 0x60000000u, NORMAL_END = 0xA0000000u;
static const uint32_t CPACR = 0xE000ED88u, CPDLPSTATE = 0xE001E300u;
static const uint32_t UART_BYTES = 0x1000u;
enum { UART_DATA = 0x00, UART_STATE = 0x04, UART_CONTROL = 0x08, UART_DIVIDER = 0x10 };

/* An instruction as callbacks get it: its address, in bit 0 whether its access is exclusive, in bit 32 whether it is LDRD
 * or STRD: two words, which QEMU from 9.0 on shows as one access.
 */
static const uint64_t PAIR = (uint64_t)1 << 32;
static uint32_t pc_of(const void* instruction) { return (uint32_t)(uintptr_t)instruction & ~1u; }
static int is_exclusive(const void* instruction) { return (uintptr_t)instruction & 1; }

static void report(uint32_t kind, const void* instruction, uint32_t address, uint32_t size, int store) {
  const uint32_t count = state->breaches;
  if (count < MOST_BREACHES) {
    state->breach[count] = (struct Breach){kind, pc_of(instruction), address, size | (store ? STORE : 0)};
    __atomic_store_n(&state->breaches, count + 1, __ATOMIC_RELEASE);
  }
}

static void tcm_access(unsigned int which, const void* instruction, uint32_t address, uint32_t size, int store) {
  const uint32_t* now = (const uint32_t*)(uintptr_t)state->tcm_hosts[which];
  const uint32_t begin = address % TCM_BYTES;
  const uint32_t end = begin + size;
  for (uint32_t word = begin / 4; word * 4 < end && word < TCM_BYTES / 4; word++) {
    uint8_t* written = &state->written[which][word];
    if (*written) {
      continue;
    }
    const int whole = begin <= word * 4 && word * 4 + 4 <= end;
    /* A store has happened already: what differs in the bytes that it left alone was written by somebody else. */
    uint32_t mask = 0xFFFFFFFFu;
    for (uint32_t byte = 0; store && byte < 4; byte++) {
      const uint32_t at = word * 4 + byte;
      if (begin <= at && at < end) {
        mask &= ~(0xFFu << 8 * byte);
      }
    }
    if (!(store && whole) && ((now[word] ^ state->initial[which][word]) & mask) == 0) {
      report(store ? PARTLY_WRITTEN : NOT_WRITTEN, instruction, address, size, store);
    }
    *written = 1;
  }
}

/* Whether this word of a TCM and the next one were written, which is nearly always the case. `written` is not the
 * state's last field, so to look behind its end does no harm. */
static int was_written(uint8_t page, uint32_t address) {
  uint16_t both;
  memcpy(&both, &state->written[(page & SECOND_TCM) != 0][address % TCM_BYTES / 4], sizeof both);
  return both == 0x0101u;
}

static void low_access(uint8_t page, const void* instruction, uint32_t address, uint32_t size, int store) {
  if (page & MISSING) {
    report(NO_MEMORY, instruction, address, size, store);
  } else if (page & READ_ONLY && store) {
    report(NO_WRITE, instruction, address, size, store);
  } else if (page & TCM) {
    tcm_access((page & SECOND_TCM) != 0, instruction, address, size, store);
  }
}

static void uart_access(const void* instruction, uint32_t base, uint32_t address, uint32_t size, int store) {
  const uint32_t offset = address - base;
  if (offset == UART_STATE && !store) {
    state->uart |= STATE_READ;
  } else if (offset == UART_CONTROL && store) {
    state->uart |= CONTROL_WRITTEN;
  } else if (offset == UART_DIVIDER && store) {
    state->uart |= DIVIDER_WRITTEN;
  } else if (offset == UART_DATA && store) {
    if ((state->uart & (CONTROL_WRITTEN | DIVIDER_WRITTEN)) != (CONTROL_WRITTEN | DIVIDER_WRITTEN)) {
      report(NOT_ENABLED, instruction, address, size, store);
    } else if (!(state->uart & STATE_READ)) {
      report(NOT_READY, instruction, address, size, store);
    }
    state->uart &= ~(uint32_t)STATE_READ;
  }
}

static void device_access(const void* instruction, uint32_t address, uint32_t size, int store) {
  if (state->rules & BUS_RULE) {
    if (is_exclusive(instruction)) {
      report(EXCLUSIVE, instruction, address, size, store);
    } else if (address & (size - 1)) {
      report(UNALIGNED, instruction, address, size, store);
    } else if (size > 4) {
      report(TOO_LARGE, instruction, address, size, store);
    }
  }
  if (store && address == CPACR) {
    state->core |= CPACR_WRITTEN;
  } else if (store && address == CPDLPSTATE) {
    state->core |= CPDLPSTATE_WRITTEN;
  } else if (state->rules & UART_RULE) {
    for (int i = 0; i < 2; i++) {
      if (address - state->uart_bases[i] < UART_BYTES) {
        uart_access(instruction, state->uart_bases[i], address, size, store);
      }
    }
  }
}

static void one_access(const void* instruction, uint32_t address, uint32_t size, int store) {
  if (address < LIMIT_OF_PAGES) {
    const uint8_t page = state->pages[address >> 12];
    if (page != 0 && !(page & TCM && was_written(page, address))) {
      low_access(page, instruction, address, size, store);
    }
  } else if (address < NORMAL_BEGIN || address >= NORMAL_END) {
    device_access(instruction, address, size, store);
  }
}

static void on_access(unsigned int cpu, uint32_t info, uint64_t address, void* instruction) {
  (void)cpu;
  const uint32_t size = 1u << qemu_plugin_mem_size_shift(info);
  const int store = qemu_plugin_mem_is_store(info);
  if (size == 8 && (uintptr_t)instruction & PAIR) {
    one_access(instruction, (uint32_t)address, 4, store);
    one_access(instruction, (uint32_t)address + 4, 4, store);
  } else {
    one_access(instruction, (uint32_t)address, size, store);
  }
}

static void on_floating_point(unsigned int cpu, void* instruction) {
  (void)cpu;
  if (state->core != (CPACR_WRITTEN | CPDLPSTATE_WRITTEN)) {
    report(NO_FLOATING_POINT, instruction, pc_of(instruction), 0, 0);
  }
}

/* Thumb: Armv8-M Architecture Reference Manual, C2.3. */
static int uses_exclusive(uint32_t first, uint32_t second) {
  if ((first & 0xFFE0u) == 0xE840u) { /* LDREX, STREX */
    return 1;
  }
  const uint32_t kind = second >> 4 & 0xFu;
  return (first & 0xFFE0u) == 0xE8C0u && (kind == 4 || kind == 5 || kind == 7 || kind >= 12);
}

static int is_pair(uint32_t first) { /* LDRD, STRD; with neither index nor write-back the encodings are others' */
  return (first & 0xFE40u) == 0xE840u && first & 0x0120u;
}

static int uses_floating_point(uint32_t first, uint32_t second) {
  if ((first & 0xEC00u) != 0xEC00u) {
    return (first & 0xFFC0u) == 0xF000u && second == 0xE801u; /* VCTP; the others are no coprocessor's */
  }
  const uint32_t coprocessor = second >> 8 & 0xFu;
  return (first & 0xEF00u) == 0xEF00u || (coprocessor >= 8 && coprocessor <= 11) || coprocessor >= 14;
}

static void check_code(uint32_t pc) {
  const void* instruction = (const void*)(uintptr_t)pc;
  if (pc < LIMIT_OF_PAGES) {
    if (state->pages[pc >> 12] & MISSING) {
      report(NO_MEMORY, instruction, pc, 0, 0);
    }
  } else if ((pc < NORMAL_BEGIN || pc >= NORMAL_END) && state->rules & BUS_RULE) {
    report(EXECUTED, instruction, pc, 0, 0);
  }
}

static void on_translation(PluginId id, struct qemu_plugin_tb* block) {
  (void)id;
  int floating_point_seen = 0;
  const size_t count = qemu_plugin_tb_n_insns(block);
  for (size_t i = 0; i < count; i++) {
    struct qemu_plugin_insn* instruction = qemu_plugin_tb_get_insn(block, i);
    const uint32_t pc = (uint32_t)qemu_plugin_insn_vaddr(instruction);
    uint16_t code[2] = {0, 0};
    const size_t size = qemu_plugin_insn_size(instruction) == 4 ? 4 : 2;
    const uintptr_t answer = qemu_plugin_insn_data(instruction, code, size);
    if (interface < 3) {
      memcpy(code, (const void*)answer, size);
    }
    if (i == 0) {
      check_code(pc);
    }
    const uintptr_t data = pc | (uint32_t)uses_exclusive(code[0], code[1]) | (is_pair(code[0]) ? PAIR : 0);
    qemu_plugin_register_vcpu_mem_cb(instruction, on_access, NO_REGISTERS, LOADS_AND_STORES, (void*)data);
    if (state->rules & RESET_RULE && !floating_point_seen && uses_floating_point(code[0], code[1])) {
      floating_point_seen = 1;
      qemu_plugin_register_vcpu_insn_exec_cb(instruction, on_floating_point, NO_REGISTERS, (void*)(uintptr_t)pc);
    }
  }
}

__attribute__((visibility("default"))) int qemu_plugin_install(PluginId id, const void* info, int count,
                                                               char** arguments) {
  interface = ((const struct Info*)info)->version.newest;
  static const char NAME[] = "state=";
  for (int i = 0; i < count; i++) {
    if (strncmp(arguments[i], NAME, sizeof NAME - 1) == 0) {
      const int file = open(arguments[i] + sizeof NAME - 1, O_RDWR);
      void* mapped = mmap(NULL, sizeof *state, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
      state = mapped == MAP_FAILED ? NULL : mapped;
      close(file);
    }
  }
  if (state == NULL) {
    return 1;
  }
  qemu_plugin_register_vcpu_tb_trans_cb(id, on_translation);
  return 0;
}
