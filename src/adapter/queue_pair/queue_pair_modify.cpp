#include <cerrno>
#include <optional>

#include <fmt/format.h>

#include "adapter/limits.h"
#include "adapter/progress/progress.h"
#include "adapter/queue_pair/queue_pair.h"
#include "port/port.h"
#include "port/ports.h"

/// `ibv_modify_qp` and `ibv_query_qp`.
namespace verbatim::adapter {
namespace {

/// Returns true if the queue pair will receive no further packet. Packets that have arrived must be
/// processed first: the acknowledgement of the program's last message, and the peer's last message.
bool ends(const QueuePairAttributes& wanted, std::uint32_t mask) {
  return (mask & kState) != 0 && (wanted.state == QpState::err || wanted.state == QpState::reset);
}

/// `port`: the queue pair's, after the change.
Result<void> check_values(const QueuePairAttributes& wanted, std::uint32_t mask,
                          const port::Port& port) {
  const Mtu active_mtu = port.state().active_mtu;
  const auto bad = [](std::string text) -> Result<void> { return refuse(EINVAL, std::move(text)); };
  const auto has = [mask](Attribute attribute) { return (mask & attribute) != 0; };
  if (has(kPKeyIndex) && wanted.pkey_index >= port.pkeys().size()) {
    return bad(fmt::format("pkey_index {} does not exist: the P_Key table has {} entries",
                           wanted.pkey_index, port.pkeys().size()));
  }
  if (has(kPathMtu)) {
    if (raw(wanted.path_mtu) < raw(Mtu::k256) || raw(wanted.path_mtu) > raw(Mtu::k4096)) {
      return bad(fmt::format("path_mtu {} is no MTU (1 to 5)", raw(wanted.path_mtu)));
    }
    if (raw(wanted.path_mtu) > raw(active_mtu)) {
      return bad(fmt::format("path_mtu {} is above the port's active MTU {}",
                             bytes_of(wanted.path_mtu), bytes_of(active_mtu)));
    }
  }
  if (has(kMaxRdAtomic) && wanted.max_rd_atomic > Limits::rd_atomic) {
    return bad(
        fmt::format("max_rd_atomic {} is above {}", wanted.max_rd_atomic, Limits::rd_atomic));
  }
  if (has(kMaxDestRdAtomic) && wanted.max_dest_rd_atomic > Limits::rd_atomic) {
    return bad(fmt::format("max_dest_rd_atomic {} is above {}", wanted.max_dest_rd_atomic,
                           Limits::rd_atomic));
  }
  if (has(kTimeout) && wanted.timeout > 31) {
    return bad(fmt::format("timeout {} is above 31", wanted.timeout));
  }
  if (has(kRetryCount) && wanted.retry_count > 7) {
    return bad(fmt::format("retry_cnt {} is above 7", wanted.retry_count));
  }
  if (has(kRnrRetry) && wanted.rnr_retry > 7) {
    return bad(fmt::format("rnr_retry {} is above 7", wanted.rnr_retry));
  }
  if (has(kMinRnrTimer) && wanted.min_rnr_timer > 31) {
    return bad(fmt::format("min_rnr_timer {} is above 31", wanted.min_rnr_timer));
  }
  if (has(kRateLimit) && wanted.rate_limit_kbps > Limits::rate_kbps) {
    return bad(fmt::format("rate_limit {} is above {}", wanted.rate_limit_kbps, Limits::rate_kbps));
  }
  return {};
}

Result<void> check_alternate_path(const QueuePairAttributes& wanted, std::uint32_t mask,
                                  const port::Ports& ports) {
  if ((mask & (kAlternatePath | kPathMigrationState)) == 0) return {};
  if (!ports.at(1).is_infiniband()) {
    return refuse(EOPNOTSUPP, "alternate paths (APM) are InfiniBand's");
  }
  if ((mask & kAlternatePath) == 0) return {};
  const AlternatePath& alternate = wanted.alternate;
  if (auto exists = ports.check(alternate.port); !exists) return exists;
  const std::size_t pkeys = ports.at(alternate.port).pkeys().size();
  if (alternate.pkey_index >= pkeys) {
    return refuse(EINVAL, fmt::format("alt_pkey_index {} does not exist: the P_Key table has {} "
                                      "entries",
                                      alternate.pkey_index, pkeys));
  }
  if (alternate.timeout > 31) {
    return refuse(EINVAL, fmt::format("alt_timeout {} is above 31", alternate.timeout));
  }
  return {};
}

/// Takes the attributes of `mask`; the state is not one of them.
void apply(const QueuePairAttributes& wanted, std::uint32_t mask, QueuePairAttributes& own) {
  const auto take = [mask](Attribute attribute, auto& to, const auto& from) {
    if ((mask & attribute) != 0) to = from;
  };
  take(kAccessFlags, own.access, wanted.access);
  take(kPKeyIndex, own.pkey_index, wanted.pkey_index);
  take(kPort, own.port, wanted.port);
  take(kQKey, own.qkey, wanted.qkey);
  take(kAddressVector, own.address, wanted.address);
  own.address.port = own.port;  // Packets leave by no other.
  take(kPathMtu, own.path_mtu, wanted.path_mtu);
  take(kTimeout, own.timeout, wanted.timeout);
  take(kRetryCount, own.retry_count, wanted.retry_count);
  take(kRnrRetry, own.rnr_retry, wanted.rnr_retry);
  take(kReceivePsn, own.receive_psn, wanted.receive_psn);
  take(kMaxRdAtomic, own.max_rd_atomic, wanted.max_rd_atomic);
  take(kMinRnrTimer, own.min_rnr_timer, wanted.min_rnr_timer);
  take(kSendPsn, own.send_psn, wanted.send_psn);
  take(kMaxDestRdAtomic, own.max_dest_rd_atomic, wanted.max_dest_rd_atomic);
  take(kDestQpn, own.dest_qpn, wanted.dest_qpn);
  take(kAlternatePath, own.alternate, wanted.alternate);
  own.alternate.address.port = own.alternate.port;
}

}  // namespace

Result<void> QueuePair::modify(const QueuePairAttributes& wanted, std::uint32_t given) {
  if (core_.options.scaling) {
    return refuse(EOPNOTSUPP, "a queue pair that scales has no states: its work queues have");
  }
  const std::uint32_t mask = attributes_for(type(), given);
  // iWARP awaits no acknowledgement: a message is done when its stream has taken it.
  if (ends(wanted, mask) && !core_.around.is_iwarp) {
    core_.around.progress.poll();
    core_.around.progress.finish_turn();
  }
  const std::lock_guard guard(lock_);
  if (direct_.take_notifications()) fail();
  const QpState from = (mask & kCurrentState) != 0 ? wanted.current_state : state();
  const QpState to = (mask & kState) != 0 ? wanted.state : from;
  if (from != state()) {
    return refuse(EINVAL, fmt::format("QP {:#x} is in {}, not in {} as cur_qp_state says",
                                      core_.number.value(), name_of(state()), name_of(from)));
  }
  if (auto allowed = check_transition(type(), from, to, mask); !allowed) return allowed;
  const port::Ports& ports = core_.around.ports;
  const std::uint8_t port = (mask & kPort) != 0 ? wanted.port : core_.port().number();
  if (auto exists = ports.check(port); !exists) return exists;
  if (auto valid = check_values(wanted, mask, ports.at(port)); !valid) return valid;
  if (auto valid = check_migration(wanted, mask); !valid) return valid;
  const bool is_own_move =
      to == QpState::rtr || to == QpState::sqd || (to == QpState::rts && to != from);
  if (core_.around.is_iwarp && is_own_move) {
    return refuse(EOPNOTSUPP,
                  fmt::format("QP {:#x} to {}: over iWARP, rdma_cm connects queue pairs",
                              core_.number.value(), name_of(to)));
  }

  if (auto routed = use_paths(wanted, mask, port); !routed) return routed;
  apply(wanted, mask, core_.attributes);
  core_.use_port(port);
  if ((mask & (kPKeyIndex | kPort)) != 0) use_pkey();
  // For this transition only.
  if (to == QpState::sqd && state() != QpState::sqd) {
    core_.attributes.sqd_notify = (mask & kEnableSqdNotify) != 0 && wanted.sqd_notify;
  }
  enter(to, mask);
  if ((mask & kPathMigrationState) != 0) {
    std::get<services::Connected>(service_).set_migration(wanted.path_migration);
  }
  if ((mask & kRateLimit) != 0) {
    core_.limit_rate(wanted.rate_limit_kbps, 0);
    transmit_locked(monotonic_now());
  }
  core_.note_wire_use(
      std::visit([](const auto& service) { return service.is_on_wire(); }, service_));
  const bool lacks_path = from == QpState::rtr && to == QpState::rts && !direct_.is_open() &&
                          core_.options.is_connected() && direct_.is_allowed() &&
                          core_.around.only_direct;
  if (!lacks_path) return {};
  enter_error();
  return refuse(EHOSTUNREACH,
                fmt::format("VERBATIM_PATH=direct, and QP {:#x} at {} is not on this machine, of "
                            "another user, or takes the wire (VERBATIM_LOG=info says which)",
                            core_.attributes.dest_qpn.value(), path_text(core_.peer)));
}

Result<void> QueuePair::check_migration(const QueuePairAttributes& wanted,
                                        std::uint32_t mask) const {
  if (auto valid = check_alternate_path(wanted, mask, core_.around.ports); !valid) return valid;
  if ((mask & kPathMigrationState) == 0) return {};
  return std::get<services::Connected>(service_).check_migration(wanted.path_migration,
                                                                 (mask & kAlternatePath) != 0);
}

/// The queue pair has either all paths that are wanted, or those it had.
Result<void> QueuePair::use_paths(const QueuePairAttributes& wanted, std::uint32_t mask,
                                  std::uint8_t port) {
  const Qpn peer = (mask & kDestQpn) != 0 ? wanted.dest_qpn : core_.attributes.dest_qpn;
  // As cards do: the port is the queue pair's, whatever the vector says.
  const auto route_of = [&](port::AddressVector vector,
                            std::uint8_t its_port) -> Result<port::Route> {
    if (auto exists = core_.around.ports.check(vector.port); !exists) {
      return std::unexpected(exists.error());
    }
    vector.port = its_port;
    return core_.around.find_route(vector, peer);
  };
  std::optional<port::Route> alternate;
  if ((mask & kAlternatePath) != 0) {
    auto route = route_of(wanted.alternate.address, wanted.alternate.port);
    if (!route) return std::unexpected(route.error());
    alternate = *route;
  }
  auto* const connected = std::get_if<services::Connected>(&service_);
  if ((mask & kAddressVector) != 0) {
    const auto route = route_of(wanted.address, port);
    if (!route) return std::unexpected(route.error());
    if (connected != nullptr) connected->use(*route);
    core_.peer = route->path;
  }
  if (alternate && connected != nullptr) connected->load_alternate(*alternate);
  return {};
}

void QueuePair::enter(QpState to, std::uint32_t mask) {
  const QpState from = state();
  if (to == QpState::reset || to == QpState::err) {
    if (from != QpState::err) {
      std::visit([](auto& service) { service.send_last(true); }, service_);
    }
    return to == QpState::reset ? forget_everything() : enter_error();
  }
  std::visit([&](auto& service) { service.enter(from, to, mask); }, service_);
  if (from != QpState::sqd) core_.drain_reported = false;
  core_.set_state(to);
  if (to == QpState::sqd) core_.check_drained();
  if (to == QpState::rts && from != QpState::rts) {
    core_.handed = std::max(core_.handed, core_.sends.completed());
    transmit_locked(monotonic_now());
  }
}

/// Any state to RESET: as new (IBA 10.3.1.1).
void QueuePair::forget_everything() {
  direct_.close_target();
  direct_.set_link(nullptr);
  std::visit([](auto& service) { service.reset(); }, service_);
  core_.reset();
  armed_deadline_ = kNever;
}

std::uint8_t QueuePair::port() {
  const std::lock_guard guard(lock_);
  return core_.port().number();
}

QueuePairAttributes QueuePair::query() {
  const std::lock_guard guard(lock_);
  if (direct_.take_notifications()) fail();
  QueuePairAttributes now = core_.attributes;
  now.state = now.current_state = state();
  now.capacity = core_.options.capacity;
  now.is_draining = state() == QpState::sqd && !core_.drain_reported;
  if (const auto* const connected = std::get_if<services::Connected>(&service_)) {
    connected->query(now);
  }
  return now;
}

}  // namespace verbatim::adapter
