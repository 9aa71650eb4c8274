/* Reads a word behind the end of a memory: of the Corstone-300's BRAM, and of the Corstone-320's BROM. */
#include <stdio.h>

__attribute__((noinline)) static unsigned careless(void) {
  return *(volatile unsigned*)0x11100000;
}

void npu_interrupt(void) {}

int main(void) {
  printf("%u\n", careless());
  return 0;
}
