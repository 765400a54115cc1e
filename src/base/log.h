#pragma once

#include <string_view>
#include <utility>

#include <fmt/format.h>

/// Log lines for the user, on standard error: `verbatim: warn: TEXT`. `VERBATIM_LOG` sets the level
/// (off, error, warn, info, debug; default: warn). Never called on the packet path.
namespace verbatim {

enum class LogLevel { off, error, warn, info, debug };

/// Returns the level, which is read from the environment once.
LogLevel log_level();
/// Writes one line with one system call.
void log_line(LogLevel level, std::string_view text);
/// From now on each line begins with the time (UTC), as a daemon's log needs it.
void show_times_in_log();

template <typename... Args>
void log(LogLevel level, fmt::format_string<Args...> format, Args&&... args) {
  if (level <= log_level()) log_line(level, fmt::format(format, std::forward<Args>(args)...));
}

}  // namespace verbatim
