#include "base/log.h"

#include <array>
#include <cstdlib>
#include <string>

#include <unistd.h>

namespace verbatim {
namespace {

constexpr std::array<std::string_view, 5> kNames{"off", "error", "warn", "info", "debug"};

LogLevel level_from_environment() {
  const char* wanted = std::getenv("VERBATIM_LOG");
  for (std::size_t i = 0; wanted != nullptr && i < kNames.size(); ++i) {
    if (kNames[i] == wanted) return static_cast<LogLevel>(i);
  }
  return LogLevel::warn;
}

}  // namespace

LogLevel log_level() {
  static const LogLevel level = level_from_environment();
  return level;
}

void log_line(LogLevel level, std::string_view text) {
  const std::string line =
      fmt::format("verbatim: {}: {}\n", kNames[static_cast<std::size_t>(level)], text);
  // An error is ignored: there is nowhere else to report it.
  [[maybe_unused]] const auto written = write(STDERR_FILENO, line.data(), line.size());
}

}  // namespace verbatim
