include(boards/corstone/board.cmake)
list(APPEND board_flags -I${CMAKE_CURRENT_LIST_DIR}) # memory_map.h
set(board_linker_script ${CMAKE_CURRENT_LIST_DIR}/corstone300.ld)
list(APPEND board_sources npu/u55.cc)
