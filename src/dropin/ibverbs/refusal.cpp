#include "dropin/ibverbs/refusal.h"

#include <cerrno>

#include "base/log.h"

namespace verbatim::dropin {

int refused(const char* call, const Error& error) {
  const bool normal = error.code == EAGAIN || error.code == EINTR || error.code == EBUSY;
  log(normal ? LogLevel::debug : LogLevel::warn, "{}: {}", call, error.text);
  return error.code;
}

std::nullptr_t refused_null(const char* call, const Error& error) {
  errno = refused(call, error);
  return nullptr;
}

int refused_minus_one(const char* call, const Error& error) {
  errno = refused(call, error);
  return -1;
}

}  // namespace verbatim::dropin
