#include "cli/disk/disk_text.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

namespace verbatim::cli {
namespace {

std::string word(const nlohmann::json& from, const char* key) {
  return from.value(key, std::string());
}

/// If there are several.
std::string paths_text(const nlohmann::json& paths) {
  std::string text;
  for (const auto& path : paths) {
    if (paths.size() < 2) break;
    text +=
        fmt::format("  path {}: {}\n", word(path, "url"),
                    path.value("is_there", false) ? word(path, "state")
                                                  : "lost, and waited for: " + word(path, "words"));
  }
  return text;
}

}  // namespace

std::string disks_text(const nlohmann::json& disks) {
  if (disks.empty()) return "No disk is served. 'verbatim disk URL' serves one.\n";
  std::string text;
  for (const auto& disk : disks) {
    if (disk.contains("error")) {
      text += fmt::format("disk {}: {}\n", word(disk, "name"), word(disk, "error"));
      continue;
    }
    text += fmt::format("disk {}: {}\n  {} bytes, blocks of {}{}: {}\n  {}\n", word(disk, "name"),
                        word(disk, "url"), disk.value("bytes", std::uint64_t{0}),
                        disk.value("block_bytes", 0),
                        disk.value("is_read_only", false) ? ", read-only" : "", word(disk, "disk"),
                        word(disk, "uri"));
    text += paths_text(disk.value("paths", nlohmann::json::array()));
    if (!disk.value("is_there", false))
      text += fmt::format("  lost, and waited for: {}\n", word(disk, "words"));
  }
  return text;
}

}  // namespace verbatim::cli
