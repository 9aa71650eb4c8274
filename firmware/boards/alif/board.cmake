# Alif Ensemble: E7, E8.
list(APPEND board_sources boards/alif/port.cc boards/alif/sram_port.cc boards/armv8m/npu_handler.cc)
