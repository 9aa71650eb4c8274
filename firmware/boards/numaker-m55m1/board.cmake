# Generated from harness/boards/data/numaker-m55m1.toml (harness/socs/firmware_files.py). Do not edit.
set(board_name numaker-m55m1)
set(board_cpu cortex-m55)
set(board_left_out)
set(board_sources boards/uarts/numicro.cc npu/u55.cc)
include(boards/armv8m/board.cmake)
include(boards/numicro/board.cmake)
