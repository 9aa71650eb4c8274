# Generated from harness/boards/data/ek-ra8p1.toml (harness/socs/firmware_files.py). Do not edit.
set(board_name ek-ra8p1)
set(board_cpu cortex-m55)
set(board_left_out)
set(board_sources boards/uarts/sci.cc npu/u55.cc)
include(boards/armv8m/board.cmake)
include(boards/ra8/board.cmake)
