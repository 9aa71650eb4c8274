include(boards/corstone/board.cmake)
set(ETHOS_HIL_UART_BASE 0x59303000 CACHE STRING "UART of a Corstone-320: 0x59303000 (CMSIS) or 0x58203000 (Zephyr)")
list(APPEND board_flags -I${CMAKE_CURRENT_LIST_DIR} -DETHOS_HIL_UART_BASE=${ETHOS_HIL_UART_BASE}) # for memory_map.h
set(board_linker_script ${CMAKE_CURRENT_LIST_DIR}/corstone320.ld)
list(APPEND board_sources npu/u85.cc)
