#include "fabric/keeper/trunk_end.h"

#include <utility>

#include "wire/ib/bth.h"
#include "wire/net/grh.h"
#include "wire/net/lrh.h"

namespace verbatim::fabric {

static_assert(trunk::kDataLanes == kManagementLane);
static_assert(trunk::kPacketBytesMax == kPacketBytesMax);

TrunkEnd::TrunkEnd(SharedFabric& fabric, Mover& mover, std::uint32_t end, UniqueFd bell)
    : fabric_(fabric),
      mover_(mover),
      image_(fabric.image()),
      end_(image_, end),
      bell_(std::move(bell)) {}

/// It is woken for credits when a lane's buffer is half full: before, the peer has enough of them.
bool TrunkEnd::begin_sleep(bool has_room) {
  for (unsigned lane = 0; lane < trunk::kDataLanes; ++lane) {
    const std::uint32_t inside =
        end_.posted_blocks(lane) - in().freed[lane].load(std::memory_order_relaxed);
    if (inside > image_.capacity(lane) / 2) in().waits.store(1, std::memory_order_seq_cst);
  }
  const trunk::Limits now = limits_now();  // After it has said that it waits.
  bool has_news = false;
  for (unsigned lane = 0; lane < trunk::kDataLanes; ++lane) {
    has_news |= now[lane] - shown_[lane] >= image_.capacity(lane) / 8;
  }
  return !has_news && end_.begin_sleep(has_room);
}

void TrunkEnd::begin_session() {
  reset();
  for (unsigned lane = 0; lane < trunk::kDataLanes; ++lane) {
    sent_before_[lane] = out().lanes[lane].sent;
    posted_before_[lane] = end_.posted_blocks(lane);
  }
  dropped_ = {};
  waiting_ = {};
}

void TrunkEnd::end_session() { reset(); }

/// What has come is handed over first: its reservation would be lost else.
void TrunkEnd::reset() {
  end_.push(mover_.walker());
  fabric_.reset_trunk(mover_, end_.index());
}

void TrunkEnd::set_peer_limits(const trunk::Limits& limits) {
  const LinkIndex index = image_.to_end(end_.index());
  bool has_more = false;
  for (unsigned lane = 0; lane < trunk::kDataLanes; ++lane) {
    const std::uint32_t freed = sent_before_[lane] + limits[lane] - image_.capacity(lane);
    const auto more = static_cast<std::int32_t>(freed - out().freed[lane].load());
    if (more <= 0) continue;
    mover_.walker().freed_elsewhere(index, lane, static_cast<std::uint32_t>(more));
    has_more = true;
  }
  if (has_more) mover_.walker().tell_of_credits();
}

trunk::Limits TrunkEnd::limits_now() const {
  trunk::Limits limits{};
  for (unsigned lane = 0; lane < trunk::kDataLanes; ++lane) {
    limits[lane] = in().freed[lane].load(std::memory_order_seq_cst) + image_.capacity(lane) +
                   waiting_capacity(lane) - posted_before_[lane] + dropped_[lane];
  }
  return limits;
}

std::optional<TrunkEnd::Facts> TrunkEnd::facts_of(ByteSpan packet) {
  const auto lrh = wire::decode_lrh(packet);
  if (!lrh || lrh->length_words * 4u != packet.size() || lrh->virtual_lane >= kManagementLane) {
    return std::nullopt;
  }
  const bool has_grh = lrh->next == wire::Lrh::Next::grh;
  if (!has_grh && lrh->next != wire::Lrh::Next::bth) return std::nullopt;
  const std::size_t headers = wire::Lrh::kSize + (has_grh ? wire::Grh::kSize : 0);
  wire::Bth bth;
  if (packet.size() < headers || wire::decode_bth(packet.subspan(headers), bth)) {
    return std::nullopt;
  }
  return Facts{.dlid = lrh->dlid,
               .p_key = bth.pkey,
               .service_level = lrh->service_level,
               .lane = lrh->virtual_lane,
               .destination = bth.dest_qp};
}

bool TrunkEnd::is_armed() const {
  const PortRecord& port = image_.port(image_.node(in().end), in().end_port);
  return port.state.load(std::memory_order_relaxed) >= raw(wire::PortState::armed);
}

void TrunkEnd::post(ByteSpan packet) {
  const auto facts = facts_of(packet);
  const std::uint32_t blocks = End::blocks_of(static_cast<std::uint32_t>(packet.size()));
  if (!facts || !is_armed()) {
    const unsigned lane = std::to_integer<unsigned>(packet[0]) >> 4;
    if (lane < trunk::kDataLanes) dropped_[lane] += blocks;
    return;
  }
  Waiting& waiting = waiting_[facts->lane];
  if (waiting.packets.empty() && post_now(packet, *facts)) return;
  if (waiting.blocks + blocks > waiting_capacity(facts->lane) + image_.capacity(facts->lane)) {
    dropped_[facts->lane] += blocks;
    return;
  }
  waiting.blocks += blocks;
  waiting.packets.emplace_back(packet.begin(), packet.end());
}

bool TrunkEnd::post_now(ByteSpan packet, const Facts& facts) {
  if (!end_.reserve(facts.lane, static_cast<std::uint32_t>(packet.size()))) return false;
  end_.post({.pieces = std::span(&packet, 1),
             .dlid = facts.dlid,
             .p_key = facts.p_key,
             .service_level = facts.service_level,
             .lane = facts.lane,
             .destination = facts.destination});
  return true;
}

void TrunkEnd::push() {
  (void)end_.take_credit_news();
  for (Waiting& waiting : waiting_) {
    while (!waiting.packets.empty()) {
      const ByteSpan packet(waiting.packets.front());
      if (!post_now(packet, *facts_of(packet))) break;
      waiting.blocks -= End::blocks_of(static_cast<std::uint32_t>(packet.size()));
      waiting.packets.pop_front();
    }
  }
  end_.push(mover_.walker());
}

}  // namespace verbatim::fabric
