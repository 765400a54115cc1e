#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>

#include "adapter/direct/direct_link.h"
#include "adapter/direct/xrc_queue_owners.h"
#include "adapter/queue_pair/core/core.h"
#include "arena/target.h"
#include "base/always_inline.h"
#include "base/net/path.h"
#include "base/time.h"
#include "base/types.h"
#include "transport/work.h"

namespace verbatim::adapter {

/// The direct path of one queue pair, whatever its service: the link by which its own thread
/// executes its requests in the peer's memory, and the target by which peers execute theirs here.
/// The queue pair's lock guards all but what the target's lock does.
class DirectEnd {
 public:
  using Outcome = DirectLink::Outcome;

  DirectEnd(QueuePairCore& core, DirectTarget& target);
  DirectEnd(const DirectEnd&) = delete;
  DirectEnd& operator=(const DirectEnd&) = delete;

  /// Whether the queue pair may take the direct path. Tags are matched in private memory, and
  /// imported regions are memory that peers do not have: such queue pairs stay on the wire.
  bool is_allowed() const;

  // Its own requests.
  bool is_open() const { return link_ != nullptr; }
  DirectLink* link() const { return link_.get(); }
  void set_link(std::unique_ptr<DirectLink> link) { link_ = std::move(link); }
  /// Null if the queue pair is not on this machine, of another user, or takes the wire. `own_name`
  /// is what the peer's target knows this queue pair by: its GID, or over iWARP a random number.
  std::unique_ptr<DirectLink> link_to(const Path& path, Qpn peer, const Gid& own_name);
  std::unique_ptr<DirectLink> link_to(const Path& path, Qpn peer, std::uint8_t source_gid_index);
  /// To the peer that the address vector names, if it takes the path as well.
  void open_link();
  TimeNs deadline() const { return may_execute() ? link_->deadline() : kNever; }
  /// Executes what was posted, oldest first.
  void transmit(TimeNs now);
  /// Nothing: the request did not complete at once.
  std::optional<transport::Status> execute_now(const transport::SendRequest& request,
                                               const LocalMemory& local);
  void count(const DirectLink& link, Outcome outcome, std::uint64_t length);
  /// A request has failed: the queue pair stops, or its send queue.
  void end(std::uint64_t wr_id, const transport::SendRequest& request, transport::Status status);

  // Its peers'.
  /// Peers may act for it from now on, those that come by `peer_name`.
  void open_target(const Gid& peer_name);
  /// iWARP: the first peer that comes by `name` becomes the one whom the target serves.
  void invite(const Gid& name);
  /// iWARP: whoever has accepted; after this, nobody can. 0: nobody.
  Qpn take_invitee();
  /// The attributes that may change while peers act.
  void change_target();
  /// InfiniBand: the subnet manager has changed the port. Peers reach the queue pair, and it
  /// reaches its peer, by the new LIDs and P_Keys, and while the port is ACTIVE.
  void follow_port();
  /// None does when this returns, nor will; the receive in use is the core's. A peer that is
  /// stopped amid a request (SIGSTOP) may still copy when it goes on, to or from regions that are
  /// registered until then; the queue pair takes the wire as long.
  void close_target();
  /// The shared queue is being destroyed, and peers find it no more. Returns true if a message was
  /// on its way into it.
  bool forget_queue(SrqNumber srq);
  /// What peers have told. The background thread hears the doorbell; who asks for the state or
  /// changes it looks itself: a peer that was refused finds the queue pair in error. Returns true
  /// if the queue pair fails.
  [[nodiscard]] bool take_notifications();
  /// What a visiting peer that has ended may have done and not told. As `take_notifications`.
  [[nodiscard]] bool on_attached_peer_gone();
  /// That program has ended. Returns true if the link led to it.
  bool on_peer_gone(const DirectPeer& peer);

  /// XRC: the program of the node that has the queue. Null: none has, or it is of another domain,
  /// or its program has no proxy target left.
  MappedTarget* queue_owner_of(SrqNumber number);
  /// XRC: the same of those that `queue_owner_of` has found.
  MappedTarget* known_queue_owner(SrqNumber number) {
    return queue_owners_.find(number, core_.number);
  }

 private:
  /// SQD begins nothing new, but finishes what it has begun.
  bool may_execute() const {
    if (link_ == nullptr) return false;
    const QpState now = core_.state();
    return now == QpState::rts || (now == QpState::sqd && link_->has_begun());
  }
  /// Whether the path leads to a program of this machine, as far as it tells. Over InfiniBand only
  /// what goes from a port to the same port crosses no switch.
  bool may_be_here(const Path& path) const;
  /// By which the peer knows this queue pair, and by which the connected peer comes. `gid`: see
  /// `link_to`; InfiniBand does without.
  arena::PeerName own_name_on(const Path& path, const Gid& gid) const;
  arena::PeerName name_of_peer(const Gid& gid) const;
  /// Returns false if the target was given up, after `patience`: the queue pair takes the wire.
  bool lock_target(TimeNs patience = 0);
  void show_port();
  void report_bad_key(const Path& path, Qpn peer, std::optional<QKey> q_key) const;
  void take_held();
  void flush_held();
  void serve_owner_request();

  QueuePairCore& core_;
  DirectTarget& target_;
  std::unique_ptr<DirectLink> link_;  // Null: requests go over the wire.
  XrcQueueOwners queue_owners_;
};

// What each request does.

VERBATIM_ALWAYS_INLINE void DirectEnd::count(const DirectLink& link, Outcome outcome,
                                             std::uint64_t length) {
  if (outcome != Outcome::completed || link.status() != transport::Status::success) return;
  core_.record.direct_sent.messages.add_exclusive();
  core_.record.direct_sent.bytes.add_exclusive(length);
}

VERBATIM_ALWAYS_INLINE std::optional<transport::Status> DirectEnd::execute_now(
    const transport::SendRequest& request, const LocalMemory& local) {
  if (link_ == nullptr) return {};
  const Outcome outcome = link_->execute(request, local);
  count(*link_, outcome, request.length);
  if (outcome != Outcome::completed) return {};
  return link_->status();
}

}  // namespace verbatim::adapter
