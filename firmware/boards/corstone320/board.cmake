# Generated from harness/socs/corstone_320.py (harness/socs/firmware_files.py). Do not edit.
set(board_name corstone320)
set(board_cpu cortex-m55)
set(board_left_out)
set(board_sources boards/uarts/cmsdk.cc npu/u85.cc)
include(boards/armv8m/board.cmake)
include(boards/corstone/board.cmake)
