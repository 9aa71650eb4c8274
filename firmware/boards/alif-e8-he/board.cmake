# Generated from harness/boards/data/alif-e8-he.toml (harness/socs/firmware_files.py). Do not edit.
set(board_name alif-e8-he)
set(board_cpu cortex-m55)
set(board_left_out)
set(board_sources boards/uarts/ns16550.cc npu/u55.cc)
include(boards/armv8m/board.cmake)
include(boards/alif/board.cmake)
