/* A plug-in for qemu-system-arm that counts the instructions that are executed: state=FILE, a file that
 * harness/virtual/plugin.py made and maps too. It holds the count, 64 bits.
 *
 * QEMU's plug-in interface (docs/devel/tcg-plugins.rst, versions 1 to 4); the declarations are ours.
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
enum { ADD_U64 = 0, NO_REGISTERS = 0 };

extern void qemu_plugin_register_vcpu_tb_trans_cb(PluginId id, void (*callback)(PluginId, struct qemu_plugin_tb*));
extern size_t qemu_plugin_tb_n_insns(const struct qemu_plugin_tb* block);
extern struct qemu_plugin_insn* qemu_plugin_tb_get_insn(const struct qemu_plugin_tb* block, size_t index);
extern void qemu_plugin_register_vcpu_insn_exec_inline(struct qemu_plugin_insn* instruction, int operation,
                                                       void* operand, uint64_t immediate)
    __attribute__((weak)); /* gone in version 2 */
extern void qemu_plugin_register_vcpu_insn_exec_cb(struct qemu_plugin_insn* instruction,
                                                   void (*callback)(unsigned int cpu, void* data), int registers,
                                                   void* data);

static uint64_t* executed;

static void on_execution(unsigned int cpu, void* data) {
  (void)cpu;
  (void)data;
  ++*executed;
}

/* Each instruction by itself: a block may end early, at an access that stops the guest. */
static void on_translation(PluginId id, struct qemu_plugin_tb* block) {
  (void)id;
  const size_t count = qemu_plugin_tb_n_insns(block);
  for (size_t i = 0; i < count; i++) {
    struct qemu_plugin_insn* instruction = qemu_plugin_tb_get_insn(block, i);
    if (qemu_plugin_register_vcpu_insn_exec_inline != NULL) {
      qemu_plugin_register_vcpu_insn_exec_inline(instruction, ADD_U64, executed, 1);
    } else {
      qemu_plugin_register_vcpu_insn_exec_cb(instruction, on_execution, NO_REGISTERS, NULL);
    }
  }
}

__attribute__((visibility("default"))) int qemu_plugin_install(PluginId id, const void* info, int count,
                                                               char** arguments) {
  (void)info;
  static const char NAME[] = "state=";
  for (int i = 0; i < count; i++) {
    if (strncmp(arguments[i], NAME, sizeof NAME - 1) == 0) {
      const int file = open(arguments[i] + sizeof NAME - 1, O_RDWR);
      void* mapped = mmap(NULL, sizeof *executed, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
      executed = mapped == MAP_FAILED ? NULL : mapped;
      close(file);
    }
  }
  if (executed == NULL) {
    return 1;
  }
  qemu_plugin_register_vcpu_tb_trans_cb(id, on_translation);
  return 0;
}
