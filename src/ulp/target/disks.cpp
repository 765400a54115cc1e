#include "ulp/target/disks.h"

#include <cctype>
#include <charconv>

#include <fmt/format.h>

namespace verbatim::ulp::target {

Result<std::uint64_t> parse_bytes(const std::string& text) {
  constexpr std::string_view kUnits = "KMGT";
  std::uint64_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  const std::string_view unit(end, static_cast<std::size_t>(text.data() + text.size() - end));
  std::size_t shift = 0;
  if (unit.size() == 1) {
    const auto at = kUnits.find(static_cast<char>(std::toupper(unit[0])));
    shift = at == std::string_view::npos ? 64 : 10 * (at + 1);
  }
  if (error != std::errc{} || unit.size() > 1 || shift == 64 || number == 0 ||
      number > (std::uint64_t{1} << 62) >> shift)
    return refuse(EINVAL, fmt::format("'{}' is no size: write one as 64M or 1G", text));
  return number << shift;
}

}  // namespace verbatim::ulp::target
