#include "service/settings.h"

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <ranges>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "config/entries.h"
#include "config/layers.h"

namespace verbatim::service {
namespace {

std::string key_of(const Setting& setting) {
  std::string key = setting.name;
  std::ranges::replace(key, '-', '_');
  return key;
}

Result<void> fill_from_file(const std::string& path, std::span<const Setting> settings) {
  const auto content = config::read_file(path);
  if (!content && content.error().code == ENOENT) return {};
  if (!content) return std::unexpected(content.error());
  const auto [entries, faults] = config::parse_entries(*content);
  if (!faults.empty()) {
    return refuse(EINVAL, fmt::format("{}:{}: {}", path, faults[0].line, faults[0].text));
  }
  for (const config::Entry& entry : entries) {
    const auto found = std::ranges::find(settings, entry.key, key_of);
    if (found == settings.end()) {
      return refuse(
          EINVAL, fmt::format("{}:{}: there is no '{}'; there are: {}", path, entry.line, entry.key,
                              fmt::join(settings | std::views::transform(key_of), ", ")));
    }
    *found->value = entry.value;
  }
  return {};
}

}  // namespace

Result<void> fill_settings(const std::string& kind, const std::string& name,
                           std::span<const Setting> settings, const SaidSettings& said) {
  const auto folders = config::config_folders();
  if (!folders) return std::unexpected(folders.error());
  const std::string file = kind + "/" + name;
  for (const std::string& folder : *folders | std::views::reverse) {  // The first one counts.
    if (auto filled = fill_from_file(config::file_of(folder, file), settings); !filled) {
      return filled;
    }
  }
  for (const Setting& setting : settings) {
    if (*setting.variable == '\0') continue;
    if (const char* const value = secure_getenv(setting.variable)) *setting.value = value;
  }
  for (const auto& [which, value] : said) {
    const auto setting = std::ranges::find(settings, which, &Setting::name);
    if (setting != settings.end()) *setting->value = value;
  }
  return {};
}

}  // namespace verbatim::service
