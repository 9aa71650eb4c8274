// Files, console and exit of the debugger or simulator of this CPU: the calls of Arm's "Semihosting for AArch32 and
// AArch64" (version 2.0) that a program runner needs.
#pragma once

#include <cstddef>
#include <cstdint>

namespace ethos_hil::semihosting {

// Writes the host's command line, ended by NUL, into `line`. False when there is no host, or `size` bytes are too few.
// Make this call first.
bool command_line(char* line, std::size_t size);

// The mode in which a file is opened: its position in the list "r", "rb", "r+", "r+b", "w", "wb", ... (SYS_OPEN).
enum class Mode : std::uint32_t { READ_TEXT = 0, READ = 1, WRITE_TEXT = 4, WRITE = 5 };

using Handle = std::int32_t;
constexpr Handle INVALID = -1;

// The name that stands for the host's console: for its keyboard, in a mode that reads.
constexpr char CONSOLE[] = ":tt";

// Opens a file. Returns INVALID when that fails; error() has the reason.
Handle open(const char* name, Mode mode);
void close(Handle file);

// Returns the file's size in bytes, or -1.
std::int32_t length(Handle file);

// Read or write `size` bytes. False if not all of them could be transferred.
bool read(Handle file, void* data, std::size_t size);
bool write(Handle file, const void* data, std::size_t size);

// The host's errno of the call before.
std::int32_t error();

// Ends the program, and the simulation with it.
[[noreturn]] void exit(std::uint32_t status);

}  // namespace ethos_hil::semihosting
