/* A plug-in for qemu-system-arm that puts a CMSDK APB UART in front of the machine's own UART 0: uart=ADDRESS,
 * received=DESCRIPTOR, sent=DESCRIPTOR, state=FILE. Bytes come from one pipe and go to another; the state is shared
 * with the process that is the line (suites/lab/bench/line_uart.py).
 *
 * QEMU's own UART asks its main loop for each byte, and a guest that polls STATE keeps the lock that the loop needs.
 * Measured with QEMU 7.2 on two cores: such a guest receives between 1 byte and 30 kB a second. Here the access itself
 * reads the pipe, and a guest that has polled for nothing for a while sleeps without the lock.
 *
 * Registers: Arm Cortex-M System Design Kit TRM, "APB UART". There are no interrupts. The functions below are QEMU's
 * own, not of its plug-in interface; Debian's QEMU 7.2 exports them. Their declarations are ours. A MemoryRegion is
 * QEMU's; what is allocated for it is larger than any.
 */

#define _GNU_SOURCE
#include <fcntl.h>
#include <poll.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

enum { MEMORY_REGION_BYTES = 1 << 14, IN_FRONT = 1, LITTLE_ENDIAN_DEVICE = 2 };
enum { WINDOW = 0x1000, DATA = 0x00, STATE = 0x04, CONTROL = 0x08, BAUD_DIVIDER = 0x10, IDENTITY = 0xFD0 };
enum { SEND_FULL = 1 << 0, RECEIVE_FULL = 1 << 1, SEND_OVERRUN = 1 << 2, RECEIVE_OVERRUN = 1 << 3 };
enum { SEND_ENABLE = 1 << 0, RECEIVE_ENABLE = 1 << 1, CONTROL_BITS = 0x7F };
enum { IDLE_POLLS = 64, LAZY_POLLS = 1000, RECORD = 4, AHEAD = 256 };
static const long NAP_NANOSECONDS = 100000, LAZY_NANOSECONDS = 5000000;

typedef uint64_t PluginId;

/* As QEMU 7.2 has it (include/exec/memory.h). */
struct Operations {
  uint64_t (*read)(void* opaque, uint64_t offset, unsigned size);
  void (*write)(void* opaque, uint64_t offset, uint64_t value, unsigned size);
  void* read_with_attributes;
  void* write_with_attributes;
  int endianness;
  struct {
    unsigned least, most;
    bool unaligned;
    void* accepts;
  } valid;
  struct {
    unsigned least, most;
    bool unaligned;
  } implemented;
};

extern void qemu_plugin_register_vcpu_init_cb(PluginId id, void (*callback)(PluginId id, unsigned int cpu));
extern void* get_system_memory(void);
extern void memory_region_init_io(void* region, void* owner, const struct Operations* operations, void* opaque,
                                  const char* name, uint64_t size);
extern void memory_region_add_subregion_overlap(void* region, uint64_t offset, void* part, int priority);
extern bool qemu_in_vcpu_thread(void);
extern void qemu_mutex_unlock_iothread(void);
extern void qemu_mutex_lock_iothread_impl(const char* file, int line);

/* suites/lab/bench/line_uart.py writes and reads it, too. */
struct State {
  uint32_t control, divider;
  uint32_t overrun;   /* the line sets it: a received byte was lost */
  uint32_t send_room; /* bytes that may wait to be sent */
  uint32_t received, sent;
  uint32_t held; /* bytes that were read from the pipe, and not yet by the guest; a reset makes it zero */
};

static struct State* state;
static uint64_t base;
static int receive_from = -1, send_to = -1;
static uint8_t latched, ahead[AHEAD];
static uint32_t ahead_size;
static uint64_t most_waiting; /* bytes in the pipe that we send to, at most: the other end only takes some away */
static bool full;
static int idle_polls;
static const uint8_t IDENTITY_BYTES[12] = {0x04, 0, 0, 0, 0x21, 0xB8, 0x1B, 0, 0x0D, 0xF0, 0x05, 0xB1};

static bool has_received(void) {
  if (!full && (state->control & RECEIVE_ENABLE) != 0) {
    if (state->held == 0) { /* a call of the system for each byte would take longer than the byte does */
      const ssize_t size = read(receive_from, ahead, sizeof ahead);
      ahead_size = state->held = size > 0 ? (uint32_t)size : 0;
    }
    if (state->held != 0) {
      latched = ahead[ahead_size - state->held--];
      full = true;
    }
  }
  return full;
}

static bool has_room(void) {
  const uint64_t room = (uint64_t)state->send_room * RECORD;
  int waiting = 0;
  if (most_waiting >= room && ioctl(send_to, FIONREAD, &waiting) == 0) {
    most_waiting = (uint64_t)waiting;
  }
  return most_waiting < room;
}

/* Let a guest that reads nothing but STATE sleep until a byte comes or a moment has passed. QEMU's main loop works
 * meanwhile. One that has slept for a while, and can only wait for a byte, sleeps longer: an idle board takes no time of
 * this machine. */
static void nap(bool room) {
  idle_polls += idle_polls <= LAZY_POLLS;
  if (idle_polls < IDLE_POLLS || !qemu_in_vcpu_thread()) {
    return;
  }
  struct pollfd come = {.fd = receive_from, .events = full ? 0 : POLLIN};
  const bool lazy = idle_polls > LAZY_POLLS && room && !full;
  const struct timespec most = {.tv_nsec = lazy ? LAZY_NANOSECONDS : NAP_NANOSECONDS};
  qemu_mutex_unlock_iothread();
  ppoll(&come, 1, &most, NULL);
  qemu_mutex_lock_iothread_impl(__FILE__, __LINE__);
}

static uint64_t read_state(void) {
  const bool received = has_received();
  const bool room = has_room();
  nap(room);
  return (room ? 0 : SEND_FULL) | (received ? RECEIVE_FULL : 0) | (state->overrun ? RECEIVE_OVERRUN : 0);
}

static uint64_t on_read(void* opaque, uint64_t offset, unsigned size) {
  (void)opaque;
  (void)size;
  switch (offset) {
    case DATA:
      idle_polls = 0;
      state->received += has_received();
      full = false;
      return latched;
    case STATE:
      return read_state();
    case CONTROL:
      return state->control;
    case BAUD_DIVIDER:
      return state->divider;
    default:
      return offset >= IDENTITY ? IDENTITY_BYTES[(offset - IDENTITY) / 4] : 0;
  }
}

static void send(uint8_t byte) {
  const uint8_t record[RECORD] = {byte, 0, state->divider & 0xFF, state->divider >> 8 & 0xFF};
  if ((state->control & SEND_ENABLE) != 0) {
    const bool went = write(send_to, record, sizeof record) == sizeof record;
    state->sent += went;
    most_waiting += went ? RECORD : 0;
  }
}

static void control(uint32_t value) {
  uint8_t dropped[256];
  const bool begins = (value & RECEIVE_ENABLE) != 0 && (state->control & RECEIVE_ENABLE) == 0;
  state->held = begins ? 0 : state->held;
  while (begins && read(receive_from, dropped, sizeof dropped) > 0) { /* nobody received what came before */
  }
  state->control = value & CONTROL_BITS;
}

static void on_write(void* opaque, uint64_t offset, uint64_t value, unsigned size) {
  (void)opaque;
  (void)size;
  idle_polls = 0;
  switch (offset) {
    case DATA:
      send(value & 0xFF);
      break;
    case STATE: /* a one clears an overrun */
      state->overrun = (value & RECEIVE_OVERRUN) != 0 ? 0 : state->overrun;
      break;
    case CONTROL:
      control((uint32_t)value);
      break;
    case BAUD_DIVIDER:
      state->divider = value & 0xFFFFF;
      break;
    default:
      break;
  }
}

static const struct Operations OPERATIONS = {
    .read = on_read,
    .write = on_write,
    .endianness = LITTLE_ENDIAN_DEVICE,
    .valid = {.least = 1, .most = 4},
    .implemented = {.least = 4, .most = 4},
};

/* The first processor exists: so does the system's memory, and no program has started. */
static void add(PluginId id, unsigned int cpu) {
  (void)id;
  if (cpu == 0) {
    void* region = calloc(1, MEMORY_REGION_BYTES);
    if (region == NULL) {
      abort();
    }
    memory_region_init_io(region, NULL, &OPERATIONS, NULL, "line-uart", WINDOW);
    memory_region_add_subregion_overlap(get_system_memory(), base, region, IN_FRONT);
  }
}

static const char* value_of(const char* argument, const char* name) {
  const size_t length = strlen(name);
  return strncmp(argument, name, length) == 0 ? argument + length : NULL;
}

static void map_state(const char* path) {
  const int file = open(path, O_RDWR);
  void* mapped = mmap(NULL, sizeof *state, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  state = mapped == MAP_FAILED ? NULL : mapped;
  close(file);
}

__attribute__((visibility("default"))) int qemu_plugin_install(PluginId id, const void* info, int count,
                                                               char** arguments) {
  (void)info;
  for (int i = 0; i < count; i++) {
    const char* value = NULL;
    if ((value = value_of(arguments[i], "uart=")) != NULL) {
      base = strtoull(value, NULL, 0);
    } else if ((value = value_of(arguments[i], "received=")) != NULL) {
      receive_from = atoi(value);
    } else if ((value = value_of(arguments[i], "sent=")) != NULL) {
      send_to = atoi(value);
    } else if ((value = value_of(arguments[i], "state=")) != NULL) {
      map_state(value);
    }
  }
  if (state == NULL || base == 0 || fcntl(receive_from, F_SETFL, O_NONBLOCK) != 0 ||
      fcntl(send_to, F_SETFL, O_NONBLOCK) != 0) {
    return 1;
  }
  qemu_plugin_register_vcpu_init_cb(id, add);
  return 0;
}
