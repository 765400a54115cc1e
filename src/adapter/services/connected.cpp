#include "adapter/services/connected.h"

#include <utility>

#include "adapter/queues/shared_receives.h"

/// What connected queue pairs do with packets, time-outs and attributes.
namespace verbatim::adapter::services {

using transport::Status;

class Connected::Receives final : public transport::ReceiveSource {
 public:
  explicit Receives(QueuePairCore& core) : core_(core) {}
  bool take(const wire::Packet& packet, transport::Receive& out) override {
    const bool taken = core_.options.matches_tags()
                           ? core_.take_tagged(packet)
                           : core_.take_receive(packet.headers.xrc_eth.srq);
    if (!taken) return false;
    core_.receives.holds = true;
    const std::uint64_t capacity = core_.receives.current.capacity_bytes;
    out = {.ticket = 0, .capacity_bytes = core_.receives.tagged.room(capacity)};
    return true;
  }
  std::optional<PdNumber> domain_of(SrqNumber number) override {
    const SharedReceiveQueue* const shared =
        core_.around.shared_receives.find(number, core_.options.xrc_domain);
    if (shared == nullptr) return std::nullopt;
    return shared->options().pd;
  }

 private:
  QueuePairCore& core_;
};

Connected::Connected(QueuePairCore& core, DirectEnd& direct)
    : core_(core),
      direct_(direct),
      requester_(core.sends.capacity()),
      xrc_target_(core, direct, responder_) {}

void Connected::enter(QpState from, QpState to, std::uint32_t changed) {
  constexpr std::uint32_t kResponderAttributes = kAccessFlags | kMinRnrTimer | kMaxDestRdAtomic;
  if (from == QpState::init && to == QpState::rtr) {
    start_responder();
  } else if ((changed & kResponderAttributes) != 0 && from != QpState::init &&
             from != QpState::reset) {
    responder_.change(core_.attributes.access, core_.attributes.min_rnr_timer);
    direct_.change_target();
  }
  if (from == QpState::rtr && to == QpState::rts) start_requester();
}

void Connected::start_responder() {
  const QueuePairAttributes& attributes = core_.attributes;
  responder_.configure({.service = service_of(core_.type()),
                        .dest_qp = attributes.dest_qpn,
                        .pkey = core_.pkey,
                        .expected_psn = attributes.receive_psn,
                        .path_mtu = attributes.path_mtu,
                        .max_dest_rd_atomic = attributes.max_dest_rd_atomic,
                        .min_rnr_timer = attributes.min_rnr_timer,
                        .access = attributes.access,
                        .pd = core_.options.pd,
                        .own_qp = core_.number});
  core_.record.dest_qpn.store(attributes.dest_qpn.value(), std::memory_order_relaxed);
  core_.record.dest_gid = attributes.address.dest_gid;
  core_.record.dest_lid.store(std::to_underlying(attributes.address.dlid),
                              std::memory_order_relaxed);
  direct_.open_target(attributes.address.dest_gid);
}

void Connected::start_requester() {
  const QueuePairAttributes& attributes = core_.attributes;
  requester_.configure({.service = service_of(core_.type()),
                        .dest_qp = attributes.dest_qpn,
                        .pkey = core_.pkey,
                        .first_psn = attributes.send_psn,
                        .path_mtu = attributes.path_mtu,
                        .timeout = attributes.timeout,
                        .retry_count = attributes.retry_count,
                        .rnr_retry = attributes.rnr_retry,
                        .max_rd_atomic = attributes.max_rd_atomic,
                        .lossless = route_ && route_->lossless,
                        .probes = core_.around.probes});
  direct_.open_link();
}

void Connected::flush() {
  services::flush(core_, effects_, requester_);
  responder_.take_current_receive();
}

void Connected::use(const port::Route& route) {
  route_ = route;
  path_count_ = alternate_ ? 2 : 1;
  use_migration_state();
}

void Connected::reset() {
  requester_.reset();
  responder_.reset();
  alternate_.reset();
  migration_ = {};
  path_count_ = 0;
  has_reported_mismatch_ = false;
}

void Connected::query(QueuePairAttributes& attributes) const {
  const QpState now = core_.state();
  if (now == QpState::reset || now == QpState::init) return;
  attributes.path_migration = migration_.state();
  attributes.receive_psn = responder_.expected_psn();
  if (now != QpState::rtr) attributes.send_psn = requester_.next_psn();
}

void Connected::on_packet(const wire::Packet& packet, const Path& from, TimeNs now) {
  // IBA 9.6.1.1.2: a connected queue pair takes packets of its peer alone.
  if (path_count_ == 1 && same_source(from, route_->path)) return take_packet(packet, now);
  on_packet_of_two_paths(packet, from, now);
}

void Connected::take_packet(const wire::Packet& packet, TimeNs now) {
  if (wire::info(packet.headers.bth.opcode).is_request) return on_request(packet);
  if (core_.state() == QpState::rtr) return;
  requester_.on_packet(packet, now, effects_);
  drain_requester();
}

void Connected::on_request(const wire::Packet& packet) {
  if (core_.type() == QpType::xrc_send) return;  // It only asks.
  const bool may_be_elsewhere = core_.type() == QpType::xrc_receive && !packet.is_invalid &&
                                !core_.around.shared_receives.has(packet.headers.xrc_eth.srq);
  if (may_be_elsewhere && xrc_target_.on_packet(packet)) return;
  Receives receives(core_);
  transport::ResponderEffects effects;
  responder_.on_packet(packet, receives, core_.regions, effects);
  drain_responder(effects);
}

bool Connected::on_timer(TimeNs now) {
  if (now < requester_.deadline()) return false;
  core_.record.counters.timeouts.add_exclusive();
  requester_.on_timeout(now, effects_);
  if (requester_.take_migration()) migrate();
  drain_requester();
  return true;
}

void Connected::refuse_request(transport::Slot slot, Status status) {
  requester_.on_local_error(slot, status, effects_);
}

void Connected::drain_requester() {
  drain(core_, effects_, requester_,
        [this](transport::Slot slot) { refuse_request(slot, Status::local_protection_error); });
}

void Connected::drain_responder(transport::ResponderEffects& effects) {
  drain(effects, responder_, [this](const transport::ResponderEffect& effect) {
    return carry_out(core_, effect, responder_, {responder_.config().pd, core_.number});
  });
}

}  // namespace verbatim::adapter::services
