#include "ulp/lnet/driver/lnet_service.h"

#include <cerrno>
#include <charconv>
#include <map>
#include <memory>
#include <optional>
#include <random>
#include <span>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "base/text/list.h"
#include "service/daemon.h"
#include "ulp/lnet/driver/links.h"
#include "ulp/lnet/self_tests.h"

namespace verbatim::ulp::lnet {
namespace {

constexpr std::uint32_t kBuffers = 32;
constexpr std::size_t kPingsMax = 256;

struct Settings {
  std::string nets = "o2ib", routes, port = "987";
};

/// The addresses of RoCE and iWARP nodes, by their GIDs.
std::vector<Nid> nids_of(const rdma::Device& device, Net net) {
  std::vector<Nid> nids;
  for (const Gid& gid : device.port().gids) {
    const ByteSpan bytes = std::as_bytes(std::span(gid.bytes));
    const bool is_ipv4 = load_be<std::uint64_t>(bytes.data()) == 0 &&
                         load_be<std::uint32_t>(bytes.data() + 8) == 0xffff;
    if (is_ipv4) nids.push_back(make_nid(net, load_be<std::uint32_t>(bytes.data() + 12)));
  }
  return nids;
}

/// "o2ib1" or "o2ib1=10.0.0.1".
Result<Nid> parse_own(const std::string& word, const rdma::Device& device) {
  const std::size_t at = word.find('=');
  const auto net = parse_net(std::string_view(word).substr(0, at));
  if (!net) return refuse(EINVAL, fmt::format("a network is o2ib, o2ib1, ..., not '{}'", word));
  if (at != word.npos) {
    const auto nid = parse_nid(word.substr(at + 1) + "@" + text_of(*net));
    if (!nid) return refuse(EINVAL, fmt::format("'{}' has no IPv4 address after the =", word));
    return *nid;
  }
  const auto nids = nids_of(device, *net);
  if (nids.empty())
    return refuse(
        EADDRNOTAVAIL,
        fmt::format("which IPv4 address does this node have? Say --net {}=ADDRESS", word));
  return nids.front();
}

Result<std::vector<Nid>> parse_nets(const std::string& nets, const rdma::Device& device) {
  std::vector<Nid> own;
  for (const std::string& word : split(nets)) {
    const auto nid = parse_own(word, device);
    if (!nid) return std::unexpected(nid.error());
    for (const Nid other : own) {
      if (other.net() == nid->net())
        return refuse(EINVAL, fmt::format("{} is said twice", text_of(nid->net())));
    }
    own.push_back(*nid);
  }
  if (own.empty()) return refuse(EINVAL, "a node is at one network at least");
  return own;
}

/// "o2ib1=10.0.0.1@o2ib"
Result<std::vector<Route>> parse_routes(const std::string& routes) {
  std::vector<Route> parsed;
  for (const std::string& word : split(routes)) {
    const std::size_t at = word.find('=');
    const auto net = parse_net(std::string_view(word).substr(0, at));
    const auto gateway = at == word.npos ? std::nullopt : parse_nid(word.substr(at + 1));
    if (!net || !gateway)
      return refuse(EINVAL,
                    fmt::format("a route is NET=GATEWAY, as o2ib1=10.0.0.1@o2ib, not '{}'", word));
    parsed.push_back({*net, *gateway});
  }
  return parsed;
}

Result<std::uint16_t> parse_port(const std::string& text) {
  std::uint16_t port = 0;
  const auto [rest, error] = std::from_chars(text.data(), text.data() + text.size(), port);
  if (error == std::errc() && rest == text.data() + text.size() && port > 0) return port;
  return refuse(EINVAL, fmt::format("a port is 1 to 65535, not '{}'", text));
}

std::uint64_t new_stamp() {
  std::random_device random;
  return (std::uint64_t{random()} << 32 | random()) | 1;
}

/// A ping that was asked for, or its answer.
struct Ping {
  TimeNs began = 0, ended = 0;
  std::string words;
  std::optional<PingInfo> info;
};

class LnetService {
 public:
  Result<void> open(const Settings& settings, service::Daemon& daemon) {
    auto links = Links::create(kBuffers);
    if (!links) return std::unexpected(links.error());
    links_ = std::move(*links);
    auto own = parse_nets(settings.nets, links_->driver().device());
    auto routes = parse_routes(settings.routes);
    if (!routes) return std::unexpected(routes.error());
    if (!own) return std::unexpected(own.error());
    node_.emplace(NodeSettings{std::move(*own), std::move(*routes), new_stamp()},
                  links_->buffers());
    self_test_.emplace(*node_);
    const auto port = parse_port(settings.port);
    if (!port) return std::unexpected(port.error());
    if (auto served = links_->serve(*node_, *port, daemon.loop()); !served) return served;
    service::Loop& loop = daemon.loop();
    daemon.on_status([this] { return status(); });
    daemon.on_stop([this, &loop] { links_->driver().disconnect_all(loop.now()); },
                   [this] { return links_->driver().connection_count() == 0; });
    daemon.control().on("ping", [this, &loop](const nlohmann::json& question) {
      return ping(question, loop.now());
    });
    daemon.control().on("test", [this, &loop](const nlohmann::json& question) {
      return test(question, loop.now());
    });
    daemon.control().on("result",
                        [this](const nlohmann::json& question) { return result(question); });
    return {};
  }

 private:
  static Result<Nid> nid_of(const nlohmann::json& question) {
    const std::string text = question.value("nid", "");
    const auto nid = parse_nid(text);
    if (nid) return *nid;
    return refuse(EINVAL, fmt::format("a NID is ADDRESS@o2ib, not '{}'", text));
  }

  Result<nlohmann::json> ping(const nlohmann::json& question, TimeNs now) {
    const auto nid = nid_of(question);
    if (!nid) return std::unexpected(nid.error());
    if (pings_.size() >= kPingsMax) pings_.erase(pings_.begin());
    const std::uint64_t number = ++last_ping_;
    pings_[number].began = now;
    node_->get(
        *nid, kReservedPortal, kPingBits, kPingBytesMax, std::nullopt,
        [this, number](ByteSpan payload, const std::string& words, TimeNs at) {
          const auto found = pings_.find(number);
          if (found == pings_.end()) return;
          found->second.ended = at;
          found->second.info = decode_ping_info(payload);
          found->second.words =
              words.empty() && !found->second.info ? "its answer is no ping's" : words;
        },
        now);
    links_->flush(now);
    return nlohmann::json{{"number", number}};
  }

  Result<nlohmann::json> test(const nlohmann::json& question, TimeNs now) {
    const auto nid = nid_of(question);
    if (!nid) return std::unexpected(nid.error());
    TestPlan plan{.server = *nid};
    const std::string what = question.value("what", "ping"),
                      check = question.value("check", "full");
    plan.service = what == "ping" ? TestService::ping : TestService::bulk;
    plan.kind = what == "write" ? BulkKind::write : BulkKind::read;
    plan.check = check == "none"     ? BulkCheck::none
                 : check == "simple" ? BulkCheck::simple
                                     : BulkCheck::full;
    plan.bytes = question.value("bytes", plan.bytes);
    plan.requests = question.value("requests", plan.requests);
    plan.concurrency = question.value("concurrency", plan.concurrency);
    if (plan.bytes % 4096 != 0 || plan.bytes == 0 || plan.bytes > Buffers::kBytes)
      return refuse(EINVAL, fmt::format("a bulk has 4096 to {} bytes, in pages", Buffers::kBytes));
    if (plan.requests == 0) return refuse(EINVAL, "a test has a request at least");
    if (plan.concurrency == 0 || plan.concurrency > kBuffers / 2)
      return refuse(EINVAL, fmt::format("the concurrency is 1 to {}", kBuffers / 2));
    if (!self_test_->client().begin(plan, now)) return refuse(EBUSY, "a test runs already");
    links_->flush(now);
    return nlohmann::json{{"number", 0}};
  }

  Result<nlohmann::json> result(const nlohmann::json& question) {
    const std::uint64_t number = question.value("number", std::uint64_t{0});
    if (number == 0) {
      const TestResult& test = self_test_->client().result();
      return nlohmann::json{{"over", test.is_over},
                            {"done", test.done},
                            {"errors", test.errors},
                            {"nanoseconds", test.ended - test.began},
                            {"words", test.words}};
    }
    const auto found = pings_.find(number);
    if (found == pings_.end()) return refuse(ENOENT, "no such ping is known any more");
    const Ping& ping = found->second;
    nlohmann::json answer{
        {"over", ping.ended != 0}, {"words", ping.words}, {"nanoseconds", ping.ended - ping.began}};
    if (ping.info) {
      nlohmann::json ends = nlohmann::json::array();
      for (const PingInfo::End& end : ping.info->ends)
        ends.push_back({{"nid", text_of(end.nid)}, {"up", end.is_up}});
      answer["routes"] = (ping.info->features & kRoutesNothing) == 0;
      answer["ends"] = std::move(ends);
    }
    if (ping.ended != 0) pings_.erase(found);
    return answer;
  }

  nlohmann::json status() const {
    nlohmann::json nids = nlohmann::json::array(), peers = nlohmann::json::array(),
                   incidents = nlohmann::json::array();
    for (const Nid nid : node_->settings().own) nids.push_back(text_of(nid));
    for (const Node::PeerState& peer : node_->peers()) {
      peers.push_back({{"nid", text_of(peer.nid)},
                       {"connected", peer.is_connected},
                       {"waiting", peer.waiting},
                       {"credits", peer.credits},
                       {"words", peer.words}});
    }
    for (const Incident& one : links_->incidents())
      incidents.push_back({{"peer", one.peer}, {"words", one.words}});
    const SelfTestServer::Counters& served = self_test_->server().counters();
    return {{"nids", std::move(nids)},
            {"forwards", node_->forwards()},
            {"peers", std::move(peers)},
            {"received", node_->counters().received.messages},
            {"forwarded", node_->counters().forwarded.messages},
            {"dropped", node_->counters().dropped.messages},
            {"self_test",
             {{"session", self_test_->server().has_session()},
              {"pings", served.pings},
              {"reads", served.reads},
              {"writes", served.writes},
              {"errors", served.errors}}},
            {"incidents", std::move(incidents)}};
  }

  std::unique_ptr<Links> links_;
  std::optional<Node> node_;
  std::optional<SelfTest> self_test_;
  std::map<std::uint64_t, Ping> pings_;
  std::uint64_t last_ping_ = 0;
};

}  // namespace

int run_lnet(int argc, char** argv) {
  Settings settings;
  const service::Setting known[] = {
      {"net", "NET[=ADDRESS],...", "", "the networks it is at (default: o2ib, its first address)",
       &settings.nets},
      {"route", "NET=NID,...", "", "which node leads to another network", &settings.routes},
      {"port", "PORT", "", "of all nodes (default: 987)", &settings.port}};
  LnetService lnet;
  return service::run_daemon({.program = "verbatim-ulpd lnet",
                              .kind = "lnet",
                              .summary = "a node of Lustre's network",
                              .settings = known},
                             argc, argv,
                             [&](service::Daemon& daemon) { return lnet.open(settings, daemon); });
}

}  // namespace verbatim::ulp::lnet
