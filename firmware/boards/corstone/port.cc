#include "boards/port.h"

namespace ethos_hil::port {

void prepare() {}

}  // namespace ethos_hil::port
