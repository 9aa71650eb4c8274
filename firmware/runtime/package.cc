#include "runtime/package.h"

#include <cstring>

#include "link/crc32.h"

namespace ethos_hil {

Package::Package(board::Pool window) : window_{window.begin, window.size} { check(window); }

bool Package::is_present(board::Pool window) {
  return std::memcmp(window.begin, PACKAGE_MAGIC, sizeof PACKAGE_MAGIC) == 0;
}

bool Package::is_for_printable_link(board::Pool window) {
  const auto& header = *reinterpret_cast<const PackageHeader*>(window.begin);
  constexpr auto FLAG = static_cast<std::uint32_t>(PackageFlag::PRINTABLE_LINK);
  return is_present(window) && header.version == PACKAGE_VERSION && (header.flags & FLAG) != 0;
}

Bytes Package::input(std::uint32_t input_set, std::uint32_t index) const {
  return part(reference(header().inputs_offset, input_set * header().inputs_per_set + index));
}

InputRef Package::reference(std::uint32_t table, std::uint32_t index) const {
  InputRef reference;
  std::memcpy(&reference, all_.data + table + index * sizeof reference, sizeof reference);
  return reference;
}

const EventSet& Package::events(std::uint32_t repeat) const {
  const auto* sets = reinterpret_cast<const EventSet*>(all_.data + header().event_sets_offset);
  return sets[repeat % header().event_set_count];
}

void Package::check(board::Pool window) {
  const auto& header = *reinterpret_cast<const PackageHeader*>(window_.data);
  if (!is_present(window)) {
    problem_ << "no package at " << Hex{static_cast<std::uint32_t>(reinterpret_cast<std::uintptr_t>(window_.data))}
             << ": the image holds the firmware alone";
    return;
  }
  if (header.version != PACKAGE_VERSION) {
    problem_ << "package version is " << header.version << ", this firmware reads " << PACKAGE_VERSION;
    return;
  }
  if (header.total_size < sizeof header || header.total_size > window_.size) {
    problem_ << "package states " << header.total_size << " bytes, possible are " << std::uint32_t{sizeof header}
             << " to " << window_.size;
    return;
  }
  all_ = window_.part(0, header.total_size);

  const std::uint32_t head_crc = crc32(all_.data, offsetof(PackageHeader, crc32));
  const std::uint32_t crc = crc32(all_.data + sizeof header, all_.size - sizeof header, head_crc);
  if (crc != header.crc32) {
    problem_ << "package CRC-32 is " << Hex{crc} << ", its header states " << Hex{header.crc32};
    return;
  }
  // The run id is valid only if the header's CRC is.
  std::memcpy(run_id_, header.run_id, sizeof run_id_);
  std::memcpy(image_hash_, header.image_hash, sizeof image_hash_);

  if (!all_.contains(header.program_offset, header.program_size)) {
    problem_ << "program (" << header.program_size << " bytes at " << header.program_offset
             << ") exceeds the package of " << all_.size << " bytes";
    return;
  }
  if (header.program_offset % PACKAGE_ALIGNMENT != 0) {
    problem_ << "program offset " << header.program_offset << " is not a multiple of " << PACKAGE_ALIGNMENT;
    return;
  }
  program_hash_ = sha256(program().data, program().size);
  if (std::memcmp(program_hash_.bytes, header.program_hash, sizeof program_hash_.bytes) != 0) {
    problem_ << "SHA-256 of the program differs from the one in the package header";
    return;
  }
  check_data();
  if (problem_.empty()) check_inputs();
}

void Package::check_data() {
  const PackageHeader& header = this->header();
  if (!has_table(".ptd files", header.data_count, header.data_offset, sizeof(InputRef))) return;
  for (std::uint32_t i = 0; i < header.data_count; ++i) {
    const InputRef file = reference(header.data_offset, i);
    if (all_.contains(file.offset, file.size) && file.offset % PACKAGE_ALIGNMENT == 0) continue;
    problem_ << ".ptd file " << i << " (" << file.size << " bytes at " << file.offset
             << ") is not aligned, or exceeds the package of " << all_.size << " bytes";
    return;
  }
}

bool Package::has_table(const char* what, std::uint32_t count, std::uint32_t offset, std::uint32_t size) {
  if (offset % alignof(std::uint32_t) == 0 && count <= all_.size &&
      all_.contains(offset, std::uint64_t{count} * size)) {
    return true;
  }
  problem_ << "the table of " << count << " " << what << " at " << offset
           << " is not aligned, or exceeds the package of " << all_.size << " bytes";
  return false;
}

void Package::check_inputs() {
  const PackageHeader& header = this->header();
  if (std::memchr(header.method, 0, sizeof header.method) == nullptr) {
    problem_ << "method name is longer than " << std::uint32_t{sizeof header.method - 1} << " bytes";
    return;
  }
  if (header.memory_mode > static_cast<std::uint32_t>(DeviceMemoryMode::DEDICATED_SRAM)) {
    problem_ << "the plan has memory mode " << header.memory_mode << ", which this firmware does not know";
    return;
  }
  // A plan without runs would end with status 0 and look like a success.
  if (header.input_set_count == 0 || header.repeat == 0) {
    problem_ << "the plan has " << header.input_set_count << " input sets and repeats each " << header.repeat
             << " times: nothing to run";
    return;
  }
  // Computed in this order, the products stay below 2^64.
  const std::uint64_t records = std::uint64_t{header.input_set_count} * header.inputs_per_set;
  if (records > all_.size || !all_.contains(header.inputs_offset, records * sizeof(InputRef))) {
    problem_ << "the table of " << records << " inputs at " << header.inputs_offset << " exceeds the package of "
             << all_.size << " bytes";
    return;
  }
  if (header.event_set_count == 0) {
    problem_ << "the plan has no set of events to count";
    return;
  }
  if (!has_table("sets of events", header.event_set_count, header.event_sets_offset, sizeof(EventSet))) return;
  if (!has_table("cuts", header.cut_count, header.cuts_offset, sizeof(Cut))) return;
  for (std::uint32_t set = 0; set < header.input_set_count; ++set) {
    for (std::uint32_t index = 0; index < header.inputs_per_set; ++index) {
      const InputRef input = reference(header.inputs_offset, set * header.inputs_per_set + index);
      if (!all_.contains(input.offset, input.size)) {
        problem_ << "input " << index << " of set " << set << " (" << input.size << " bytes at " << input.offset
                 << ") exceeds the package of " << all_.size << " bytes";
        return;
      }
    }
  }
}

}  // namespace ethos_hil
