/* A plug-in for qemu-system-arm that gives the machine one more RAM: file=FILE,base=ADDRESS,size=BYTES.
 *
 * QEMU has no option for that. The functions below are not of its plug-in interface, but of its own; Debian's QEMU 7.2
 * exports them. Their declarations are ours. A MemoryRegion is QEMU's; what is allocated for it is larger than any.
 */

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

enum { MEMORY_REGION_BYTES = 1 << 14, PLUGIN_INTERFACE = 1 };

typedef uint64_t PluginId;

extern void qemu_plugin_register_vcpu_init_cb(PluginId id, void (*callback)(PluginId id, unsigned int cpu));
extern void* get_system_memory(void);
extern void memory_region_init_ram(void* region, void* owner, const char* name, uint64_t size, void** error);
extern void memory_region_add_subregion(void* region, uint64_t offset, void* part);

__attribute__((visibility("default"))) int qemu_plugin_version = PLUGIN_INTERFACE;

static uint64_t base, size;

/* The first processor exists: so does the system's memory, and no program has started. */
static void add(PluginId id, unsigned int cpu) {
  (void)id;
  if (cpu != 0) {
    return;
  }
  void* region = calloc(1, MEMORY_REGION_BYTES);
  void* error = NULL;
  if (region == NULL) {
    abort();
  }
  memory_region_init_ram(region, NULL, "added", size, &error);
  if (error != NULL) {
    abort();
  }
  memory_region_add_subregion(get_system_memory(), base, region);
}

static uint64_t number(const char* argument, const char* name) {
  const size_t length = strlen(name);
  return strncmp(argument, name, length) == 0 ? strtoull(argument + length, NULL, 0) : 0;
}

__attribute__((visibility("default"))) int qemu_plugin_install(PluginId id, const void* info, int count,
                                                               char** arguments) {
  (void)info;
  for (int i = 0; i < count; i++) {
    base |= number(arguments[i], "base=");
    size |= number(arguments[i], "size=");
  }
  if (size == 0) {
    return 1;
  }
  qemu_plugin_register_vcpu_init_cb(id, add);
  return 0;
}
