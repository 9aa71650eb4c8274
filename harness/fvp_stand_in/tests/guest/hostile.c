/* A program that wants more than its folder: every semihosting call, in every hostile way.
 *
 * It prints a line for each attempt: its name, what the call returned, and the errno where that is -1. The folder has
 * in.txt ("inside"), a file where.txt with the absolute path of the folder, the links out, in and up, and a pipe.
 */
#include <stdint.h>
#include <stdio.h>
#include <string.h>

enum {
  OPEN = 0x01,
  CLOSE = 0x02,
  WRITEC = 0x03,
  WRITE0 = 0x04,
  WRITE = 0x05,
  READ = 0x06,
  READC = 0x07,
  ISERROR = 0x08,
  ISTTY = 0x09,
  SEEK = 0x0A,
  FLEN = 0x0C,
  TMPNAM = 0x0D,
  REMOVE = 0x0E,
  RENAME = 0x0F,
  CLOCK = 0x10,
  TIME = 0x11,
  SYSTEM = 0x12,
  ERRNO = 0x13,
  GET_CMDLINE = 0x15,
  HEAPINFO = 0x16,
  ELAPSED = 0x30,
  TICKFREQ = 0x31,
};
enum { R = 0, R_PLUS = 2, W = 4, W_PLUS = 6, A = 8 };
#define NOWHERE ((void *)0x0E000000) /* no memory */
#define PLENTY 0xFFFFFFF0u

void npu_interrupt(void) {}

__attribute__((noinline)) static int call(int operation, const void *argument) {
  register int r0 __asm("r0") = operation;
  register const void *r1 __asm("r1") = argument;
  __asm volatile("bkpt 0xAB" : "+r"(r0) : "r"(r1) : "memory");
  return r0;
}

static int call3(int operation, uint32_t a, uint32_t b, uint32_t c) {
  const uint32_t block[4] = {a, b, c, 0};
  return call(operation, block);
}

static int open_file(const char *name, int mode) { return call3(OPEN, (uint32_t)name, mode, strlen(name)); }
static int remove_file(const char *name) { return call3(REMOVE, (uint32_t)name, strlen(name), 0); }
static int run_command(const char *text) { return call3(SYSTEM, (uint32_t)text, strlen(text), 0); }
static int rename_file(const char *old, const char *fresh) {
  const uint32_t block[4] = {(uint32_t)old, strlen(old), (uint32_t)fresh, strlen(fresh)};
  return call(RENAME, block);
}

static void tell(const char *attempt, int result) {
  if (result == -1)
    printf("%s|error %d\n", attempt, call(ERRNO, NULL));
  else
    printf("%s|%d\n", attempt, result);
}

/* Whether a file opens; it is closed again. */
static void try_open(const char *attempt, const char *name, int mode) {
  int file = open_file(name, mode);
  if (file != -1) call3(CLOSE, file, 0, 0);
  tell(attempt, file == -1 ? -1 : 1);
}

static char text[8192];

static void names(void) {
  char folder[512] = {0};
  int file = open_file("where.txt", R);
  call3(READ, file, (uint32_t)folder, sizeof folder - 1);
  call3(CLOSE, file, 0, 0);

  try_open("OPEN in.txt", "in.txt", R);
  snprintf(text, sizeof text, "%s/in.txt", folder);
  try_open("OPEN the folder's path and in.txt", text, R);
  snprintf(text, sizeof text, "%s/../secret.txt", folder);
  try_open("OPEN the folder's path and ../secret.txt", text, R);
  try_open("OPEN ../secret.txt", "../secret.txt", R);
  try_open("OPEN ../secret.txt to write", "../secret.txt", W);
  try_open("OPEN ../new.txt to write", "../new.txt", W);
  try_open("OPEN /etc/passwd", "/etc/passwd", R);
  try_open("OPEN /proc/self/environ", "/proc/self/environ", R);
  try_open("OPEN /proc/self/mem to write", "/proc/self/mem", R_PLUS);
  try_open("OPEN /proc/self/fd/3", "/proc/self/fd/3", R);
  try_open("OPEN /proc/self/cwd/in.txt", "/proc/self/cwd/in.txt", R);
  try_open("OPEN a link to a file inside", "in", R);
  try_open("OPEN a link to a file outside", "out", R);
  try_open("OPEN a link to a file outside to write", "out", W);
  try_open("OPEN through a link to the folder above", "up/secret.txt", R);
  try_open("OPEN a pipe", "pipe", R);
  try_open("OPEN a pipe to write", "pipe", W);
  try_open("OPEN .", ".", R);
  try_open("OPEN an empty name", "", R);
  try_open("OPEN a file in a folder that is not one", "in.txt/more", W);
  memset(text, 'a', sizeof text);
  tell("OPEN a name of 8,191 letters", call3(OPEN, (uint32_t)text, R, sizeof text - 1));
  tell("OPEN a name without its end", call3(OPEN, (uint32_t)text, R, 10));
  tell("OPEN a name of 4 GB", call3(OPEN, (uint32_t)text, R, PLENTY));
  tell("OPEN a name at no address", call3(OPEN, (uint32_t)NOWHERE, R, 4));
  tell("OPEN with mode 99", open_file("in.txt", 99));
  tell("OPEN with arguments at no address", call(OPEN, NOWHERE));
  try_open("OPEN made.txt to write", "made.txt", W);

  tell("REMOVE made.txt", remove_file("made.txt"));
  tell("RENAME made.txt to mine.txt", rename_file("made.txt", "mine.txt"));
  tell("SYSTEM touch ../owned", run_command("touch ../owned"));

  uint32_t block[3] = {(uint32_t)text, 1, sizeof text};
  if (call(TMPNAM, block) == 0) try_open("OPEN what TMPNAM gives", text, W);
}

static void contents(void) {
  int file = open_file("in.txt", R);
  uint32_t size = sizeof text;
  tell("READ 8,192 bytes of 6, left", call3(READ, file, (uint32_t)text, size));
  call3(SEEK, file, 0, 0);
  tell("READ 4 GB of 6, read", (int)(PLENTY - (uint32_t)call3(READ, file, (uint32_t)text, PLENTY)));
  call3(SEEK, file, 0, 0);
  tell("READ 6 bytes to no address, left", call3(READ, file, (uint32_t)NOWHERE, 6));
  tell("WRITE to a file opened to read, left", call3(WRITE, file, (uint32_t)text, 4));
  tell("SEEK to 2,147,483,647", call3(SEEK, file, 0x7FFFFFFF, 0));
  tell("FLEN", call3(FLEN, file, 0, 0));
  tell("ISTTY of a file", call3(ISTTY, file, 0, 0));
  tell("CLOSE", call3(CLOSE, file, 0, 0));
  tell("CLOSE again", call3(CLOSE, file, 0, 0));
  tell("READ a closed file, left", call3(READ, file, (uint32_t)text, 4));
  tell("WRITE to file 12345, left", call3(WRITE, 12345, (uint32_t)text, 4));
  tell("FLEN of file -1", call3(FLEN, -1, 0, 0));
  tell("SEEK of file 0", call3(SEEK, 0, 0, 0));

  file = open_file("big.txt", W_PLUS);
  tell("WRITE 4 bytes from no address, left", call3(WRITE, file, (uint32_t)NOWHERE, 4));
  call3(SEEK, file, 0x7FFFFFFF, 0);
  tell("WRITE 4 bytes 2 GB behind the start, left", call3(WRITE, file, (uint32_t)text, 4));
  tell("FLEN after it", call3(FLEN, file, 0, 0));
  call3(CLOSE, file, 0, 0);

  int open_files = 0;
  while (open_file("in.txt", R) != -1) open_files++;
  tell("OPEN until it fails, files", open_files);
}

static void others(void) {
  int in = open_file(":tt", R), out = open_file(":tt", W);
  tell("READ standard input, left of 4", call3(READ, in, (uint32_t)text, 4));
  tell("READ 1 byte of standard input, left", call3(READ, in, (uint32_t)text, 1));
  tell("ISTTY of standard output", call3(ISTTY, out, 0, 0));
  tell("READC", call(READC, NULL));
  tell("HEAPINFO at no address", call(HEAPINFO, NOWHERE) != 0);
  tell("ISERROR of -1", call3(ISERROR, -1, 0, 0));
  tell("TICKFREQ", call(TICKFREQ, NULL) != 0);
  call(WRITE0, "WRITE0|");
  call(WRITEC, "1");
  call(WRITE0, "\n");
}

/* Read a file with a hole of 64 MB to where there is no memory. */
static int hoard(void) {
  int file = open_file("big.txt", W_PLUS);
  call3(SEEK, file, 64 << 20, 0);
  call3(WRITE, file, (uint32_t)"x", 1);
  call3(SEEK, file, 0, 0);
  call3(READ, file, 0x02000000, PLENTY);
  return 0;
}

int main(int argc, char **argv) {
  if (argc > 1 && strcmp(argv[1], "unknown") == 0) return call(0x99, NULL);
  if (argc > 1 && strcmp(argv[1], "hoard") == 0) return hoard();
  if (argc > 1 && strcmp(argv[1], "endless") == 0)
    for (;;) call3(OPEN, (uint32_t)"../x", R, 4);
  names();
  others();
  contents();
  return 0;
}
