#include "region/adoption/mappings.h"

#include <cinttypes>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <string_view>

#include <sys/mman.h>
#include <sys/sysmacros.h>

namespace verbatim::region {
namespace {

struct CloseFile {
  void operator()(FILE* file) const { std::fclose(file); }
};

/// Calls `use` for each line of the file until it returns false.
template <typename Use>
Result<void> for_each_line(const char* path, Use use) {
  const std::unique_ptr<FILE, CloseFile> file(std::fopen(path, "re"));
  if (!file) return refuse_errno(path);
  char* line = nullptr;
  std::size_t capacity = 0;
  while (getline(&line, &capacity, file.get()) > 0 && use(line)) {
  }
  std::free(line);
  return {};
}

/// Calls `use` for each mapping, in order of addresses, until it returns false.
template <typename Use>
Result<void> for_each_mapping(Use use) {
  return for_each_line("/proc/self/maps", [&, mapping = Mapping()](const char* line) mutable {
    return !parse_mapping(line, mapping) || use(mapping);
  });
}

/// If the line is "NAME: VALUE", returns the value; else null.
const char* value_of(const char* line, std::string_view name) {
  const std::string_view text(line);
  if (!text.starts_with(name)) return nullptr;
  const std::size_t at = text.find_first_not_of(' ', name.size());
  return at == std::string_view::npos ? nullptr : line + at;
}

}  // namespace

int Mapping::protection() const {
  return (readable ? PROT_READ : 0) | (writable ? PROT_WRITE : 0) | (executable ? PROT_EXEC : 0);
}

bool parse_mapping(const char* line, Mapping& out) {
  unsigned major_number = 0;
  unsigned minor_number = 0;
  char rights[5] = {};
  int name_at = 0;
  if (std::sscanf(line, "%" SCNx64 "-%" SCNx64 " %4s %" SCNx64 " %x:%x %" SCNu64 " %n",
                  &out.range.begin, &out.range.end, rights, &out.offset, &major_number,
                  &minor_number, &out.file.inode, &name_at) < 7) {
    return false;
  }
  out.readable = rights[0] == 'r';
  out.writable = rights[1] == 'w';
  out.executable = rights[2] == 'x';
  out.shared = rights[3] == 's';
  out.file.device = makedev(major_number, minor_number);
  out.name.assign(line + name_at, std::strcspn(line + name_at, "\n"));
  return true;
}

Result<std::vector<Mapping>> mappings_of(const PageRange& range) {
  std::vector<Mapping> found;
  const auto read = for_each_mapping([&](const Mapping& mapping) {
    if (mapping.range.begin >= range.end) return false;
    if (mapping.range.end > range.begin) found.push_back(mapping);
    return true;
  });
  if (!read) return std::unexpected(read.error());
  return found;
}

Result<std::vector<Mapping>> details_of(const PageRange& range) {
  std::vector<Mapping> found;
  bool is_in_range = false;
  const auto read = for_each_line("/proc/self/smaps", [&](const char* line) {
    Mapping mapping;
    if (parse_mapping(line, mapping)) {
      if (mapping.range.begin >= range.end) return false;
      is_in_range = mapping.range.end > range.begin;
      if (is_in_range) found.push_back(mapping);
    } else if (const char* const flags = value_of(line, "VmFlags:"); flags && is_in_range) {
      found.back().flags.assign(flags, std::strcspn(flags, "\n"));
    } else if (const char* const key = value_of(line, "ProtectionKey:"); key && is_in_range) {
      found.back().has_key = std::atoi(key) != 0;
    }
    return true;
  });
  if (!read) return std::unexpected(read.error());
  return found;
}

Result<std::vector<Mapping>> mappings_of(const MappedFile& file, std::uint64_t offset,
                                         std::uint64_t length) {
  std::vector<Mapping> found;
  const auto read = for_each_mapping([&](const Mapping& mapping) {
    const bool shows = mapping.file == file && mapping.offset < offset + length &&
                       offset < mapping.offset + mapping.range.length();
    if (shows) found.push_back(mapping);
    return true;
  });
  if (!read) return std::unexpected(read.error());
  return found;
}

}  // namespace verbatim::region
