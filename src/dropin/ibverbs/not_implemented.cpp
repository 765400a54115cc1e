#include "dropin/ibverbs/not_implemented.h"

#include <cerrno>
#include <mutex>
#include <set>
#include <string_view>

#include "base/log.h"
#include "dropin/ibverbs/refusal.h"

namespace verbatim::dropin {
namespace {

void log_once(const char* name) {
  static std::mutex lock;
  static std::set<std::string_view> logged;
  const std::lock_guard guard(lock);
  if (logged.insert(name).second) {
    log(is_probed(name) ? LogLevel::info : LogLevel::warn, "{} is not implemented", name);
  }
}

}  // namespace

int refuse_as_errno(const char* name) {
  log_once(name);
  return EOPNOTSUPP;
}

int refuse_as_minus_one(const char* name) {
  log_once(name);
  errno = EOPNOTSUPP;
  return -1;
}

void* refuse_as_null(const char* name) {
  log_once(name);
  errno = EOPNOTSUPP;
  return nullptr;
}

void refuse_without_value(const char* name) { log_once(name); }

}  // namespace verbatim::dropin
