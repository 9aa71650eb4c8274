#include "npu/identity.h"

namespace ethos_hil::npu {

Text& operator<<(Text& text, const Identity& identity) {
  if (const Family* family = identity.family()) {
    text << family->name << "-" << identity.macs();
  } else {
    text << "unknown product " << identity.product() << " with " << identity.macs() << " MACs";
  }
  return text << ", architecture " << identity.architecture_major() << "." << identity.architecture_minor() << "."
              << identity.architecture_patch() << " (CONFIG " << Hex{identity.config} << ", ID " << Hex{identity.id}
              << ")";
}

bool can_run(const Identity& npu, const Identity& program) {
  const Family* family = npu.family();
  const bool same_inside = family != nullptr && !family->has_shram ? npu.axi_ports() == program.axi_ports()
                                                                   : npu.shram_kib() == program.shram_kib();
  return npu.product() == program.product() && npu.macs() == program.macs() && same_inside &&
         npu.stream_version() == program.stream_version() && (npu.has_custom_dma() || !program.has_custom_dma()) &&
         npu.architecture_major() == program.architecture_major() &&
         npu.architecture_minor() >= program.architecture_minor();
}

}  // namespace ethos_hil::npu
