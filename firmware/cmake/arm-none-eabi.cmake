# Arm GNU toolchain, bare metal. The processor itself is chosen by the board (boards/<board>/board.cmake).
set(CMAKE_SYSTEM_NAME Generic)
set(CMAKE_SYSTEM_PROCESSOR arm)
set(CMAKE_CXX_COMPILER arm-none-eabi-g++)
set(CMAKE_ASM_COMPILER arm-none-eabi-gcc)
set(CMAKE_TRY_COMPILE_TARGET_TYPE STATIC_LIBRARY) # a test program cannot link before there is a linker script
set(CMAKE_EXECUTABLE_SUFFIX_CXX .elf)
