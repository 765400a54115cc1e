#include "ulp/disk/target.h"

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <memory>
#include <optional>
#include <random>
#include <string_view>

#include <fmt/format.h>
#include <netdb.h>

#include "ulp/iscsi/wire/text.h"
#include "ulp/iser/initiator/initiator.h"
#include "ulp/nvmeof/host/initiator.h"
#include "ulp/srp/initiator/add_target_line.h"

namespace verbatim::ulp::disk {
namespace {

/// A URL in its parts.
struct Url {
  std::string host;
  std::optional<std::uint16_t> port;
  std::string name;
  std::uint32_t unit = 0;
};
using Begin = decltype(Target::begin);

struct Scheme {
  std::string_view name;
  std::uint16_t port = 0;
  std::string_view form;                                             // For the user.
  Result<Begin> (*begin)(const Url& url, const Identity& identity);  // Null: SRP's, a line.
};

void random_bytes(MutableByteSpan out) {
  std::random_device random;
  for (std::byte& byte : out) byte = static_cast<std::byte>(random());
}

Result<Begin> begin_iser(const Url& url, const Identity& identity) {
  constexpr std::uint32_t kLunMax = 16383;
  if (!iscsi::is_iscsi_name(url.name))
    return refuse(EINVAL, fmt::format("'{}' is no iSCSI name: iqn.2026-01.com.example:disk is one",
                                      url.name));
  if (url.unit > kLunMax) return refuse(EINVAL, "a logical unit's number is at most 16383");
  const iser::Initiator::Settings settings{.login = {.initiator = identity.iqn,
                                                     .target = url.name,
                                                     .credentials = identity.credentials,
                                                     .target_proves = identity.target_proves,
                                                     .random = random_bytes,
                                                     .isid = identity.session},
                                           .lun = static_cast<std::uint16_t>(url.unit)};
  return [settings](const OwnSide& own) {
    return std::make_unique<iser::Initiator>(settings, own.scratch);
  };
}

Result<Begin> begin_nvme(const Url& url, const Identity& identity) {
  if (!url.name.starts_with("nqn.") || url.name.size() > nvmeof::kNqnMax)
    return refuse(EINVAL,
                  fmt::format("'{}' is no NQN: nqn.2026-01.com.example:disk is one", url.name));
  const nvmeof::Initiator::Settings settings{.subsystem = url.name,
                                             .host = identity.nqn,
                                             .host_id = identity.host_id,
                                             .namespace_id = url.unit};
  return [settings](const OwnSide& own) {
    return std::make_unique<nvmeof::Initiator>(settings, own.scratch);
  };
}

constexpr Scheme kSchemes[] = {
    {"iser", 3260, "iser://HOST[:PORT]/IQN/LUN", begin_iser},
    {"nvme", 4420, "nvme://HOST[:PORT]/NQN/NSID", begin_nvme},
    {"srp", 0, "srp://id_ext=...,ioc_guid=...,dest=IP:PORT[/LUN]", nullptr},
};

template <typename Number>
std::optional<Number> number_of(std::string_view text) {
  Number value{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc{} || end != text.data() + text.size()) return {};
  return value;
}

/// HOST[:PORT], [IPV6][:PORT].
bool parse_host(std::string_view text, Url& url) {
  if (text.starts_with('[')) {
    const std::size_t end = text.find(']');
    if (end == std::string_view::npos) return false;
    url.host = text.substr(1, end - 1);
    text.remove_prefix(end + 1);
  } else {
    url.host = text.substr(0, text.find(':'));
    text.remove_prefix(url.host.size());
  }
  if (text.empty()) return !url.host.empty();
  url.port = text.starts_with(':') ? number_of<std::uint16_t>(text.substr(1)) : std::nullopt;
  return url.port.has_value() && !url.host.empty();
}

/// The name may have slashes; the number is behind the last one.
std::optional<Url> parse(std::string_view rest) {
  Url url;
  const std::size_t slash = rest.find('/');
  const std::size_t last = rest.rfind('/');
  if (slash == std::string_view::npos || last == slash) return {};
  const auto unit = number_of<std::uint32_t>(rest.substr(last + 1));
  if (!parse_host(rest.substr(0, slash), url) || !unit) return {};
  url.unit = *unit;
  url.name = rest.substr(slash + 1, last - slash - 1);
  return url;
}

/// What srp_daemon writes, word for word; behind a slash the unit, if it is not 0.
Result<Target> parse_srp(std::string_view rest) {
  constexpr std::uint32_t kUnitMax = 255;
  const std::size_t slash = rest.find('/');
  const auto line = srp::parse_add_target(rest.substr(0, slash));
  if (!line) return std::unexpected(line.error());
  const auto unit = slash == std::string_view::npos
                        ? std::optional<std::uint32_t>(0)
                        : number_of<std::uint32_t>(rest.substr(slash + 1));
  if (!unit || *unit > kUnitMax) return refuse(EINVAL, "a logical unit's number is 0 to 255");
  const auto begin = [line = *line, lun = std::uint64_t{*unit} << 48](const OwnSide& own) {
    srp::InitiatorSettings settings = settings_for(line, own.guid);
    settings.lun = lun;
    settings.joins = lun != 0;  // Of several units of a target, each has a process.
    return std::make_unique<srp::Initiator>(settings, own.scratch);
  };
  Target target{.url = {}, .place = rdma::IpService{line->to}, .begin = begin};
  if (!line->is_by_ip())
    target.place =
        rdma::InfinibandService{.service = *line->service, .gid = *line->gid, .pkey = line->pkey};
  const srp::InitiatorSettings settings = settings_for(*line, 0);
  for (const srp::PortId& id : {settings.target, settings.initiator})
    target.exclusive.append(reinterpret_cast<const char*>(id.data()), id.size());
  return target;
}

Result<SocketAddress> resolve(const std::string& host, std::uint16_t port) {
  if (auto address = SocketAddress::parse(host, port)) return address;
  addrinfo hints{.ai_socktype = SOCK_STREAM};
  addrinfo* found = nullptr;
  if (const int code = getaddrinfo(host.c_str(), nullptr, &hints, &found); code != 0)
    return refuse(EHOSTUNREACH, fmt::format("host '{}': {}", host, gai_strerror(code)));
  const std::unique_ptr<addrinfo, decltype(&freeaddrinfo)> owned(found, &freeaddrinfo);
  auto address = SocketAddress::from(found->ai_addr, found->ai_addrlen);
  if (address) return address->with_port(port);
  return address;
}

std::string all_forms() {
  std::string text;
  for (const Scheme& scheme : kSchemes)
    text += fmt::format("{}{}", text.empty() ? "" : " or ", scheme.form);
  return text;
}

}  // namespace

Result<Target> parse_target(const std::string& url, const Identity& identity) {
  const std::size_t end = url.find("://");
  const auto scheme =
      std::ranges::find(kSchemes, std::string_view(url).substr(0, end), &Scheme::name);
  if (end == std::string::npos || scheme == std::end(kSchemes))
    return refuse(EINVAL, fmt::format("'{}' is no disk: {}", url, all_forms()));
  const std::string_view rest = std::string_view(url).substr(end + 3);
  if (scheme->begin == nullptr) {
    auto target = parse_srp(rest);
    if (target) target->url = url;
    return target;
  }
  const auto parts = parse(rest);
  if (!parts) return refuse(EINVAL, fmt::format("'{}' is not {}", url, scheme->form));
  auto begin = scheme->begin(*parts, identity);
  if (!begin) return std::unexpected(begin.error());
  const auto address = resolve(parts->host, parts->port.value_or(scheme->port));
  if (!address) return std::unexpected(address.error());
  return Target{.url = url, .place = rdma::IpService{*address}, .begin = std::move(*begin)};
}

Result<std::vector<Target>> parse_paths(std::span<const std::string> urls, Identity identity) {
  if (urls.size() > kPathsMax)
    return refuse(EINVAL, fmt::format("{} paths: {} are the most", urls.size(), kPathsMax));
  std::vector<Target> targets;
  for (const std::string& url : urls) {
    auto target = parse_target(url, identity);
    if (!target) return std::unexpected(target.error());
    if (!target->exclusive.empty() &&
        std::ranges::count(targets, target->exclusive, &Target::exclusive) > 0)
      return refuse(EINVAL, fmt::format("'{}' is the second login at this target's port, which "
                                        "would end the first: say initiator_ext=2 in it",
                                        url));
    targets.push_back(std::move(*target));
    ++identity.session;
  }
  return targets;
}

}  // namespace verbatim::ulp::disk
