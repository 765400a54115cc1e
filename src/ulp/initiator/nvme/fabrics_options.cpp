#include "ulp/initiator/nvme/fabrics_options.h"

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <optional>

#include <fmt/format.h>

#include "ulp/nvmeof/wire/connect.h"

namespace verbatim::ulp::initiator {
namespace {

std::optional<int> number_in(std::string_view text, int low, int high) {
  int value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc{} || end != text.data() + text.size() || value < low || value > high)
    return {};
  return value;
}

template <typename Number>
bool take(std::string_view text, int low, int high, Number& out) {
  const auto value = number_in(text, low, high);
  if (value) out = static_cast<Number>(*value);
  return value.has_value();
}

bool take_name(std::string_view text, std::string& out) {
  out = text;
  return !text.empty() && text.size() <= nvmeof::kNqnMax;
}

/// 36 characters: hexadecimal digits in groups.
bool take_uuid(std::string_view text, std::string& out) {
  constexpr std::size_t kDashes[] = {8, 13, 18, 23};
  out = text;
  if (text.size() != 36) return false;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const bool is_dash = std::ranges::find(kDashes, i) != std::end(kDashes);
    const bool is_digit =
        std::string_view("0123456789abcdefABCDEF").find(text[i]) != std::string_view::npos;
    if (is_dash ? text[i] != '-' : !is_digit) return false;
  }
  return true;
}

constexpr int kMost = 0x7fffffff;

struct Key {
  std::string_view name;
  bool (*take)(std::string_view value, FabricsOptions& options);
};
/// Values that have no effect here are checked to be numbers, as Linux does.
bool take_number(std::string_view value, FabricsOptions&) {
  return number_in(value, 0, kMost).has_value();
}
bool take_nothing(std::string_view, FabricsOptions&) { return true; }
constexpr Key kKeys[] = {
    {"transport", [](std::string_view v, FabricsOptions&) { return v == "rdma"; }},
    {"nqn", [](std::string_view v, FabricsOptions& o) { return take_name(v, o.subsystem); }},
    {"traddr", [](std::string_view v, FabricsOptions& o) { return take_name(v, o.address); }},
    {"trsvcid", [](std::string_view v, FabricsOptions& o) { return take_name(v, o.service); }},
    {"hostnqn", [](std::string_view v, FabricsOptions& o) { return take_name(v, o.host); }},
    {"hostid", [](std::string_view v, FabricsOptions& o) { return take_uuid(v, o.host_id); }},
    {"host_traddr",
     [](std::string_view v, FabricsOptions& o) { return take_name(v, o.host_address); }},
    {"host_iface",
     [](std::string_view v, FabricsOptions& o) { return take_name(v, o.host_interface); }},
    {"queue_size",
     [](std::string_view v, FabricsOptions& o) { return take(v, 16, 1024, o.queue_entries); }},
    {"keep_alive_tmo",
     [](std::string_view v, FabricsOptions& o) { return take(v, 0, 0xffff, o.keep_alive_s); }},
    {"reconnect_delay",
     [](std::string_view v, FabricsOptions& o) { return take(v, 1, kMost, o.reconnect_s); }},
    {"ctrl_loss_tmo",
     [](std::string_view v, FabricsOptions& o) { return take(v, -1, kMost, o.loss_s); }},
    {"nr_io_queues",
     [](std::string_view v, FabricsOptions&) { return number_in(v, 1, kMost).has_value(); }},
    {"nr_write_queues", take_number},
    {"nr_poll_queues", take_number},
    {"tos", take_number},
    {"fast_io_fail_tmo",
     [](std::string_view v, FabricsOptions&) { return number_in(v, -1, kMost).has_value(); }},
    {"duplicate_connect", [](std::string_view, FabricsOptions& o) { return o.may_repeat = true; }},
    {"discovery", [](std::string_view, FabricsOptions& o) { return o.is_discovery = true; }},
    {"disable_sqflow", take_nothing},
    {"hdr_digest", take_nothing},
    {"data_digest", take_nothing},
};

Result<void> take_word(std::string_view word, FabricsOptions& out) {
  const std::string_view name = word.substr(0, word.find('='));
  const std::string_view value = word.substr(std::min(name.size() + 1, word.size()));
  const auto* const key = std::ranges::find(kKeys, name, &Key::name);
  if (key == std::end(kKeys))
    return refuse(EINVAL, fmt::format("'{}' is no option of NVMe over Fabrics", name));
  if (!key->take(value, out))
    return refuse(EINVAL, fmt::format("'{}' is no value of {}", value, name));
  return {};
}

}  // namespace

std::string FabricsOptions::place() const {
  std::string text = fmt::format("traddr={},trsvcid={}", address, service);
  if (!host_address.empty()) text += ",host_traddr=" + host_address;
  if (!host_interface.empty()) text += ",host_iface=" + host_interface;
  return text;
}

Result<FabricsOptions> parse_fabrics_options(std::string_view text) {
  FabricsOptions out;
  bool has_transport = false;
  while (!text.empty()) {
    const std::string_view word = text.substr(0, text.find_first_of(",\n"));
    text.remove_prefix(std::min(word.size() + 1, text.size()));
    if (word.empty()) continue;
    if (auto taken = take_word(word, out); !taken) return std::unexpected(taken.error());
    has_transport |= word.starts_with("transport=");
  }
  if (!has_transport || out.subsystem.empty() || out.address.empty())
    return refuse(EINVAL, "transport, nqn and traddr must be there");
  const auto port = number_in(out.service, 1, 65535);
  const auto to = SocketAddress::parse(out.address, static_cast<std::uint16_t>(port.value_or(0)));
  if (!port || !to)
    return refuse(EINVAL, fmt::format("{}, port {}: no IP address", out.address, out.service));
  out.to = *to;
  out.is_discovery |= out.subsystem == nvmeof::kDiscoveryNqn;
  return out;
}

}  // namespace verbatim::ulp::initiator
