#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "ulp/ipoib/driver/link.h"

namespace verbatim::ulp::ipoib {

nlohmann::json Link::status() const {
  nlohmann::json neighbours = nlohmann::json::array(), groups = nlohmann::json::array();
  nlohmann::json connections = nlohmann::json::array();
  nlohmann::json all{{"interface", interface_.name()},
                     {"mode", options_.is_connected ? "connected" : "datagram"},
                     {"port", options_.port},
                     {"pkey", fmt::format("{:#06x}", raw(options_.pkey))},
                     {"carrier", has_carrier_},
                     {"mtu", mtu_},
                     {"address", own_.text()},
                     {"gid", gid_text(own_.gid)},
                     {"lid", raw(lid_)},
                     {"queue_pair", own_.qpn.value()}};
  if (!why_.empty()) all["why"] = why_;
  SenderCounters sender;
  if (sender_) {
    sender = sender_->counters();
    for (const auto& one : sender_->neighbours().shown()) {
      neighbours.push_back({{"ip", one.ip.ip_text()}, {"state", one.state}});
      if (one.address != HardwareAddress{}) neighbours.back()["address"] = one.address.text();
    }
    for (const auto& one : sender_->groups().shown()) {
      groups.push_back(
          {{"gid", gid_text(one.group)}, {"joined", one.is_ready}, {"receives", one.receives}});
    }
    for (const auto& one : sender_->connections().shown()) {
      connections.push_back({{"address", one.address.text()}, {"state", one.state}});
      if (one.mtu > 0) connections.back()["mtu"] = one.mtu;
    }
  }
  if (options_.is_connected) {
    all["connections"] = std::move(connections);
    all["connections_of_peers"] = connected_ ? connected_->arrivals() : 0;
    all["datagram_mtu"] = datagram_mtu_;
  }
  all["neighbours"] = std::move(neighbours);
  all["groups"] = std::move(groups);
  all["counters"] = {{"received", counters_.received},
                     {"received_bytes", counters_.received_bytes},
                     {"sent", counters_.sent},
                     {"sent_bytes", counters_.sent_bytes},
                     {"connected_sent", counters_.connected_sent},
                     {"connected_received", counters_.connected_received},
                     {"cut", counters_.cut},
                     {"merged", counters_.merged},
                     {"malformed", counters_.malformed},
                     {"kernel_full", counters_.kernel_full},
                     {"no_room", sender.no_room + queue_->dropped()},
                     {"too_long", sender.too_long},
                     {"unreachable", sender.unreachable}};
  return all;
}

}  // namespace verbatim::ulp::ipoib
