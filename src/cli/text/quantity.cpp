#include "cli/text/quantity.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>

#include <fmt/format.h>

namespace verbatim::cli {

std::string counted(std::uint64_t count, std::string_view noun) {
  std::string digits = fmt::format("{}", count);
  for (std::size_t at = digits.size(); at > 3;) digits.insert(at -= 3, 1, ',');
  return fmt::format("{} {}{}", digits, noun, count == 1 ? "" : "s");
}

std::string bytes_text(std::uint64_t bytes) {
  constexpr std::array<std::string_view, 5> kUnits{"kB", "MB", "GB", "TB", "PB"};
  if (bytes < 1000) return counted(bytes, "byte");
  double value = static_cast<double>(bytes) / 1000;
  std::size_t unit = 0;
  // 999.95 would be written as 1000.0.
  for (; value >= 999.95 && unit + 1 < kUnits.size(); ++unit) value /= 1000;
  return fmt::format("{:.1f} {}", value, kUnits[unit]);
}

Result<TimeNs> parse_duration(std::string_view text) {
  struct Unit {
    std::string_view name;
    TimeNs time;
  };
  constexpr std::array kUnits = std::to_array<Unit>(
      {{"ms", kMillisecond}, {"s", kSecond}, {"min", 60 * kSecond}, {"h", 3600 * kSecond}});
  std::uint32_t number = 0;
  const auto [end, failure] = std::from_chars(text.data(), text.data() + text.size(), number);
  const std::string_view name(end, text.data() + text.size());
  const auto unit = std::ranges::find(kUnits, name, &Unit::name);
  if (failure != std::errc() || unit == kUnits.end() || number == 0) {
    return refuse(
        EINVAL,
        fmt::format("'{}' is no time: write a number and ms, s, min or h, as in '10s'", text));
  }
  return number * unit->time;
}

}  // namespace verbatim::cli
