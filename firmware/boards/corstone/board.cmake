# Arm's Corstones: all that UART and NPU need is there after reset.
list(APPEND board_sources boards/armv8m/npu_handler.cc boards/armv8m/sram_port.cc boards/corstone/port.cc)
