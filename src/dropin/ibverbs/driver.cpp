#include <cstdarg>
#include <cstdio>

#include "base/log.h"
#include "dropin/ibverbs/verbs.h"

/// Symbols that providers loaded on top of this library need.

/// A provider's log line, with the levels of rdma-core: 1 error, 2 warning, 3 information, 4 debug.
void __verbs_log(verbs_context*, std::uint32_t level, const char* format, ...) {
  using verbatim::LogLevel;
  constexpr LogLevel kLevels[] = {LogLevel::off, LogLevel::error, LogLevel::warn, LogLevel::info};
  char text[1024];
  va_list arguments;
  va_start(arguments, format);
  std::vsnprintf(text, sizeof text, format, arguments);
  va_end(arguments);
  verbatim::log(level < std::size(kLevels) ? kLevels[level] : LogLevel::debug, "provider: {}",
                text);
}
