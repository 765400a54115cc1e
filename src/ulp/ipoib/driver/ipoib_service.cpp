#include "ulp/ipoib/driver/ipoib_service.h"

#include <cerrno>
#include <charconv>
#include <memory>
#include <optional>
#include <string>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "service/daemon.h"
#include "ulp/ipoib/driver/link.h"

namespace verbatim::ulp::ipoib {
namespace {

/// `up` returns when the interface has its carrier, or when it is known why it has none.
constexpr TimeNs kPatience = 5 * kSecond;

struct Settings {
  std::string interface = "ib0", netns, mode = "datagram", pkey = "0xffff", port = "1";
};

Result<PKey> parse_pkey(const std::string& text) {
  const bool is_hex = text.starts_with("0x");
  const char* const begin = text.data() + (is_hex ? 2 : 0);
  const char* const end = text.data() + text.size();
  std::uint16_t value = 0;
  const auto [rest, error] = std::from_chars(begin, end, value, is_hex ? 16 : 10);
  if (error != std::errc() || rest != end || (value & 0x7fff) == 0)
    return refuse(EINVAL, fmt::format("a P_Key is 0x0001 to 0xffff, not '{}'", text));
  return PKey{static_cast<std::uint16_t>(value | 0x8000)};
}

class IpoibService {
 public:
  Result<void> open(const Settings& settings, service::Daemon& daemon) {
    const auto pkey = parse_pkey(settings.pkey);
    if (!pkey) return std::unexpected(pkey.error());
    if (settings.mode != "datagram" && settings.mode != "connected")
      return refuse(EINVAL, fmt::format("mode is datagram or connected, not '{}'", settings.mode));
    if (settings.port != "1" && settings.port != "2")
      return refuse(EINVAL, fmt::format("port is 1 or 2, not '{}'", settings.port));
    auto link = Link::create({.place = {.name = settings.interface, .netns = settings.netns},
                              .port = static_cast<std::uint8_t>(settings.port == "2" ? 2 : 1),
                              .pkey = *pkey,
                              .is_connected = settings.mode == "connected"},
                             daemon.loop());
    if (!link) return std::unexpected(link.error());
    link_ = std::move(*link);
    service::Loop& loop = daemon.loop();
    const TimeNs until = loop.now() + kPatience;
    while (!link_->has_carrier() && link_->why().empty() && loop.now() < until &&
           !loop.should_stop())
      loop.turn(until);
    daemon.on_status([this] { return link_->status(); });
    daemon.on_stop([this] { link_.reset(); }, [] { return true; });  // The loop outlives it.
    return {};
  }

 private:
  std::unique_ptr<Link> link_;
};

}  // namespace

int run_ipoib(int argc, char** argv) {
  Settings settings;
  const service::Setting known[] = {
      {"interface", "NAME", "", "the interface's name (default: ib0)", &settings.interface},
      {"netns", "PID|FILE", "", "its network namespace: that of a process, or a file",
       &settings.netns},
      {"mode", "MODE", "", "datagram (default) or connected", &settings.mode},
      {"port", "NUMBER", "", "its port of the device: 1 (default) or 2", &settings.port},
      {"pkey", "P_KEY", "", "its partition (default: 0xffff)", &settings.pkey}};
  IpoibService ipoib;
  return service::run_daemon({.program = "verbatim-ulpd ipoib",
                              .kind = "ipoib",
                              .summary = "an interface of IP over InfiniBand",
                              .settings = known},
                             argc, argv,
                             [&](service::Daemon& daemon) { return ipoib.open(settings, daemon); });
}

}  // namespace verbatim::ulp::ipoib
