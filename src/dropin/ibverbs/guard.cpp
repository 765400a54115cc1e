#include "dropin/ibverbs/guard.h"

#include <exception>
#include <new>
#include <string_view>
#include <system_error>

#include <unistd.h>

#include "base/log.h"

namespace verbatim::dropin {

int thrown(const char* call) noexcept {
  const auto said = [call](int code, const char* what) {
    try {
      log(LogLevel::error, "{}: {}", call, what);
    } catch (...) {  // There is not even memory for the line.
      constexpr std::string_view kInstead = "verbatim: error: no memory is left\n";
      [[maybe_unused]] const auto written = write(STDERR_FILENO, kInstead.data(), kInstead.size());
    }
    return code;
  };
  try {
    throw;
  } catch (const std::bad_alloc&) {
    return said(ENOMEM, "no memory is left");
  } catch (const std::system_error& error) {
    const bool is_errno = error.code().value() > 0;
    return said(is_errno ? error.code().value() : EIO, error.what());
  } catch (const std::exception& error) {
    return said(EIO, error.what());
  } catch (...) {
    return said(EIO, "something unknown was thrown");
  }
}

}  // namespace verbatim::dropin
