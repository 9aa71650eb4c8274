// Files, console and exit of whoever debugs or simulates this CPU: the calls of Arm's "Semihosting for AArch32 and
// AArch64" (version 2.0) that a runner of programs needs.
#pragma once

#include <cstddef>
#include <cstdint>

namespace ethos_hil::semihosting {

// Writes the host's command line, ended by NUL, into `line`. False when there is no host, or `size` bytes are too few.
// Of all calls the one to begin with.
bool command_line(char* line, std::size_t size);

// How a file is opened: numbers are positions in the list "r", "rb", "r+", "r+b", "w", "wb", ... (SYS_OPEN).
enum class Mode : std::uint32_t { READ = 1, WRITE_TEXT = 4, WRITE = 5 };

using Handle = std::int32_t;
constexpr Handle INVALID = -1;

// The name that stands for the host's console.
constexpr char CONSOLE[] = ":tt";

// INVALID when that is impossible; error() says why.
Handle open(const char* name, Mode mode);
void close(Handle file);

// Bytes, or -1.
std::int32_t length(Handle file);

// Whether all `size` bytes could be read, or written.
bool read(Handle file, void* data, std::size_t size);
bool write(Handle file, const void* data, std::size_t size);

// The host's errno of the call before.
std::int32_t error();

// Ends the program, and the simulation with it.
[[noreturn]] void exit(std::uint32_t status);

}  // namespace ethos_hil::semihosting
