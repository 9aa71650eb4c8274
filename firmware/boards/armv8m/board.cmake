# What all boards with an Armv8.1-M core share.
set(board_linker_script ${CMAKE_CURRENT_LIST_DIR}/board.ld)
set(board_linker_parts ${CMAKE_CURRENT_LIST_DIR}/sections.ld)
list(APPEND board_sources
  boards/armv8m/board.cc
  boards/armv8m/cache.cc
  boards/armv8m/cycle_counter.cc
  boards/armv8m/fault.cc
  boards/armv8m/recover.cc
  boards/armv8m/restart.cc
  boards/armv8m/stack.cc
  boards/armv8m/startup.cc
  boards/armv8m/vectors.cc
  boards/armv8m/wait.cc)
