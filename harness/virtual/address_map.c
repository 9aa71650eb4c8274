/* A plug-in for qemu-system-arm that changes the machine's address map: ram=ADDRESS:BYTES adds a RAM,
 * absent=ADDRESS:BYTES puts nothing in front of what is there, so that an access is a bus fault.
 *
 * QEMU has no option for that. The functions below are not of its plug-in interface, but of its own; Debian's QEMU 7.2
 * and 10.0 export them. Their declarations are ours. A MemoryRegion is QEMU's; what is allocated for it is larger than any.
 */

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

enum { MEMORY_REGION_BYTES = 1 << 14, MOST_CHANGES = 16, IN_FRONT = 1 };

typedef uint64_t PluginId;

extern void qemu_plugin_register_vcpu_init_cb(PluginId id, void (*callback)(PluginId id, unsigned int cpu));
extern void* get_system_memory(void);
extern void memory_region_init_ram(void* region, void* owner, const char* name, uint64_t size, void** error);
extern void memory_region_init_io(void* region, void* owner, const void* operations, void* opaque, const char* name,
                                  uint64_t size);
extern void memory_region_add_subregion(void* region, uint64_t offset, void* part);
extern void memory_region_add_subregion_overlap(void* region, uint64_t offset, void* part, int priority);

struct Change {
  int ram;
  uint64_t base, size;
};

static struct Change changes[MOST_CHANGES];
static int change_count;

static void apply(const struct Change* change) {
  void* region = calloc(1, MEMORY_REGION_BYTES);
  void* error = NULL;
  if (region == NULL) {
    abort();
  }
  if (change->ram) {
    memory_region_init_ram(region, NULL, "added", change->size, &error);
    if (error != NULL) {
      abort();
    }
    memory_region_add_subregion(get_system_memory(), change->base, region);
  } else {
    /* A region without operations is QEMU's unassigned memory. */
    memory_region_init_io(region, NULL, NULL, NULL, "absent", change->size);
    memory_region_add_subregion_overlap(get_system_memory(), change->base, region, IN_FRONT);
  }
}

/* The first processor exists: so does the system's memory, and no program has started. */
static void apply_all(PluginId id, unsigned int cpu) {
  (void)id;
  for (int i = 0; cpu == 0 && i < change_count; i++) {
    apply(&changes[i]);
  }
}

static int parse(const char* argument, const char* name, int ram) {
  const size_t length = strlen(name);
  if (strncmp(argument, name, length) != 0) {
    return 0;
  }
  char* end = NULL;
  const uint64_t base = strtoull(argument + length, &end, 0);
  const uint64_t size = *end == ':' ? strtoull(end + 1, NULL, 0) : 0;
  if (size != 0 && change_count < MOST_CHANGES) {
    changes[change_count++] = (struct Change){ram, base, size};
  }
  return size != 0;
}

__attribute__((visibility("default"))) int qemu_plugin_install(PluginId id, const void* info, int count,
                                                               char** arguments) {
  (void)info;
  for (int i = 0; i < count; i++) {
    if (!parse(arguments[i], "ram=", 1) && !parse(arguments[i], "absent=", 0)) {
      return 1;
    }
  }
  qemu_plugin_register_vcpu_init_cb(id, apply_all);
  return 0;
}
