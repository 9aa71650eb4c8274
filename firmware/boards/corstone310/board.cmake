# Generated from harness/socs/corstone_310.py by `python -m ethos_hil.harness.socs.firmware_files`. Do not edit.
set(ETHOS_HIL_UART_BASE 0x59303000 CACHE STRING "UART 0: 0x59303000")
include(boards/corstone/board.cmake)
list(APPEND board_sources npu/u55.cc)
