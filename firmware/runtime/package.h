// The package that the host put into memory: header, program, inputs (format: harness/image/formats.py,
// docs/formats.md).
#pragma once

#include <cstdint>

#include "boards/board.h"
#include "link/formats.h"
#include "link/sha256.h"
#include "link/text.h"
#include "runtime/bytes.h"

namespace ethos_hil {

class Package {
 public:
  // Whether memory starts like a package, which may still be damaged.
  static bool is_present(board::Pool window);

  // Whether the package asks for frames as lines of text. Not more than its begin is read for that: it may be damaged.
  static bool is_for_printable_link(board::Pool window);

  // Checks all of it: header, sizes, CRC, the program's hash. On an error, problem() has the reason, and only run_id(),
  // image_hash() and program_hash() may be called; they are zero where they could not be determined.
  explicit Package(board::Pool window);

  const Text& problem() const { return problem_; }
  const PackageHeader& header() const { return *reinterpret_cast<const PackageHeader*>(all_.data); }
  const std::uint8_t* run_id() const { return run_id_; }
  const std::uint8_t* image_hash() const { return image_hash_; }
  const Sha256& program_hash() const { return program_hash_; }

  Bytes program() const { return all_.part(header().program_offset, header().program_size); }
  // PackageHeader::data_count of them: the .ptd files beside the program.
  Bytes data(std::uint32_t index) const { return part(reference(header().data_offset, index)); }
  Bytes input(std::uint32_t input_set, std::uint32_t index) const;
  // The events that execution `repeat` of an input set counts.
  const EventSet& events(std::uint32_t repeat) const;
  // PackageHeader::cut_count of them.
  const Cut* cuts() const { return reinterpret_cast<const Cut*>(all_.data + header().cuts_offset); }
  const std::uint8_t* end() const { return all_.data + all_.size; }

 private:
  void check(board::Pool window);
  // Record `index` of the table at `table`.
  InputRef reference(std::uint32_t table, std::uint32_t index) const;
  Bytes part(const InputRef& reference) const { return all_.part(reference.offset, reference.size); }
  void check_data();
  void check_inputs();
  bool has_table(const char* what, std::uint32_t count, std::uint32_t offset, std::uint32_t size);

  Bytes window_;
  Bytes all_;
  std::uint8_t run_id_[sizeof(PackageHeader::run_id)] = {};
  std::uint8_t image_hash_[sizeof(PackageHeader::image_hash)] = {};
  Sha256 program_hash_{};
  Text problem_;
};

}  // namespace ethos_hil
