#include "npu/identity.h"

namespace ethos_hil::npu {

Text& operator<<(Text& text, const Identity& identity) {
  constexpr const char* PRODUCTS[] = {"ethos-u55-", "ethos-u65-", "ethos-u85-"};
  const std::uint32_t product = identity.product();
  if (product < sizeof PRODUCTS / sizeof *PRODUCTS) {
    text << PRODUCTS[product] << identity.macs();
  } else {
    text << "unknown product " << product << " with " << identity.macs() << " MACs";
  }
  return text << ", architecture " << identity.architecture_major() << "." << identity.architecture_minor() << "."
              << identity.architecture_patch() << " (CONFIG " << Hex{identity.config} << ", ID " << Hex{identity.id}
              << ")";
}

bool can_run(const Identity& npu, const Identity& program) {
  const bool same_inside =
      npu.product() == PRODUCT_U85 ? npu.axi_ports() == program.axi_ports() : npu.shram_kib() == program.shram_kib();
  return npu.product() == program.product() && npu.macs() == program.macs() && same_inside &&
         npu.stream_version() == program.stream_version() && (npu.has_custom_dma() || !program.has_custom_dma()) &&
         npu.architecture_major() == program.architecture_major() &&
         npu.architecture_minor() >= program.architecture_minor();
}

}  // namespace ethos_hil::npu
