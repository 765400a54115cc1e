#include <cstdarg>
#include <cstdio>
#include <cstdlib>

#include "base/log.h"
#include "dropin/ibverbs/verbs.h"

/// Symbols that providers loaded on top of this library need.

/// A provider's log line, with the levels of rdma-core: 1 error, 2 warning, 3 information, 4 debug.
/// As there, it is printed if VERBS_LOG_LEVEL asks for its level; by default, none is.
void __verbs_log(verbs_context*, std::uint32_t level, const char* format, ...) {
  using verbatim::LogLevel;
  const char* const wanted = std::getenv("VERBS_LOG_LEVEL");
  const bool is_wanted = wanted != nullptr && level <= std::strtoul(wanted, nullptr, 10);
  char text[1024];
  va_list arguments;
  va_start(arguments, format);
  std::vsnprintf(text, sizeof text, format, arguments);
  va_end(arguments);
  verbatim::log(is_wanted ? LogLevel::error : LogLevel::debug, "provider: {}", text);
}
