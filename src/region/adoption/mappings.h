#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/error.h"

namespace verbatim::region {

/// A range of whole pages of this process's address space.
struct PageRange {
  std::uint64_t begin = 0;
  std::uint64_t end = 0;  // Exclusive.
  std::uint64_t length() const { return end - begin; }
  friend bool operator==(const PageRange&, const PageRange&) = default;
};
inline bool overlap(const PageRange& one, const PageRange& other) {
  return one.begin < other.end && other.begin < one.end;
}

/// The file behind a mapping, as stat(2) identifies it. Without an inode: anonymous memory.
struct MappedFile {
  std::uint64_t device = 0;
  std::uint64_t inode = 0;
  friend bool operator==(const MappedFile&, const MappedFile&) = default;
};

/// One mapping of this process: a line of /proc/self/maps (proc_pid_maps(5)).
struct Mapping {
  PageRange range;
  bool readable = false;
  bool writable = false;
  bool executable = false;
  bool shared = false;
  std::uint64_t offset = 0;  // Offset of the first byte in the file.
  MappedFile file;
  int protection() const;  // As in mmap(2): PROT_READ | PROT_WRITE | PROT_EXEC.
  std::string name;        // "[heap]", "[stack]", a path; empty for most anonymous memory.
  // Of `details_of` only: as in proc_pid_smaps(5).
  std::string flags;     // "rd wr mr mw me ac ".
  bool has_key = false;  // Of pkeys(7), other than the default one.
};

/// Parses a line of /proc/self/maps; returns false for any other text.
bool parse_mapping(const char* line, Mapping& out);
/// Returns the mappings that overlap the range, in order.
Result<std::vector<Mapping>> mappings_of(const PageRange& range);
/// The same with flags and keys, which takes longer: the kernel counts resident pages for it.
Result<std::vector<Mapping>> details_of(const PageRange& range);
/// Returns all mappings of the file that contain one of its bytes [offset, offset + length).
Result<std::vector<Mapping>> mappings_of(const MappedFile& file, std::uint64_t offset,
                                         std::uint64_t length);

}  // namespace verbatim::region
