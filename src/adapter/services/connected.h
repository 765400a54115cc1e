#pragma once

#include <cstdint>
#include <optional>

#include "adapter/queue_pair/core/core.h"
#include "adapter/queue_pair/core/direct_end.h"
#include "adapter/services/effects.h"
#include "adapter/services/service.h"
#include "adapter/services/xrc_target.h"
#include "base/net/path.h"
#include "base/time.h"
#include "port/burst.h"
#include "port/route.h"
#include "transport/effects.h"
#include "transport/ib/path_migration.h"
#include "transport/ib/requester/requester.h"
#include "transport/ib/responder/responder.h"
#include "wire/ib/packet.h"

namespace verbatim::adapter::services {

/// RC, UC and XRC: a requester and a responder, and the packets between them and the peer's. On the
/// direct path requests do not come to the requester; what the responder owes still leaves.
class Connected {
 public:
  Connected(QueuePairCore& core, DirectEnd& direct);
  /// How packets get to the peer.
  void use(const port::Route& route);

  // Path migration: connected_migration.cpp.
  /// How packets get to the peer after the queue pair has migrated.
  void load_alternate(const port::Route& route);
  /// EINVAL: the state cannot change so. `loads`: the same call loads an alternate path.
  Result<void> check_migration(transport::PathMigrationState wanted, bool loads) const;
  void set_migration(transport::PathMigrationState wanted);

  void set_pkey(PKey pkey) {
    requester_.set_pkey(pkey);
    responder_.set_pkey(pkey);
  }

  void enter(QpState from, QpState to, std::uint32_t changed);
  void transmit(TimeNs now);
  bool on_timer(TimeNs now);
  void send_last(bool orderly);
  void flush();
  void reset();
  TimeNs deadline() const { return requester_.deadline(); }
  bool may_gather() const;
  bool is_on_wire() const { return !direct_.is_open(); }

  void on_packet(const wire::Packet& packet, const Path& from, TimeNs now);
  bool has_response() const { return responder_.has_output(); }
  /// After packets: returns whether there is something to send.
  bool has_output() const {
    return responder_.has_output() || requester_.outstanding() > 0 ||
           core_.handed < core_.sends.posted();
  }
  /// The packet sequence numbers of now.
  void query(QueuePairAttributes& attributes) const;

 private:
  /// The responder takes receive requests through it; one is in use at a time.
  class Receives;

  void take_packet(const wire::Packet& packet, TimeNs now);
  void on_packet_of_two_paths(const wire::Packet& packet, const Path& from, TimeNs now);
  void use_migration_state();
  void migrate();

  void start_responder();
  void start_requester();
  void transmit_packets(TimeNs now);
  void transmit_requests(port::Burst& burst, TimeNs now);
  bool may_respond(TimeNs now);
  bool transmit_responses(port::Burst& burst, TimeNs now);
  bool add_response_packet(port::Burst& burst, const transport::OutgoingPacket& packet);
  void on_request(const wire::Packet& packet);
  void refuse_request(transport::Slot slot, transport::Status status);
  void drain_requester();
  void drain_responder(transport::ResponderEffects& effects);
  void count_sent(const wire::Headers& headers);
  void publish_counters();

  QueuePairCore& core_;
  DirectEnd& direct_;
  std::optional<port::Route> route_;
  std::optional<port::Route> alternate_;
  std::uint8_t path_count_ = 0;  // By how many of them packets are taken.
  transport::PathMigration migration_;
  bool has_reported_mismatch_ = false;  // Since it rearmed last.
  transport::Requester requester_;
  transport::Responder responder_;
  XrcTarget xrc_target_;
  transport::RequesterEffects effects_;  // Of the requester.
};

}  // namespace verbatim::adapter::services
