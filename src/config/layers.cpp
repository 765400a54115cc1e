#include "config/layers.h"

#include <algorithm>
#include <cstdlib>
#include <ranges>

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/os/unique_fd.h"

namespace verbatim::config {
namespace {

constexpr const char* kFolderName = "/verbatim.d";
constexpr const char* kSystemFolder = "/etc/verbatim.d";

/// Returns null if it is unset or empty, or the program runs with raised privileges.
const char* variable(const char* name) {
  const char* const value = secure_getenv(name);
  return value != nullptr && *value != '\0' ? value : nullptr;
}

const Setting* find(const std::vector<Setting>& settings, std::string_view key) {
  const auto found = std::ranges::find(settings, key, &Setting::key);
  return found == settings.end() ? nullptr : &*found;
}

/// Builds "FILE:3: cause", and the number of further faults.
Error told(const std::string& path, const std::vector<Fault>& faults) {
  const Fault& first = faults.front();
  std::string text = first.line == 0 ? fmt::format("{}: {}", path, first.text)
                                     : fmt::format("{}:{}: {}", path, first.line, first.text);
  if (faults.size() > 1) {
    text += fmt::format(" (and {} more: verbatim config --check {})", faults.size() - 1, path);
  }
  return {EINVAL, std::move(text)};
}

/// Adds the file's settings, if the file exists.
Result<void> add_file(const std::string& path, std::vector<Setting>& settings,
                      std::vector<std::string>& files) {
  const auto content = read_file(path);
  if (!content && content.error().code == ENOENT) return {};
  if (!content) return std::unexpected(content.error());
  if (const auto faults = faults_of(*content); !faults.empty()) {
    return std::unexpected(told(path, faults));
  }
  files.push_back(path);
  for (Entry& entry : parse_entries(*content).entries) {
    if (find(settings, entry.key) != nullptr) continue;  // A setting with higher priority exists.
    std::string from = fmt::format("{}:{}", path, entry.line);
    settings.push_back({std::move(entry.key), std::move(entry.value), std::move(from)});
  }
  return {};
}

}  // namespace

Result<Folders> parse_folders(std::string_view list) {
  Folders folders;
  for (const auto part : std::views::split(list, ':')) {
    std::string folder{std::string_view(part)};
    if (folder.empty()) continue;
    if (folder.front() != '/') {
      return refuse(EINVAL, fmt::format("VERBATIM_CONFIG: '{}' is no absolute path", folder));
    }
    folders.push_back(std::move(folder));
  }
  return folders;
}

Result<Folders> config_folders() {
  if (const char* list = variable("VERBATIM_CONFIG")) return parse_folders(list);
  Folders folders;
  const char* const base = variable("XDG_CONFIG_HOME");
  const char* const home = variable("HOME");
  if (base != nullptr && *base == '/') {  // Relative paths are ignored (XDG specification).
    folders.push_back(std::string(base) + kFolderName);
  } else if (home != nullptr && *home == '/') {
    folders.push_back(std::string(home) + "/.config" + kFolderName);
  }
  folders.emplace_back(kSystemFolder);
  return folders;
}

std::string file_of(const std::string& folder, std::string_view node) {
  return fmt::format("{}/{}.conf", folder, node);
}

Result<std::string> read_file(const std::string& path) {
  // O_NONBLOCK: opening a pipe with that name does not block the agent.
  const UniqueFd file(open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY));
  if (!file) {
    const int code = errno;
    const std::string folder = path.substr(0, path.rfind('/'));
    const bool is_imported =
        code == ENOTDIR || (code == EACCES && access(folder.c_str(), X_OK) != 0);
    if (code == ENOENT || is_imported) return refuse(ENOENT, path + ": there is no such file");
    errno = code;
    return refuse_errno("cannot read " + path);
  }
  struct stat info{};
  if (fstat(file.get(), &info) != 0) return refuse_errno("cannot read " + path);
  if (!S_ISREG(info.st_mode)) return refuse(EINVAL, path + " is no regular file");
  std::string content(kFileBytesMax + 1, '\0');
  std::size_t length = 0;
  while (length < content.size()) {
    const auto got = read(file.get(), content.data() + length, content.size() - length);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return refuse_errno("cannot read " + path);
    if (got == 0) break;
    length += static_cast<std::size_t>(got);
  }
  content.resize(length);
  return content;
}

std::vector<Fault> faults_of(std::string_view content) {
  auto [entries, faults] = parse_entries(content);
  NodeConfig ignored;
  for (const Entry& entry : entries) {
    if (faults.size() >= kFaultsMax) break;
    const auto applied = apply(entry.key, entry.value, ignored);
    if (applied) continue;
    const bool is_known = find_key(entry.key) != nullptr;
    faults.push_back(
        {entry.line, is_known ? entry.key + ": " + applied.error().text : applied.error().text});
  }
  std::ranges::sort(faults, {}, &Fault::line);
  return faults;
}

Result<Effective> resolve(std::string_view node, const Folders& folders,
                          const std::vector<Setting>& given) {
  Effective effective;
  std::vector<Setting> said = given;
  for (const std::string& folder : folders) {
    if (auto added = add_file(file_of(folder, node), said, effective.files); !added) {
      return std::unexpected(added.error());
    }
  }
  for (const Key& key : keys()) {
    const Setting* const setting = find(said, key.name);
    if (setting == nullptr) continue;
    if (auto applied = apply(key.name, setting->value, effective.config); !applied) {
      return refuse(applied.error().code, setting->from + ": " + applied.error().text);
    }
  }
  bool is_of_profile = false;  // The following settings belong to the profile, unless they are set.
  const std::string profile = fmt::format("profile {}", effective.config.profile->name);
  for (const Key& key : keys()) {
    const Setting* const setting = find(said, key.name);
    const std::string otherwise = is_of_profile ? profile : "default";
    effective.settings.push_back({std::string(key.name), text_of(key, effective.config),
                                  setting != nullptr ? setting->from : otherwise});
    is_of_profile |= key.name == "profile";
  }
  return effective;
}

std::uint64_t digest_of(const Effective& effective) {
  std::uint64_t value = 14695981039346656037u;  // FNV-1a: any build of this version agrees on it.
  const auto add = [&value](std::string_view text) {
    for (const char c : text) value = (value ^ static_cast<std::uint8_t>(c)) * 1099511628211u;
    value *= 1099511628211u;  // An end, as of a byte 0.
  };
  for (const Setting& setting : effective.settings) {
    add(setting.key);
    add(setting.value);
  }
  return value == 0 ? 1 : value;
}

std::vector<Setting> from_environment() {
  std::vector<Setting> settings;
  for (const Key& key : keys()) {
    if (key.variable.empty()) continue;
    const std::string name(key.variable);
    const char* const value = std::getenv(name.c_str());
    if (value != nullptr && *value != '\0')
      settings.push_back({std::string(key.name), value, name});
  }
  return settings;
}

}  // namespace verbatim::config
