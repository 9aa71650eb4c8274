/* A program of another project: newlib with semihosting, and an NPU driver with the register sequence of Arm's.
 *
 * Its first argument says what to do. It knows nothing of ethos-hil.
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define REGISTER(address) (*(volatile uint32_t *)(address))

static void uart_write(const char *text, size_t size) {
  REGISTER(UART + 0x10) = 16; /* BAUDDIV, at least 16 */
  REGISTER(UART + 0x08) = 1;  /* CTRL: transmit */
  for (size_t i = 0; i < size; i++) {
    while (REGISTER(UART + 0x04) & 1) { /* STATE: transmit buffer full */
    }
    REGISTER(UART) = (uint8_t)text[i];
  }
}

/* --- files --- */

static size_t read_file(const char *name, uint8_t *to, size_t room) {
  FILE *file = fopen(name, "rb");
  if (file == NULL) {
    printf("E [guest] cannot open %s\n", name);
    exit(1);
  }
  size_t size = fread(to, 1, room, file);
  fclose(file);
  return size;
}

static void write_file(const char *name, const uint8_t *from, size_t size) {
  FILE *file = fopen(name, "wb");
  if (file == NULL || fwrite(from, 1, size, file) != size || fclose(file) != 0) {
    printf("E [guest] cannot write %s\n", name);
    exit(1);
  }
}

/* --- the terminal --- */

/* A job for each line of standard input, as ExecuTorch's runner does it: its input is read again, its state stays. */
static void serve(void) {
  static uint8_t sums[256], input[256];
  char line[16];
  fprintf(stderr, "terminal %d %d\n", isatty(0), isatty(1));
  for (int job = 0; fgets(line, sizeof line, stdin) != NULL; job++) {
    size_t size = read_file("in.bin", input, sizeof input);
    for (size_t i = 0; i < size; i++) sums[i] += input[i];
    write_file("out.bin", sums, size);
    fprintf(stderr, "SERVER_INFERENCE_DONE %d\n", job);
  }
  printf("end\n");
}

static char read_character(void) {
  register int operation __asm("r0") = 7; /* SYS_READC */
  register int none __asm("r1") = 0;
  __asm volatile("bkpt 0xAB" : "+r"(operation) : "r"(none) : "memory");
  return (char)operation;
}

/* --- NPU --- */

enum {
  ID = 0x00,
  STATUS = 0x04,
  CMD = 0x08,
  RESET = 0x0C,
  QBASE = 0x10,
  QCONFIG = 0x1C,
  QSIZE = 0x20,
  PROT = 0x24,
  CONFIG = 0x28,
  REGIONCFG = 0x3C,
  LIMITS = 0x40,
  BASEP = 0x80,
  PMCR = PMU + 0x180,
  PMCNTENSET = PMU + 0x184,
  PMCCNTR = PMU + 0x1A0,
  PMCCNTR_CFG = PMU + 0x1A8,
  PMEVTYPER = PMU + 0x380,
};

#define NPU(offset) REGISTER(NPU_BASE + (offset))
#define ARENA 0x40000

static uint8_t sram_arena[ARENA] __attribute__((aligned(16), section(".sram")));
static uint8_t ddr_arena[ARENA] __attribute__((aligned(16), section(".ddr")));
static uint8_t stream[ARENA] __attribute__((aligned(16), section(".ddr")));
static uint8_t weights[ARENA] __attribute__((aligned(16), section(".ddr")));
/* In the file, so that --data can replace a part of it. */
uint8_t filled[64] __attribute__((section(".filled"))) = {1};

static volatile int interrupts;

void npu_interrupt(void) {
  NPU(CMD) = (NPU(CMD) & 0xC) | 2;
  interrupts++;
}

static int npu_job(const char *place, const char *output) {
  /* The processor's DTCM is out of the NPU's reach. */
  uint8_t *arena = place[0] == 's' ? sram_arena : place[0] == 'd' ? ddr_arena : (uint8_t *)0x30050000;
  size_t stream_size = read_file("stream.bin", stream, ARENA);
  read_file("weights.bin", weights, ARENA);
  size_t size = read_file("scratch.bin", arena, ARENA);

  NPU(RESET) = 3;
  while (NPU(STATUS) & 8) {
  }
  if ((NPU(PROT) & 3) != 3 || (NPU(CONFIG) & 0xF) == 0) {
    printf("E [guest] no NPU\n");
    return 1;
  }
  NPU(QCONFIG) = 2;
  NPU(REGIONCFG) = 0x5557;
  for (int i = 0; i < 4; i++) NPU(LIMITS + 4 * i) = NPU_LIMITS;

  NPU(PMCR) = 7;
  NPU(PMCCNTR_CFG) = 32 << 16 | 35;
  NPU(PMEVTYPER) = 32;
  NPU(PMCNTENSET) = 1u << 31 | 1;

  REGISTER(0xE000E100 + NPU_IRQ / 32 * 4) = 1u << NPU_IRQ % 32; /* NVIC: enable */
  NPU(QBASE) = (uint32_t)stream;
  NPU(QBASE + 4) = 0;
  NPU(QSIZE) = stream_size;
  const uint8_t *bases[] = {weights, arena, arena};
  for (int i = 0; i < 3; i++) {
    NPU(BASEP + 8 * i) = (uint32_t)bases[i];
    NPU(BASEP + 8 * i + 4) = 0;
  }
  NPU(CMD) = (NPU(CMD) & 0xC) | 1;
  while (interrupts == 0) {
  }
  uint32_t status = NPU(STATUS);
  if ((status & 0x95C) != 0) { /* bus, reset, parse, watchdog or ECC */
    printf("E [guest] the NPU failed, status %08lx\n", (unsigned long)status);
    return 1;
  }
  if (!(status & 0x20)) {
    printf("E [guest] the NPU did not reach the end, status %08lx\n", (unsigned long)status);
    return 1;
  }
  printf("cycles %lu interrupts %d\n", (unsigned long)NPU(PMCCNTR), interrupts);
  NPU(PMCR) = 0;
  NPU(CMD) = 0xC;
  write_file(output, arena, size);
  return 0;
}

/* Load from the NPU by an instruction that was written there, then by another in its place. */
static void change_code(void) {
  static uint16_t code[2] __attribute__((aligned(4))) = {0x6800, 0x4770}; /* ldr r0, [r0]; bx lr */
  uint32_t (*load)(uint32_t) = (uint32_t(*)(uint32_t))((uint32_t)code | 1);
  uint32_t first = load(NPU_BASE);
  *(volatile uint16_t *)code = 0x6A80; /* ldr r0, [r0, #0x28] */
  __asm volatile("dsb\n isb");
  uint32_t second = load(NPU_BASE);
  printf("%d %d\n", first == NPU(0), second == NPU(0x28));
}

/* --- everything else --- */

static void lock_up(void) {
  REGISTER(0xE000ED08) = 0x0FF00000; /* VTOR: no memory, so no handler for the fault */
  __asm volatile("dsb\n isb\n udf #0");
}

int main(int argc, char **argv) {
  const char *what = argc > 1 ? argv[1] : "";
  if (strcmp(what, "args") == 0) {
    for (int i = 0; i < argc; i++) printf("[%s]\n", argv[i]);
    fprintf(stderr, "to stderr\n");
    printf("after\n");
  } else if (strcmp(what, "heap") == 0) {
    char *block = malloc(100000);
    int here = 0;
    if (block == NULL) return 1;
    memset(block, 1, 100000);
    printf("heap %p stack %p\n", (void *)block, (void *)&here);
  } else if (strcmp(what, "copy") == 0) {
    write_file(argv[3], stream, read_file(argv[2], stream, ARENA));
  } else if (strcmp(what, "peek") == 0) {
    write_file(argv[4], (const uint8_t *)strtoul(argv[2], NULL, 0), strtoul(argv[3], NULL, 0));
  } else if (strcmp(what, "exit") == 0) {
    return atoi(argv[2]);
  } else if (strcmp(what, "raw") == 0) {
    fwrite("caf\xc3\xa9 \xff \xe2\x82\n", 1, 11, stdout);
    fputs("\xe2\x82", stdout);
  } else if (strcmp(what, "uart") == 0) {
    for (int i = 2; i < argc; i++) uart_write(argv[i], strlen(argv[i]));
    uart_write("\x04", 1);
    printf("after the end\n");
  } else if (strcmp(what, "serve") == 0) {
    serve();
  } else if (strcmp(what, "readc") == 0) {
    for (char got = 0; got != '\n'; putchar(got)) got = read_character();
  } else if (strcmp(what, "spin") == 0) {
    printf("spinning\n");
    for (;;) {
    }
  } else if (strcmp(what, "reset") == 0) {
    REGISTER(0xE000ED0C) = 0x05FA0004; /* AIRCR.SYSRESETREQ */
    for (;;) {
    }
  } else if (strcmp(what, "lockup") == 0) {
    printf("before\n");
    lock_up();
  } else if (strcmp(what, "change") == 0) {
    change_code();
  } else if (strcmp(what, "poke") == 0) {
    NPU(0xFFC) = 1;
  } else if (strcmp(what, "npu") == 0) {
    return npu_job(argv[2], argv[3]);
  } else {
    printf("E [guest] what?\n");
    return 2;
  }
  return 0;
}
