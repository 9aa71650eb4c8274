/* Part of each plug-in: the version of QEMU's plug-in interface that it says it has. QEMU 7.2 to 8.2 has version 1; from
 * 9.0 on it takes 2 and later ones, and has scoreboards. What differs for us is where it is called.
 */

#include <stddef.h>

extern void* qemu_plugin_scoreboard_new(size_t bytes) __attribute__((weak));

__attribute__((visibility("default"))) int qemu_plugin_version = 1;

__attribute__((constructor)) static void choose(void) {
  if (qemu_plugin_scoreboard_new != NULL) {
    qemu_plugin_version = 2;
  }
}
