#include <cerrno>
#include <utility>

#include "adapter/services/connected.h"
#include "port/port.h"

/// Automatic path migration of connected queue pairs (IBA 17.2.8).
namespace verbatim::adapter::services {

using transport::PathMigrationState;

void Connected::load_alternate(const port::Route& route) {
  alternate_ = route;
  if (route_) path_count_ = 2;
}

Result<void> Connected::check_migration(PathMigrationState wanted, bool loads) const {
  if (wanted == PathMigrationState::rearm && !alternate_ && !loads) {
    return refuse(EINVAL, "path_mig_state: no alternate path is loaded (IBV_QP_ALT_PATH)");
  }
  if (migration_.may_become(wanted)) return {};
  if (wanted == PathMigrationState::migrated) {
    return refuse(EINVAL, "path_mig_state: the queue pair cannot migrate before it is armed");
  }
  return refuse(EINVAL,
                "path_mig_state: a program sets IBV_MIG_REARM or IBV_MIG_MIGRATED; the queue pair "
                "is armed when its peer has rearmed, too");
}

void Connected::set_migration(PathMigrationState wanted) {
  if (wanted == PathMigrationState::migrated) {
    if (migration_.is_armed()) migrate();
    return;
  }
  migration_.rearm();
  has_reported_mismatch_ = false;
  use_migration_state();
}

/// The requester and the headers of packets follow the state.
void Connected::use_migration_state() {
  route_->is_migrated = migration_.sends_migrated();
  requester_.set_may_migrate(migration_.is_armed());
}

/// The two paths change places: until the peer has migrated, too, its packets come by the path that
/// was the first one.
void Connected::migrate() {
  std::swap(*route_, *alternate_);
  QueuePairAttributes& own = core_.attributes;
  std::swap(own.address, own.alternate.address);
  std::swap(own.port, own.alternate.port);
  std::swap(own.pkey_index, own.alternate.pkey_index);
  std::swap(own.timeout, own.alternate.timeout);
  core_.use_port(own.port);
  core_.pkey = core_.port().pkeys().at(own.pkey_index);
  set_pkey(core_.pkey);
  requester_.set_timeout(own.timeout);
  migration_.migrate();
  use_migration_state();
  core_.raise(AsyncEventType::path_migrated);
}

/// Takes packets of the peer by either path; the bit M says whether it has rearmed or migrated.
void Connected::on_packet_of_two_paths(const wire::Packet& packet, const Path& from, TimeNs now) {
  const bool is_by_alternate = path_count_ == 2 && same_source(from, alternate_->path);
  const bool peer_has_migrated = packet.headers.bth.migrated;
  if (migration_.is_armed() && peer_has_migrated && !is_by_alternate) {
    // The peer has migrated to another path than the one that is loaded here.
    const bool is_reported = std::exchange(has_reported_mismatch_, true);
    if (!is_reported) core_.raise(AsyncEventType::path_migration_error);
    return;
  }
  if (!is_by_alternate && (path_count_ != 2 || !same_source(from, route_->path))) {
    core_.around.arena.header().port_counters.dropped_no_qp.add();
    return;
  }
  if (migration_.on_packet(peer_has_migrated)) migrate();
  use_migration_state();
  take_packet(packet, now);
  if (requester_.take_migration()) migrate();  // A NAK has used up the retries.
}

}  // namespace verbatim::adapter::services
