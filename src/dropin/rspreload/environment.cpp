#include "dropin/rspreload/environment.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdlib>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

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

}  // namespace

void restore_environment() {
  static std::atomic<char**> known = nullptr;
  if (at_start == nullptr || known == environ) return;
  for (const auto& [name, value] : *at_start) setenv(name.c_str(), value.c_str(), 0);
  known = environ;
}

}  // namespace verbatim::rspreload
