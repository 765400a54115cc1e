#include "ulp/sdp/rules.h"

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <optional>
#include <utility>

#include <fmt/format.h>
#include <fnmatch.h>

namespace verbatim::ulp::sdp {
namespace {

template <typename Value>
using Word = std::pair<std::string_view, Value>;
constexpr std::array kCarriers = {
    Word<Carrier>{"tcp", Carrier::tcp}, Word<Carrier>{"sdp", Carrier::sdp},
    Word<Carrier>{"both", Carrier::both}, Word<Carrier>{"rsocket", Carrier::rsocket}};
constexpr std::array kRoles = {
    Word<Role>{"server", Role::server}, Word<Role>{"listen", Role::server},
    Word<Role>{"client", Role::client}, Word<Role>{"connect", Role::client}};

template <typename Words>
auto find(const Words& words, std::string_view text) {
  const auto found = std::ranges::find(words, text, [](const auto& word) { return word.first; });
  return found == words.end() ? std::nullopt : std::optional(found->second);
}

std::vector<std::string_view> words_of(std::string_view line) {
  constexpr std::string_view kBlank = " \t\r";
  line = line.substr(0, line.find('#'));
  std::vector<std::string_view> words;
  for (std::size_t at = line.find_first_not_of(kBlank); at != std::string_view::npos;) {
    const std::size_t end = std::min(line.find_first_of(kBlank, at), line.size());
    words.push_back(line.substr(at, end - at));
    at = line.find_first_not_of(kBlank, end);
  }
  return words;
}

template <typename Number>
std::optional<Number> number_of(std::string_view text) {
  Number number{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return number;
}

std::unexpected<Error> wrong(std::string_view what, std::string_view word) {
  return refuse(EINVAL, fmt::format("{}: '{}'", what, word));
}

bool have_in_common(const std::array<std::uint8_t, 16>& a, const std::array<std::uint8_t, 16>& b,
                    unsigned bits) {
  for (unsigned i = 0; i < bits / 8; ++i) {
    if (a[i] != b[i]) return false;
  }
  const unsigned rest = bits % 8;
  return rest == 0 || (a[bits / 8] ^ b[bits / 8]) >> (8 - rest) == 0;
}

bool is_mapped(const std::array<std::uint8_t, 16>& ip) {
  return std::all_of(ip.begin(), ip.begin() + 10, [](std::uint8_t byte) { return byte == 0; }) &&
         ip[10] == 0xff && ip[11] == 0xff;
}

}  // namespace

const char* name_of(Carrier carrier) {
  switch (carrier) {
    case Carrier::tcp:
      return "TCP";
    case Carrier::sdp:
      return "SDP";
    case Carrier::both:
      return "SDP and TCP";
    case Carrier::rsocket:
      return "rsockets";
  }
  return "";
}

Result<void> Rules::parse_ports(std::string_view text, Rule& rule) {
  if (text == "*") return {};
  const std::size_t dash = text.find('-');
  const auto first = number_of<std::uint16_t>(text.substr(0, dash));
  const auto last =
      dash == std::string_view::npos ? first : number_of<std::uint16_t>(text.substr(dash + 1));
  if (!first || !last || *last < *first) return wrong("no port or range of ports", text);
  rule.first_port = *first;
  rule.last_port = *last;
  return {};
}

Result<void> Rules::parse_place(std::string_view text, Rule& rule) {
  const std::size_t colon = text.rfind(':');
  if (colon == std::string_view::npos) return wrong("no port after the address", text);
  if (auto ports = parse_ports(text.substr(colon + 1), rule); !ports) return ports;
  std::string_view place = text.substr(0, colon);
  if (place == "*") return {};
  const std::size_t slash = place.find('/');
  std::string_view ip = place.substr(0, slash);
  if (ip.starts_with('[') && ip.ends_with(']')) ip = ip.substr(1, ip.size() - 2);
  const auto address = SocketAddress::parse(ip);
  if (!address) return wrong("no address", place);
  const unsigned most = address->is_ipv4() ? 32 : 128;
  const auto bits =
      slash == std::string_view::npos ? most : number_of<unsigned>(place.substr(slash + 1));
  if (!bits || *bits > most) return wrong("no length of a network", place);
  rule.is_any_address = false;
  rule.is_ipv6 = address->is_ipv6();
  rule.address = address->ipv6_bytes();
  rule.bits = *bits + 128 - most;
  return {};
}

Result<Rules::Rule> Rules::parse_use(const std::vector<std::string_view>& words) {
  if (words.size() != 5) {
    return wrong("not of the form 'use CARRIER ROLE PROGRAM ADDRESS:PORT'", words.front());
  }
  const auto carrier = find(kCarriers, words[1]);
  if (!carrier) return wrong("none of tcp, sdp, both and rsocket", words[1]);
  const auto role = find(kRoles, words[2]);
  if (!role) return wrong("none of server, listen, client and connect", words[2]);
  Rule rule{.carrier = *carrier, .role = *role, .program = std::string(words[3])};
  if (auto place = parse_place(words[4], rule); !place) return std::unexpected(place.error());
  return rule;
}

Result<void> Rules::parse_log(const std::vector<std::string_view>& words) {
  for (std::size_t i = 1; i < words.size();) {
    if (words[i] == "destination" && i + 1 < words.size()) {
      i += words[i + 1] == "file" ? 3 : 2;  // Lines go where the program's errors go.
    } else if (words[i] == "min-level" && i + 1 < words.size()) {
      const auto level = number_of<int>(words[i + 1]);
      if (!level || *level < 1 || *level > 9) return wrong("no level from 1 to 9", words[i + 1]);
      log_level_ = *level;
      i += 2;
    } else {
      return wrong("neither destination nor min-level", words[i]);
    }
  }
  return {};
}

Result<Rules> Rules::parse(std::string_view text) {
  Rules rules;
  for (std::size_t line = 1; !text.empty(); ++line) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    const auto words = words_of(text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
    if (words.empty()) continue;
    Result<void> read;
    if (words.front() == "use") {
      auto rule = parse_use(words);
      if (rule) rules.rules_.push_back(std::move(*rule));
      if (!rule) read = std::unexpected(rule.error());
    } else if (words.front() == "log") {
      read = rules.parse_log(words);
    } else {
      read = wrong("neither 'use' nor 'log'", words.front());
    }
    if (!read) return refuse(EINVAL, fmt::format("line {}: {}", line, read.error().text));
  }
  return rules;
}

bool Rules::fits(const Rule& rule, const SocketAddress& address) {
  if (address.port() < rule.first_port || address.port() > rule.last_port) return false;
  if (rule.is_any_address) return true;
  const auto ip = address.ipv6_bytes();
  const bool is_ipv6 = address.is_ipv6() && !is_mapped(ip);
  return is_ipv6 == rule.is_ipv6 && have_in_common(ip, rule.address, rule.bits);
}

Carrier Rules::match(Role role, const std::string& program, const SocketAddress& address) const {
  for (const Rule& rule : rules_) {
    const bool fits_program = fnmatch(rule.program.c_str(), program.c_str(), 0) == 0;
    if (rule.role == role && fits_program && fits(rule, address)) return rule.carrier;
  }
  return Carrier::both;
}

}  // namespace verbatim::ulp::sdp
