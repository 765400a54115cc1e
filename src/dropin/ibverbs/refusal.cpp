#include "dropin/ibverbs/refusal.h"

#include <cerrno>

#include "base/log.h"

namespace verbatim::dropin {
namespace {

LogLevel level_of(int code) {
  switch (code) {
    case EAGAIN:
    case EINTR:
    case EBUSY:
      return LogLevel::debug;
    case EADDRNOTAVAIL:  // libfabric binds to each address of the machine.
    case EBADF:
    case ENODATA:
    case ENOENT:
    case ENOSYS:
    case EOPNOTSUPP:
      return LogLevel::info;
    default:
      return LogLevel::warn;
  }
}

}  // namespace

int refused(const char* call, const Error& error) {
  log(level_of(error.code), "{}: {}", call, error.text);
  return error.code;
}

std::nullptr_t refused_null(const char* call, const Error& error) {
  errno = refused(call, error);
  return nullptr;
}

std::nullptr_t probed_null(const char* call, const Error& error) {
  log(LogLevel::info, "{}: {}", call, error.text);
  errno = error.code;
  return nullptr;
}

int refused_minus_one(const char* call, const Error& error) {
  errno = refused(call, error);
  return -1;
}

}  // namespace verbatim::dropin
