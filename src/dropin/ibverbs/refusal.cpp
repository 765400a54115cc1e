#include "dropin/ibverbs/refusal.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <span>
#include <string_view>

#include "base/log.h"

namespace verbatim::dropin {
namespace {

/// Calls that libraries try at each start, to find out whether there is such a thing.
constexpr std::array<std::string_view, 4> kProbed{"query_ece", "set_ece", "reg_mr_ex",
                                                  "ibv_reg_mr_ex"};

/// Without them a program has no device, and the user wants to know why, whatever the errno is.
constexpr std::array<std::string_view, 3> kOpening{"get_device_list", "open_device", "join_node"};

bool is_among(std::span<const std::string_view> calls, std::string_view call) {
  return std::ranges::find(calls, call) != calls.end();
}

LogLevel level_of(std::string_view call, int code) {
  if (is_among(kOpening, call)) return LogLevel::warn;
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

/// What lifts a limit of the program's surroundings.
std::string_view advice_for(const Error& error) {
  if (error.text.find("ulimit") != std::string::npos) return "";
  switch (error.code) {
    case EMFILE:
      return " (raise the limit of this program: ulimit -n)";
    case ENFILE:
      return " (raise the limit of this machine: sysctl fs.file-max)";
    default:
      return "";
  }
}

}  // namespace

bool is_probed(std::string_view call) { return is_among(kProbed, call); }

int refused(const char* call, const Error& error) {
  log(level_of(call, error.code), "{}: {}{}", call, error.text, advice_for(error));
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
