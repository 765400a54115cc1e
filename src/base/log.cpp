#include "base/log.h"

#include <array>
#include <atomic>
#include <cstdlib>
#include <ctime>
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

std::atomic<bool> shows_times{false};

/// "2026-01-31T23:59:59.123Z ", or nothing.
std::string time_text() {
  if (!shows_times.load(std::memory_order_relaxed)) return {};
  timespec now{};
  clock_gettime(CLOCK_REALTIME, &now);
  std::tm parts{};
  gmtime_r(&now.tv_sec, &parts);
  std::array<char, 24> text{};
  std::strftime(text.data(), text.size(), "%Y-%m-%dT%H:%M:%S", &parts);
  return fmt::format("{}.{:03}Z ", text.data(), now.tv_nsec / 1'000'000);
}

}  // namespace

void show_times_in_log() { shows_times.store(true, std::memory_order_relaxed); }

LogLevel log_level() {
  static const LogLevel level = level_from_environment();
  return level;
}

void log_line(LogLevel level, std::string_view text) {
  const std::string line = fmt::format("{}verbatim: {}: {}\n", time_text(),
                                       kNames[static_cast<std::size_t>(level)], text);
  // An error is ignored: there is nowhere else to report it.
  [[maybe_unused]] const auto written = write(STDERR_FILENO, line.data(), line.size());
}

}  // namespace verbatim
