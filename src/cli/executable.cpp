#include "cli/executable.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <utility>
#include <vector>

#include <elf.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "cli/doctor/facts/elf_file.h"

namespace verbatim::cli {
namespace {

bool is_regular_file(const std::string& path) {
  struct stat status{};
  return stat(path.c_str(), &status) == 0 && S_ISREG(status.st_mode);
}

/// Which of Debian's packages has the programs whose names begin so; the first that fits.
constexpr std::array<std::pair<std::string_view, std::string_view>, 24> kPackages{{
    {"ibv_", "ibverbs-utils"},
    {"ib_acme", "ibacm"},
    {"ibacm", "ibacm"},
    {"ib_", "perftest"},
    {"raw_ethernet_", "perftest"},
    {"ibsrpdm", "srptools"},
    {"srp_daemon", "srptools"},
    {"ib", "infiniband-diags"},
    {"perfquery", "infiniband-diags"},
    {"saquery", "infiniband-diags"},
    {"sminfo", "infiniband-diags"},
    {"smp", "infiniband-diags"},
    {"nbdkit", "nbdkit"},
    {"opensm", "opensm"},
    {"osmtest", "opensm"},
    {"qperf", "qperf"},
    {"rdma_", "rdmacm-utils"},
    {"cmtime", "rdmacm-utils"},
    {"mckey", "rdmacm-utils"},
    {"rping", "rdmacm-utils"},
    {"rstream", "rdmacm-utils"},
    {"ucmatose", "rdmacm-utils"},
    {"udaddy", "rdmacm-utils"},
    {"udpong", "rdmacm-utils"},
}};

/// " (Debian: perftest)", or nothing.
std::string package_hint(std::string_view command) {
  const auto found = std::ranges::find_if(
      kPackages, [command](const auto& row) { return command.starts_with(row.first); });
  return found == kPackages.end() ? "" : fmt::format(" (Debian: {})", found->second);
}

enum class Elf { no, other_class, static_program, dynamic_program };

Elf elf_kind(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  Elf64_Ehdr header{};
  if (!file.read(reinterpret_cast<char*>(&header), sizeof(header))) return Elf::no;
  if (std::memcmp(header.e_ident, ELFMAG, SELFMAG) != 0) return Elf::no;
  constexpr unsigned char kOwnClass = sizeof(void*) == 8 ? ELFCLASS64 : ELFCLASS32;
  if (header.e_ident[EI_CLASS] != kOwnClass) return Elf::other_class;
  std::vector<Elf64_Phdr> segments(header.e_phnum);
  file.seekg(static_cast<std::streamoff>(header.e_phoff));
  const auto bytes = static_cast<std::streamsize>(segments.size() * sizeof(Elf64_Phdr));
  if (!file.read(reinterpret_cast<char*>(segments.data()), bytes)) return Elf::no;
  for (const auto& segment : segments) {
    if (segment.p_type == PT_INTERP) return Elf::dynamic_program;
  }
  return Elf::static_program;
}

}  // namespace

Result<std::string> find_executable(const std::string& command, std::string_view search_path) {
  if (command.find('/') != std::string::npos) {
    if (access(command.c_str(), F_OK) != 0) {
      return refuse(ENOENT, fmt::format("{}: {}", command, std::strerror(errno)));
    }
    if (!is_regular_file(command) || access(command.c_str(), X_OK) != 0) {
      return refuse(EACCES, fmt::format("{}: not an executable file", command));
    }
    return command;
  }
  std::string not_executable;
  while (!search_path.empty()) {
    const auto folder = search_path.substr(0, search_path.find(':'));
    search_path.remove_prefix(std::min(search_path.size(), folder.size() + 1));
    const std::string path = fmt::format("{}/{}", folder.empty() ? "." : folder, command);
    if (!is_regular_file(path)) continue;
    if (access(path.c_str(), X_OK) == 0) return path;
    if (not_executable.empty()) not_executable = path;
  }
  if (!not_executable.empty()) {
    return refuse(EACCES, fmt::format("{}: not an executable file", not_executable));
  }
  return refuse(ENOENT, fmt::format("{0}: no such command in PATH. Give its path (./{0}), or "
                                    "install the package that has it{1}",
                                    command, package_hint(command)));
}

std::string search_path() {
  const char* const own = getenv("PATH");
  std::string path = own == nullptr ? "/bin:/usr/bin" : own;  // As execvp(3).
  for (const std::string_view folder : {"/usr/local/sbin", "/usr/sbin", "/sbin"}) {
    const bool is_there = fmt::format(":{}:", path).contains(fmt::format(":{}:", folder));
    if (!is_there) path.append(path.empty() ? "" : ":").append(folder);
  }
  return path;
}

bool gains_rights(const std::string& path) {
  struct stat status{};
  if (stat(path.c_str(), &status) != 0) return false;
  if ((status.st_mode & S_ISUID) != 0 && status.st_uid != getuid()) return true;
  if ((status.st_mode & S_ISGID) != 0 && status.st_gid != getgid()) return true;
  return getuid() != 0 && getxattr(path.c_str(), "security.capability", nullptr, 0) > 0;
}

std::string reason_dropins_are_ignored(const std::string& path) {
  if (gains_rights(path)) {
    return fmt::format(
        "{} gains rights when it starts (set-user-id, set-group-id or file "
        "capabilities), and the loader ignores LD_LIBRARY_PATH then: it will not see "
        "Verbatim's device. Run it as the user whose rights it gains",
        path);
  }
  switch (elf_kind(path)) {
    case Elf::static_program:
      return fmt::format(
          "{} is a static program: it loads no libraries and will not see Verbatim's "
          "device, but programs that it starts will",
          path);
    case Elf::other_class:
      return fmt::format(
          "{} is a program for another word size than Verbatim's libraries: it will "
          "not see Verbatim's device",
          path);
    case Elf::no:  // A script: its interpreter and their children matter.
    case Elf::dynamic_program:
      return "";
  }
  return "";
}

std::string library_to_load_first(const std::string& path) {
  const auto elf = doctor::read_elf(path);
  if (!elf || !elf->sets_asan_options) return "";
  const auto is_asan = [](const std::string& name) { return name.starts_with("libasan.so"); };
  const auto found = std::ranges::find_if(elf->needed, is_asan);
  return found == elf->needed.end() ? "" : *found;
}

}  // namespace verbatim::cli
