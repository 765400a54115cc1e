#include "dropin/ibverbs/refusal.h"

#include <algorithm>
#include <array>
#include <cerrno>

#include "base/log.h"

namespace verbatim::dropin {
namespace {

/// Calls that libraries try at each start, to find out whether there is such a thing.
constexpr std::array<std::string_view, 4> kProbed{"query_ece", "set_ece", "reg_mr_ex",
                                                  "ibv_reg_mr_ex"};

LogLevel level_of(std::string_view call, int code) {
  switch (code) {
    case EAGAIN:
    case EINTR:
    case EBUSY:
      return LogLevel::debug;
    case EADDRNOTAVAIL:  // libfabric binds to each address of the machine.
    case EBADF:
    case ENODATA:
    case ENOENT:
      return LogLevel::info;
    case ENOSYS:
    case EOPNOTSUPP:
      return is_probed(call) ? LogLevel::info : LogLevel::warn;
    default:
      return LogLevel::warn;
  }
}

}  // namespace

bool is_probed(std::string_view call) { return std::ranges::find(kProbed, call) != kProbed.end(); }

int refused(const char* call, const Error& error) {
  log(level_of(call, error.code), "{}: {}", call, error.text);
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
