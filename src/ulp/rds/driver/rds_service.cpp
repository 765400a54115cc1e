#include "ulp/rds/driver/rds_service.h"

#include <cerrno>
#include <cstdlib>
#include <memory>
#include <string>
#include <string_view>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "service/daemon.h"
#include "service/folder.h"
#include "ulp/rds/driver/node.h"

namespace verbatim::ulp::rds {
namespace {

/// Ends a broker that nobody has asked for by `verbatim rds up`, when its last program has and no
/// peer sends anything.
class Idleness final : public service::Source {
 public:
  static constexpr TimeNs kPatience = 2 * kSecond, kPatienceWithPeers = 5 * kSecond;
  Idleness(service::Loop& loop, Node& node) : loop_(loop), node_(node) { loop_.add(*this); }
  ~Idleness() { loop_.remove(*this); }
  TimeNs deadline() const override { return next_; }
  void on_time(TimeNs now) override {
    const std::uint64_t activity = node_.activity();  // Of what comes and goes between looks.
    if (!node_.is_idle() || activity != activity_) idle_since_ = now;
    activity_ = activity;
    if (elapsed(idle_since_, now) >= (node_.has_peers() ? kPatienceWithPeers : kPatience)) {
      node_.admit_no_more();  // A program that comes now finds the next broker.
      loop_.stop();
    }
    next_ = now + kPatience / 4;
  }

 private:
  service::Loop& loop_;
  Node& node_;
  std::uint64_t activity_ = 0;
  TimeNs next_ = loop_.now();
  TimeNs idle_since_ = loop_.now();
};

/// Programs pass messages on by themselves where queue pairs have the direct path, not where
/// messages are to be packets.
bool has_direct_path() {
  const char* const path = getenv("VERBATIM_PATH");
  const char* const faults = getenv("VERBATIM_FAULT");
  return (path == nullptr || std::string_view(path) != "wire") &&
         (faults == nullptr || *faults == '\0');
}

class RdsService {
 public:
  Result<void> open(service::Daemon& daemon, bool ends_idle) {
    const auto folder = service::RuntimeFolder::open();
    if (!folder) return std::unexpected(folder.error());
    const auto path = fmt::format("{}/ulp+rds+{}.programs", folder->path(), daemon.name());
    if (auto fits = service::check_plain_path(path); !fits) return fits;
    auto node = Node::create(daemon.loop(), path, has_direct_path());
    if (!node) return std::unexpected(node.error());
    node_ = std::move(*node);
    if (ends_idle) idleness_ = std::make_unique<Idleness>(daemon.loop(), *node_);
    // A broker that is asked for stays, although a program has started it.
    daemon.control().on("stay", [this](const nlohmann::json&) {
      idleness_.reset();
      return nlohmann::json::object();
    });
    daemon.on_status([this] { return node_->status(); });
    daemon.on_stop([this] { node_->stop(); }, [this] { return is_stopped(); });
    return {};
  }

 private:
  /// The loop outlives it.
  bool is_stopped() {
    if (node_ == nullptr) return true;
    if (!node_->is_stopped()) return false;
    idleness_.reset();
    node_.reset();
    return true;
  }

  std::unique_ptr<Node> node_;
  std::unique_ptr<Idleness> idleness_;
};

}  // namespace

int run_rds(int argc, char** argv) {
  std::string until_idle;
  const service::Setting known[] = {
      {"until-idle", "yes", "", "ends when no program has an RDS socket any more", &until_idle}};
  RdsService rds;
  return service::run_daemon(
      {.program = "verbatim-ulpd rds",
       .kind = "rds",
       .summary = "the broker of a node's RDS sockets",
       .settings = known},
      argc, argv, [&](service::Daemon& daemon) { return rds.open(daemon, !until_idle.empty()); });
}

}  // namespace verbatim::ulp::rds
