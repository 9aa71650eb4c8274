# Generated from harness/socs/corstone_300.py (harness/socs/firmware_files.py). Do not edit.
set(board_name corstone300)
set(board_cpu cortex-m55)
set(board_left_out)
set(board_sources boards/uarts/cmsdk.cc npu/u55.cc)
include(boards/armv8m/board.cmake)
include(boards/corstone/board.cmake)
