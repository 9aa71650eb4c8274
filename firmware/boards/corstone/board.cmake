# What the boards corstone300 and corstone320 share. Both get code for a Cortex-M55, which a Cortex-M85 runs too.
set(board_flags -mcpu=cortex-m55 -mfloat-abi=hard -mthumb)
set(board_linker_parts ${CMAKE_CURRENT_LIST_DIR}/sections.ld)
set(board_sources
  boards/armv8m/cache.cc
  boards/armv8m/fault.cc
  boards/armv8m/semihosting.cc
  boards/armv8m/stack.cc
  boards/armv8m/startup.cc
  boards/armv8m/wait.cc
  boards/corstone/board.cc
  boards/corstone/uart.cc
  boards/corstone/vectors.cc
  npu/timing_adapter.cc)
