# Renesas RA8P1.
list(APPEND board_sources boards/armv8m/sram_port.cc boards/ra8/npu_handler.cc boards/ra8/port.cc)
