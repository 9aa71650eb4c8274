set(board_flags -mcpu=cortex-m55 -mfloat-abi=hard -mthumb)
set(board_linker_script ${CMAKE_CURRENT_LIST_DIR}/corstone300.ld)
set(board_sources
  boards/armv8m/cache.cc
  boards/armv8m/fault.cc
  boards/armv8m/semihosting.cc
  boards/armv8m/stack.cc
  boards/armv8m/startup.cc
  boards/armv8m/wait.cc
  boards/corstone300/board.cc
  boards/corstone300/uart.cc
  boards/corstone300/vectors.cc)
