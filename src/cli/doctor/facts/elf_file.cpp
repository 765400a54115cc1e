#include "cli/doctor/facts/elf_file.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <span>
#include <string_view>

#include <elf.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include "base/os/unique_fd.h"

namespace verbatim::cli::doctor {
namespace {

/// A file that is mapped while this object exists.
class MappedFile {
 public:
  explicit MappedFile(const std::string& path) {
    const UniqueFd fd(open(path.c_str(), O_RDONLY | O_CLOEXEC));
    struct stat info{};
    if (!fd || fstat(fd.get(), &info) != 0 || !S_ISREG(info.st_mode) || info.st_size <= 0) return;
    const auto length = static_cast<std::size_t>(info.st_size);
    void* const base = mmap(nullptr, length, PROT_READ, MAP_PRIVATE, fd.get(), 0);
    if (base != MAP_FAILED) bytes_ = {static_cast<const char*>(base), length};
  }
  ~MappedFile() {
    if (!bytes_.empty()) munmap(const_cast<char*>(bytes_.data()), bytes_.size());
  }
  MappedFile(const MappedFile&) = delete;
  MappedFile& operator=(const MappedFile&) = delete;
  std::string_view bytes() const { return bytes_; }

 private:
  std::string_view bytes_;
};

/// Files of one word size. Every offset is checked, because the file may contain anything.
struct Elf64 {
  using Header = Elf64_Ehdr;
  using Segment = Elf64_Phdr;
  using Dynamic = Elf64_Dyn;
};
struct Elf32 {
  using Header = Elf32_Ehdr;
  using Segment = Elf32_Phdr;
  using Dynamic = Elf32_Dyn;
};

template <typename Value>
std::optional<Value> value_at(std::string_view file, std::uint64_t offset) {
  if (offset > file.size() || file.size() - offset < sizeof(Value)) return std::nullopt;
  Value value;
  std::memcpy(&value, file.data() + offset, sizeof value);
  return value;
}

std::string string_at(std::string_view file, std::uint64_t offset) {
  if (offset >= file.size()) return {};
  const auto rest = file.substr(offset);
  return std::string(rest.substr(0, rest.find('\0')));
}

template <typename Kind>
std::vector<typename Kind::Segment> segments_of(std::string_view file) {
  std::vector<typename Kind::Segment> segments;
  const auto header = value_at<typename Kind::Header>(file, 0);
  for (unsigned i = 0; header && i < header->e_phnum; ++i) {
    const auto segment = value_at<typename Kind::Segment>(
        file, header->e_phoff + std::uint64_t{i} * header->e_phentsize);
    if (segment) segments.push_back(*segment);
  }
  return segments;
}

/// Returns the file offset of a virtual address; the file's size if it has none.
template <typename Segment>
std::uint64_t offset_of(std::span<const Segment> segments, std::uint64_t address,
                        std::uint64_t end) {
  for (const Segment& segment : segments) {
    if (segment.p_type == PT_LOAD && address >= segment.p_vaddr &&
        address - segment.p_vaddr < segment.p_filesz) {
      return segment.p_offset + (address - segment.p_vaddr);
    }
  }
  return end;
}

std::vector<std::string> split_folders(std::string_view list) {
  std::vector<std::string> folders;
  while (!list.empty()) {
    const auto folder = list.substr(0, list.find(':'));
    list.remove_prefix(std::min(list.size(), folder.size() + 1));
    if (!folder.empty()) folders.emplace_back(folder);
  }
  return folders;
}

template <typename Kind>
void read_dynamic(std::string_view file, std::span<const typename Kind::Segment> segments,
                  std::uint64_t offset, std::uint64_t length, ElfFile& elf) {
  using Dynamic = typename Kind::Dynamic;
  std::vector<Dynamic> entries;
  for (std::uint64_t at = 0; at + sizeof(Dynamic) <= length; at += sizeof(Dynamic)) {
    const auto entry = value_at<Dynamic>(file, offset + at);
    if (!entry || entry->d_tag == DT_NULL) break;
    entries.push_back(*entry);
  }
  const auto strings = std::ranges::find(entries, DT_STRTAB, &Dynamic::d_tag);
  if (strings == entries.end()) return;
  const auto table = offset_of(segments, strings->d_un.d_ptr, file.size());
  bool has_runpath = false;
  for (const Dynamic& entry : entries) {
    const auto text = [&] { return string_at(file, table + entry.d_un.d_val); };
    if (entry.d_tag == DT_NEEDED) elf.needed.push_back(text());
    if (entry.d_tag == DT_RPATH) elf.rpath = split_folders(text());
    if (entry.d_tag == DT_RUNPATH) has_runpath = true;
  }
  if (has_runpath) elf.rpath.clear();
}

template <typename Kind>
void read_headers(std::string_view file, ElfFile& elf) {
  const auto header = value_at<typename Kind::Header>(file, 0);
  if (!header) return;
  elf.machine = header->e_machine;
  const auto segments = segments_of<Kind>(file);
  for (const auto& segment : segments) {
    if (segment.p_type == PT_INTERP) {
      elf.is_dynamic = true;
      elf.loader = string_at(file, segment.p_offset);
    }
    if (segment.p_type == PT_DYNAMIC) {
      read_dynamic<Kind>(file, std::span(segments), segment.p_offset, segment.p_filesz, elf);
    }
  }
}

/// Finds strings that consist of the name or path of an RDMA library.
void find_rdma_names(std::string_view file, ElfFile& elf) {
  for (const std::string_view wanted : {"libibverbs.so", "librdmacm.so"}) {
    for (auto at = file.find(wanted); at != std::string_view::npos;
         at = file.find(wanted, at + wanted.size())) {
      const auto begin = file.find_last_of('\0', at);
      const auto from = begin == std::string_view::npos ? 0 : begin + 1;
      const std::string text = string_at(file, from);
      const bool is_name = from == at || text.front() == '/';
      const std::string_view ending = std::string_view(text).substr(at - from + wanted.size());
      const bool is_library = ending.find_first_not_of(".0123456789") == std::string_view::npos;
      const bool is_known = std::ranges::find(elf.needed, text) != elf.needed.end() ||
                            std::ranges::find(elf.rdma_names, text) != elf.rdma_names.end();
      if (is_name && is_library && !is_known) elf.rdma_names.push_back(text);
    }
  }
}

}  // namespace

std::optional<ElfFile> read_elf(const std::string& path) {
  const MappedFile mapped(path);
  const std::string_view file = mapped.bytes();
  constexpr std::size_t kIdentityBytes = EI_NIDENT;
  if (file.size() < kIdentityBytes || !file.starts_with(std::string_view(ELFMAG, SELFMAG))) {
    return std::nullopt;
  }
  ElfFile elf;
  elf.is_64_bit = file[EI_CLASS] == ELFCLASS64;
  if (elf.is_64_bit) {
    read_headers<Elf64>(file, elf);
  } else {
    read_headers<Elf32>(file, elf);
  }
  find_rdma_names(file, elf);
  elf.sets_asan_options = file.find("__asan_default_options") != file.npos;
  // A message in all releases of rdma-core's library.
  elf.contains_libibverbs = file.find("libibverbs: Warning: couldn't load driver") != file.npos;
  return elf;
}

}  // namespace verbatim::cli::doctor
