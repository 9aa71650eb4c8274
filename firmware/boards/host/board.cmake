# The firmware as a program of this computer, with AddressSanitizer and UndefinedBehaviorSanitizer, and its fuzzers.
# Unlike the other boards' files this one makes the targets, because they have neither linker script nor start-up code.
set(host_flags
  -O1 -g -fno-omit-frame-pointer -fno-exceptions -fno-rtti ${exact_flags}
  -fsanitize=address,undefined,fuzzer-no-link -fno-sanitize-recover=all
  -ffile-prefix-map=${CMAKE_CURRENT_SOURCE_DIR}=firmware
  -Wall -Wextra -Werror)

function(host_target name)
  set_target_properties(${name} PROPERTIES CXX_STANDARD 17 CXX_STANDARD_REQUIRED ON CXX_EXTENSIONS OFF)
  target_include_directories(${name} PRIVATE ${CMAKE_CURRENT_SOURCE_DIR})
  target_include_directories(${name} SYSTEM PRIVATE ${FLATBUFFERS_INCLUDE_DIR} ${generated})
  target_compile_options(${name} PRIVATE ${host_flags})
  target_link_options(${name} PRIVATE -fsanitize=address,undefined)
endfunction()

add_library(common STATIC ${common_sources} runtime/operators.cc link/decoder.cc)
host_target(common)
if(ETHOS_HIL_LEFT_OUT)
  target_compile_definitions(common PRIVATE "ETHOS_HIL_LEFT_OUT=\"${ETHOS_HIL_LEFT_OUT}\"")
endif()

add_executable(ethos-hil-host main.cc boards/host/board.cc boards/host/cache.cc boards/host/cycle_counter.cc boards/host/npu.cc)
add_executable(ethos-hil-decode fuzz/decode.cc)
foreach(tool ethos-hil-host ethos-hil-decode)
  host_target(${tool})
  target_link_libraries(${tool} PRIVATE common)
endforeach()

add_library(fuzzed STATIC fuzz/boot.cc fuzz/npu.cc boards/host/cache.cc boards/host/cycle_counter.cc)
host_target(fuzzed)
foreach(source fuzz/program.cc fuzz/delegate.cc fuzz/frames.cc fuzz/monitor.cc)
  get_filename_component(name ${source} NAME_WE)
  add_executable(fuzz-${name} ${source})
  host_target(fuzz-${name})
  target_link_libraries(fuzz-${name} PRIVATE common fuzzed common)
  target_link_options(fuzz-${name} PRIVATE -fsanitize=fuzzer)
endforeach()
