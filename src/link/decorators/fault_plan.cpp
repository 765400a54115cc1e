#include "link/decorators/fault_plan.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <utility>

#include <fmt/format.h>

namespace verbatim::link {
namespace {

constexpr TimeNs kDelayMax = 10 * kSecond;
constexpr std::string_view kListSeparator = "+";

struct Unit {
  std::string_view name;
  TimeNs time;
};
/// The longest unit first: `text` uses the first one that divides the time.
constexpr std::array kUnits =
    std::to_array<Unit>({{"s", kSecond}, {"ms", kMillisecond}, {"us", kMicrosecond}, {"ns", 1}});

struct VerbName {
  std::string_view name;
  wire::Verb verb;
};
constexpr std::array kVerbNames = std::to_array<VerbName>({
    {"send", wire::Verb::send},
    {"write", wire::Verb::write},
    {"read", wire::Verb::read_request},
    {"read-response", wire::Verb::read_response},
    {"ack", wire::Verb::acknowledge},
    {"atomic-ack", wire::Verb::atomic_acknowledge},
    {"compare-swap", wire::Verb::compare_swap},
    {"fetch-add", wire::Verb::fetch_add},
    {"flush", wire::Verb::flush},
    {"atomic-write", wire::Verb::atomic_write},
});

std::unexpected<Error> refuse_value(std::string_view key, std::string_view value,
                                    std::string_view what_to_write) {
  return refuse(EINVAL, fmt::format("fault '{}={}': {}", key, value, what_to_write));
}

/// Parses a decimal number with at most `digits` digits after the point; returns it times
/// 10^digits.
std::optional<std::uint64_t> parse_decimal(std::string_view text, int digits) {
  std::uint64_t value = 0;
  int behind_point = -1;
  if (text.empty() || text.front() == '.' || text.back() == '.') return std::nullopt;
  for (const char c : text) {
    if (c == '.' && behind_point < 0) {
      behind_point = 0;
      continue;
    }
    if (c < '0' || c > '9' || behind_point == digits || value > 1'000'000'000'000) {
      return std::nullopt;
    }
    value = value * 10 + static_cast<unsigned>(c - '0');
    if (behind_point >= 0) ++behind_point;
  }
  for (int i = std::max(behind_point, 0); i < digits; ++i) value *= 10;
  return value;
}

/// Returns `value` / 10^digits as a decimal number without trailing zeros.
std::string decimal_text(std::uint64_t value, int digits) {
  std::uint64_t one = 1;
  for (int i = 0; i < digits; ++i) one *= 10;
  std::string text = fmt::format("{}", value / one);
  if (value % one == 0) return text;
  text += fmt::format(".{:0{}}", value % one, digits);
  text.erase(text.find_last_not_of('0') + 1);
  return text;
}

/// Digits after the point of a percentage in parts of a billion.
constexpr int kRateDigits = 7;

Result<void> set_rate(std::string_view key, std::string_view value, Rate& rate) {
  const auto parts = value.ends_with('%')
                         ? parse_decimal(value.substr(0, value.size() - 1), kRateDigits)
                         : std::nullopt;
  if (!parts || *parts > Rate::kOne) {
    return refuse_value(key, value,
                        "write a share of all packets, 0% to 100%, as in '1%' or '0.01%'");
  }
  rate.parts = static_cast<std::uint32_t>(*parts);
  return {};
}

std::optional<TimeNs> parse_time(std::string_view text) {
  const auto unit_at = text.find_first_not_of("0123456789.");
  if (unit_at == std::string_view::npos) return std::nullopt;
  const auto unit = std::ranges::find(kUnits, text.substr(unit_at), &Unit::name);
  const auto thousandths = parse_decimal(text.substr(0, unit_at), 3);
  if (unit == kUnits.end() || !thousandths) return std::nullopt;
  if (*thousandths > kDelayMax * 1000 / unit->time) return std::nullopt;
  return *thousandths * unit->time / 1000;
}

std::string time_text(TimeNs time) {
  const auto unit =
      std::ranges::find_if(kUnits, [time](const Unit& one) { return time % one.time == 0; });
  return fmt::format("{}{}", time / unit->time, unit->name);
}

Result<void> set_delay(std::string_view key, std::string_view value, FaultPlan& plan) {
  const auto dots = value.find("..");
  const bool is_range = dots != std::string_view::npos;
  const auto low = parse_time(value.substr(0, dots));
  const auto high = is_range ? parse_time(value.substr(dots + 2)) : low;
  if (!low || !high || *low > *high) {
    return refuse_value(key, value,
                        "write a time or a range with units (ns, us, ms, s) up to 10s, as in "
                        "'500us' or '100us..1ms'");
  }
  plan.delay_min = *low;
  plan.delay_max = *high;
  return {};
}

Result<void> set_seed(std::string_view key, std::string_view value, FaultPlan& plan) {
  std::uint64_t seed = 0;
  const auto [end, failure] = std::from_chars(value.data(), value.data() + value.size(), seed);
  if (failure != std::errc() || end != value.data() + value.size()) {
    return refuse_value(key, value, "write a number from 0 to 18446744073709551615, as in '7'");
  }
  plan.seed = seed;
  return {};
}

Result<void> set_direction(std::string_view key, std::string_view value, FaultPlan& plan) {
  const bool both = value == "both";
  if (!both && value != "send" && value != "receive") {
    return refuse_value(key, value, "write 'send', 'receive' or 'both'");
  }
  plan.on_send = both || value == "send";
  plan.on_receive = both || value == "receive";
  return {};
}

/// Calls `add(word)`, which may refuse, for each word of a list such as "send+write".
template <typename Add>
Result<void> for_each_word(std::string_view list, Add add) {
  while (true) {
    const auto end = list.find(kListSeparator);
    if (auto added = add(list.substr(0, end)); !added) return added;
    if (end == std::string_view::npos) return {};
    list.remove_prefix(end + 1);
  }
}

Result<void> set_peers(std::string_view key, std::string_view value, FaultPlan& plan) {
  plan.peers.clear();
  return for_each_word(value, [&](std::string_view word) -> Result<void> {
    const auto address = SocketAddress::parse(word);
    if (!address) {
      return refuse_value(key, value,
                          "write IP addresses, as in '127.0.0.2' or '10.0.0.1+fd00::2'");
    }
    plan.peers.push_back(*address);
    return {};
  });
}

Result<void> set_verbs(std::string_view key, std::string_view value, FaultPlan& plan) {
  plan.verbs.clear();
  return for_each_word(value, [&](std::string_view word) -> Result<void> {
    const auto found = std::ranges::find(kVerbNames, word, &VerbName::name);
    if (found == kVerbNames.end()) {
      std::string names;
      for (const auto& [name, verb] : kVerbNames) names += fmt::format(" {}", name);
      return refuse_value(key, value, "write one or more, with '+' between them, of" + names);
    }
    plan.verbs.push_back(found->verb);
    return {};
  });
}

Result<void> set(std::string_view key, std::string_view value, FaultPlan& plan) {
  if (key == "loss") return set_rate(key, value, plan.loss);
  if (key == "duplicate") return set_rate(key, value, plan.duplicate);
  if (key == "reorder") return set_rate(key, value, plan.reorder);
  if (key == "corrupt") return set_rate(key, value, plan.corrupt);
  if (key == "delay") return set_delay(key, value, plan);
  if (key == "seed") return set_seed(key, value, plan);
  if (key == "direction") return set_direction(key, value, plan);
  if (key == "peer") return set_peers(key, value, plan);
  if (key == "opcode") return set_verbs(key, value, plan);
  return refuse(EINVAL, fmt::format("there is no fault '{}': write loss, delay, duplicate, reorder "
                                    "or corrupt; seed, direction, peer or opcode",
                                    key));
}

/// Mixes 64 bits (splitmix64's finalizer): each bit of the result depends on all of `x`.
constexpr std::uint64_t mixed(std::uint64_t x) {
  x += 0x9e3779b97f4a7c15;
  x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9;
  x = (x ^ x >> 27) * 0x94d049bb133111eb;
  return x ^ x >> 31;
}

/// The random numbers of one packet.
class Draws {
 public:
  Draws(std::uint64_t seed, const PacketIdentity& packet)
      : state_(mixed(mixed(mixed(seed) ^ (std::uint64_t{packet.flow} << 32 |
                                          static_cast<std::uint32_t>(packet.offset))) ^
                     (std::uint64_t{packet.attempt} << 16 |
                      static_cast<std::uint64_t>(std::to_underlying(packet.opcode)) << 8 |
                      static_cast<std::uint64_t>(packet.direction)))) {}
  std::uint64_t next() { return state_ = mixed(state_); }
  bool hits(Rate rate) { return (next() >> 32) * Rate::kOne >> 32 < rate.parts; }

 private:
  std::uint64_t state_;
};

}  // namespace

Result<FaultPlan> FaultPlan::parse(std::string_view text) {
  FaultPlan plan;
  if (text == "off") return plan;
  std::string_view rest = text;
  while (true) {
    const auto end = rest.find(',');
    const auto entry = rest.substr(0, end);
    const auto equals = entry.find('=');
    if (equals == std::string_view::npos) {
      return refuse(EINVAL, fmt::format("fault '{}' has no value: write it as in "
                                        "'loss=1%,delay=100us..1ms,seed=7', or 'off'",
                                        entry));
    }
    if (auto is_set = set(entry.substr(0, equals), entry.substr(equals + 1), plan); !is_set) {
      return std::unexpected(is_set.error());
    }
    if (end == std::string_view::npos) break;
    rest.remove_prefix(end + 1);
  }
  if (plan.on_receive && (plan.delay_max != 0 || plan.reorder.parts != 0)) {
    return refuse(EINVAL,
                  "delay and reorder act on what a node sends: leave 'direction' out, and tell it "
                  "the peer's node instead");
  }
  if (plan.is_off()) return FaultPlan{};  // Rates of 0, whatever else the text says.
  return plan;
}

Result<void> FaultPlan::check_for_infiniband() const {
  if (duplicate.parts != 0 || reorder.parts != 0 || delay_max != 0) {
    return refuse(
        EOPNOTSUPP,
        "links of InfiniBand keep packets in order and send none twice: they lose packets "
        "('loss') and damage them ('corrupt'); the length of a cable is its delay");
  }
  if (peers.empty()) return {};
  return refuse(EOPNOTSUPP, "packets of InfiniBand have no IP addresses: leave 'peer' out");
}

std::string FaultPlan::text() const {
  if (is_off()) return "off";
  std::string text;
  const auto add = [&text](std::string_view key, const std::string& value) {
    text += fmt::format("{}{}={}", text.empty() ? "" : ",", key, value);
  };
  const auto add_rate = [&add](std::string_view key, Rate rate) {
    if (rate.parts != 0) add(key, decimal_text(rate.parts, kRateDigits) + "%");
  };
  add_rate("loss", loss);
  if (delay_max != 0) {
    add("delay", delay_min == delay_max
                     ? time_text(delay_max)
                     : fmt::format("{}..{}", time_text(delay_min), time_text(delay_max)));
  }
  add_rate("duplicate", duplicate);
  add_rate("reorder", reorder);
  add_rate("corrupt", corrupt);
  if (seed) add("seed", fmt::format("{}", *seed));
  if (on_receive) add("direction", on_send ? "both" : "receive");
  std::string list;
  for (const auto& peer : peers) list += (list.empty() ? "" : "+") + peer.ip_text();
  if (!list.empty()) add("peer", list);
  list.clear();
  for (const wire::Verb verb : verbs) {
    list += (list.empty() ? "" : "+");
    list += std::ranges::find(kVerbNames, verb, &VerbName::verb)->name;
  }
  if (!list.empty()) add("opcode", list);
  return text;
}

bool FaultPlan::chooses(Direction direction, const SocketAddress& peer, wire::Opcode opcode) const {
  if (!(direction == Direction::send ? on_send : on_receive)) return false;
  const auto is_peer = [&peer](const SocketAddress& one) { return same_ip(one, peer); };
  if (!peers.empty() && std::ranges::none_of(peers, is_peer)) return false;
  const wire::OpcodeInfo& info = wire::info(opcode);
  return verbs.empty() || (info.known && std::ranges::find(verbs, info.verb) != verbs.end());
}

FaultDecision FaultPlan::decide(const PacketIdentity& packet) const {
  Draws draws(seed.value_or(0), packet);
  FaultDecision decision;
  // Every packet draws the same numbers, whatever the rates are: so changing one rate does not
  // change the packets that others hit.
  decision.lose = draws.hits(loss);
  decision.duplicate = draws.hits(duplicate);
  decision.reorder = draws.hits(reorder);
  decision.corrupt = draws.hits(corrupt);
  const std::uint64_t delay_draw = draws.next();
  if (delay_max != 0) decision.delay = delay_min + delay_draw % (delay_max - delay_min + 1);
  decision.random = draws.next();
  return decision;
}

}  // namespace verbatim::link
