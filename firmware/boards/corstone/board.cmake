# What the boards of this kind share. All get code for a Cortex-M55, which a Cortex-M85 runs too.
set(board_folder ${CMAKE_CURRENT_SOURCE_DIR}/boards/${ETHOS_HIL_BOARD}) # soc.h and memory.ld, generated
set(board_flags -mcpu=cortex-m55 -mfloat-abi=hard -mthumb -I${board_folder})
set(board_linker_script ${CMAKE_CURRENT_LIST_DIR}/board.ld)
set(board_linker_parts ${CMAKE_CURRENT_LIST_DIR}/sections.ld ${board_folder}/memory.ld)
set(board_sources
  boards/armv8m/cache.cc
  boards/armv8m/cycle_counter.cc
  boards/armv8m/fault.cc
  boards/armv8m/recover.cc
  boards/armv8m/stack.cc
  boards/armv8m/startup.cc
  boards/armv8m/wait.cc
  boards/corstone/board.cc
  boards/corstone/vectors.cc
  boards/uarts/cmsdk.cc
  npu/timing_adapter.cc)
