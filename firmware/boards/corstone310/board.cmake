# Generated from harness/socs/corstone_310.py by `python -m ethos_hil.harness.socs.firmware_files`. Do not edit.
include(boards/corstone/board.cmake)
list(APPEND board_sources npu/u55.cc)
