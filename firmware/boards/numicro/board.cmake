# Nuvoton NuMicro M55M1.
list(APPEND board_sources boards/armv8m/npu_handler.cc boards/armv8m/sram_port.cc boards/numicro/port.cc)
