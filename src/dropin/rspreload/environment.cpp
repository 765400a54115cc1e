#include "dropin/rspreload/environment.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdlib>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

namespace verbatim::rspreload {
namespace {

constexpr std::array<std::string_view, 5> kBeginnings = {"VERBATIM_", "XDG_RUNTIME_DIR=", "RDMAV_",
                                                         "IBV_", "LIBSDP_"};

using Variables = std::vector<std::pair<std::string, std::string>>;

Variables* at_start = nullptr;  // Never destroyed.

[[gnu::constructor]] void remember() {
  at_start = new Variables;
  for (char** each = environ; each != nullptr && *each != nullptr; ++each) {
    const std::string_view text = *each;
    const auto is_one = [text](std::string_view one) { return text.starts_with(one); };
    const std::size_t end = text.find('=');
    if (end == text.npos || !std::ranges::any_of(kBeginnings, is_one)) continue;
    at_start->emplace_back(text.substr(0, end), text.substr(end + 1));
  }
}

bool is_set(const char* name) {
  const char* const value = std::getenv(name);
  return value != nullptr && std::atoi(value) != 0;
}

}  // namespace

bool starts_as_tcp(int type, int protocol) {
  static const bool forks = is_set("RDMAV_FORK_SAFE") || is_set("IBV_FORK_SAFE");
  return forks && type == SOCK_STREAM && (protocol == 0 || protocol == IPPROTO_TCP);
}

void restore_environment() {
  static std::atomic<char**> known = nullptr;
  if (at_start == nullptr || known == environ) return;
  for (const auto& [name, value] : *at_start) setenv(name.c_str(), value.c_str(), 0);
  known = environ;
}

}  // namespace verbatim::rspreload
