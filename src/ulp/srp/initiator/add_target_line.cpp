#include "ulp/srp/initiator/add_target_line.h"

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <vector>

#include <fmt/format.h>

namespace verbatim::ulp::srp {
namespace {

template <typename Number>
std::optional<Number> number_in(std::string_view text, int base) {
  if (base == 16 && text.starts_with("0x")) text.remove_prefix(2);
  Number value = 0;
  const char* const end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, value, base);
  if (error != std::errc{} || stop != end) return std::nullopt;
  return value;
}

bool take_hex(std::string_view text, std::uint64_t& out) {
  const auto value = number_in<std::uint64_t>(text, 16);
  out = value.value_or(out);
  return value.has_value();
}

bool take_count(std::string_view text, std::uint32_t& out) {
  const auto value = number_in<std::uint32_t>(text, 10);
  if (!value || *value == 0) return false;
  out = *value;
  return true;
}

bool take_gid(std::string_view text, AddTarget& out) {
  const auto bytes = parse_port_id(text);
  if (!bytes || text.size() != 32) return false;
  out.gid = Gid{};
  std::memcpy(out.gid->bytes.data(), bytes->data(), bytes->size());
  return true;
}

bool take_address(std::string_view text, SocketAddress& out) {
  const std::size_t colon = text.rfind(':');
  if (colon == std::string_view::npos) return false;
  std::string_view host = text.substr(0, colon);
  if (host.starts_with('[') && host.ends_with(']')) host = host.substr(1, host.size() - 2);
  const auto port = number_in<std::uint16_t>(text.substr(colon + 1), 10);
  const auto address =
      port ? SocketAddress::parse(host, *port) : Result<SocketAddress>(refuse(EINVAL, "no port"));
  if (!address) return false;
  out = *address;
  return true;
}

struct Key {
  const char* name = "";
  bool (*take)(std::string_view, AddTarget&) = nullptr;
};
/// Values that have no effect here are checked to be numbers, as Linux does.
bool take_number(std::string_view text, AddTarget&) {
  return number_in<std::uint32_t>(text, 10).has_value();
}
constexpr Key kKeys[] = {
    {"id_ext", [](std::string_view v, AddTarget& t) { return take_hex(v, t.extension); }},
    {"ioc_guid", [](std::string_view v, AddTarget& t) { return take_hex(v, t.guid); }},
    {"dgid", take_gid},
    {"pkey",
     [](std::string_view v, AddTarget& t) {
       const auto value = number_in<std::uint16_t>(v, 16);
       if (value) t.pkey = PKey{*value};
       return value.has_value();
     }},
    {"service_id",
     [](std::string_view v, AddTarget& t) {
       t.service = number_in<std::uint64_t>(v, 16);
       return t.service.has_value();
     }},
    {"max_sect", [](std::string_view v, AddTarget& t) { return take_count(v, t.sectors_max); }},
    {"max_cmd_per_lun",
     [](std::string_view v, AddTarget& t) { return take_count(v, t.unit_requests); }},
    {"target_can_queue", take_number},
    {"io_class",
     [](std::string_view v, AddTarget&) {
       // 0xff00 is revision 10, which swaps the halves of identifiers: nobody speaks it any more.
       return number_in<std::uint16_t>(v, 16) == 0x0100;
     }},
    {"initiator_ext",
     [](std::string_view v, AddTarget& t) { return take_hex(v, t.initiator_extension); }},
    {"cmd_sg_entries", take_number},
    {"allow_ext_sg", take_number},
    {"sg_tablesize", take_number},
    {"comp_vector", take_number},
    {"tl_retry_count", take_number},
    {"queue_size",
     [](std::string_view v, AddTarget& t) {
       return take_count(v, t.requests) && t.requests >= 4 && t.requests <= 0x4000;
     }},
    {"src", [](std::string_view v, AddTarget& t) { return take_address(v, t.from); }},
    {"dest", [](std::string_view v, AddTarget& t) { return take_address(v, t.to); }},
    {"max_it_iu_size",
     [](std::string_view v, AddTarget& t) { return take_count(v, t.message_bytes); }},
    {"ch_count", take_number},
};

Result<void> take_word(std::string_view word, AddTarget& out) {
  const std::size_t equals = word.find('=');
  const std::string_view name = word.substr(0, equals);
  const auto* const key =
      std::ranges::find(kKeys, name, [](const Key& one) { return std::string_view(one.name); });
  if (equals == std::string_view::npos || key == std::end(kKeys))
    return refuse(EINVAL, fmt::format("'{}' is no word of an SRP target", word));
  if (!key->take(word.substr(equals + 1), out))
    return refuse(EINVAL, fmt::format("'{}' is no value of {}", word.substr(equals + 1), name));
  return {};
}

}  // namespace

Result<AddTarget> parse_add_target(std::string_view line) {
  constexpr std::string_view kSeparators = ",\n";
  AddTarget out;
  std::vector<std::string_view> names;
  for (std::size_t at = 0; at < line.size();) {
    const std::size_t end = std::min(line.find_first_of(kSeparators, at), line.size());
    const std::string_view word = line.substr(at, end - at);
    at = end + 1;
    if (word.empty()) continue;
    if (auto taken = take_word(word, out); !taken) return std::unexpected(taken.error());
    names.push_back(word.substr(0, word.find('=')));
  }
  const auto needs = [&names](std::initializer_list<const char*> wanted) {
    std::string missing;
    for (const std::string_view name : wanted) {
      if (std::ranges::find(names, name) == names.end())
        missing += fmt::format("{}{}", missing.empty() ? "" : ", ", name);
    }
    return missing;
  };
  const std::string missing = out.is_by_ip()
                                  ? needs({"id_ext", "ioc_guid"})
                                  : needs({"id_ext", "ioc_guid", "dgid", "pkey", "service_id"});
  if (missing.empty()) return out;
  return refuse(EINVAL, fmt::format("missing: {}{}", missing,
                                    out.is_by_ip() ? "" : " (or dest=IP:PORT instead)"));
}

std::string text_of(const AddTarget& target) {
  std::string text = fmt::format("id_ext={:016x},ioc_guid={:016x}", target.extension, target.guid);
  if (target.is_by_ip()) {
    text += fmt::format(",dest={}", target.to.text());
  } else {
    const ByteSpan gid = std::as_bytes(std::span(target.gid->bytes));
    text += fmt::format(",dgid={:016x}{:016x},pkey={:04x},service_id={:016x}",
                        load_be<std::uint64_t>(gid.data()), load_be<std::uint64_t>(&gid[8]),
                        raw(target.pkey), *target.service);
  }
  if (target.initiator_extension != 0)
    text += fmt::format(",initiator_ext={:016x}", target.initiator_extension);
  return text;
}

InitiatorSettings settings_for(const AddTarget& target, std::uint64_t guid) {
  constexpr std::uint32_t kRequestsMax = 255, kMessageBytesMax = 8260, kSector = 512;
  InitiatorSettings settings{
      .form = target.is_by_ip() ? LoginForm::rdma_cm : LoginForm::infiniband_cm,
      .request_bytes = std::min(target.message_bytes, kMessageBytesMax),
      .requests = static_cast<std::uint16_t>(
          std::min({target.requests, target.unit_requests + 2, kRequestsMax})),
      .transfer_bytes_max = std::min(target.sectors_max, 0x10000u) * kSector};
  store_be(settings.initiator.data(), target.initiator_extension);
  store_be(&settings.initiator[8], guid);
  store_be(settings.target.data(), target.extension);
  store_be(&settings.target[8], target.guid);
  return settings;
}

}  // namespace verbatim::ulp::srp
