#include "ulp/rds/connection.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <utility>

namespace verbatim::ulp::rds {
namespace {

constexpr std::size_t kMapFragments = CongestionMap::kSize / kFragmentBytes;

/// An acknowledgement, and nothing else.
bool is_bare(const Header& header, ByteSpan data) {
  return header.source_port == 0 && header.destination_port == 0 && data.empty();
}

}  // namespace

Connection::~Connection() {
  drop();
  for (const EndedOperation& one : ended_) pool_.give_back(one.operation.local);
  for (const Outgoing& message : released_) pool_.give_back(message.fragments);
}

void Connection::send(Outgoing message) {
  message.sequence = next_sequence_++;
  operations_ += message.operations.size();
  queue_.push_back(std::move(message));
}

void Connection::on_established(std::uint64_t acknowledged) {
  on_acknowledged(acknowledged);
  owes_map_ = true;
}

void Connection::on_cut() {
  end_unsure(finishing_);
  done_ = posted_;
  release_done();
  if (!map_.fragments.empty()) released_.push_back(std::exchange(map_, {}));
  map_fragment_ = 0;
  for (std::size_t i = 0; i < next_; ++i) queue_[i].was_sent = true;
  if (fragment_ > 0) queue_[next_].was_sent = true;
  next_ = fragment_ = 0;
  drop_if(OperationStatus::dropped, [](std::size_t, const Outgoing& one) {
    return one.has_failed || std::ranges::any_of(one.operations, is_out);
  });
  unasked_ = 0;
  owes_ack_ = false;
  reassembly_.forget();
}

Connection::Arrival Connection::on_message(ByteSpan fragment) {
  using Kind = Arrival::Kind;
  const auto header = decode_header(fragment);
  if (!header) return {.kind = Kind::fault, .words = words_of(header.error())};
  on_acknowledged(header->acknowledged);
  const ByteSpan data = fragment.subspan(Header::kSize);
  if (is_bare(*header, data)) return {};
  const auto message = reassembly_.add(*header, data);
  if (!message) return {.kind = Kind::fault, .words = message.error()};
  if (!*message) return {};
  const Header& whole = (*message)->header;
  if (whole.flags == Header::kMap) {
    if (whole.bytes != CongestionMap::kSize)
      return {.kind = Kind::fault, .words = "a congestion map of a wrong length"};
    return {.kind = Kind::map, .header = whole, .bytes = (*message)->bytes};
  }
  owes_ack_ |= (whole.flags & Header::kAsksForAck) != 0;
  if (whole.sequence <= received_ && (whole.flags & Header::kIsRepeated) != 0) return {};
  return {.kind = Kind::message, .header = whole, .bytes = (*message)->bytes};
}

void Connection::take(const Header& header) { received_ = header.sequence; }

void Connection::on_acknowledged(std::uint64_t sequence) {
  while (next_ > 0 && queue_.front().sequence <= sequence) {
    finishing_.push_back(std::move(queue_.front()));
    queue_.pop_front();
    --next_;
  }
  release_done();
}

void Connection::on_done(Tag tag) {
  done_ += static_cast<std::uint32_t>(raw(tag) - static_cast<std::uint32_t>(done_));
  if (operations_ > 0) end_done();
  release_done();
}

/// In the order in which they were acknowledged, which may not be that of their last SENDs: a map
/// may stand before a message that was sent after it, never long.
void Connection::release_done() {
  while (!finishing_.empty() && finishing_.front().last_send <= done_) {
    released_.push_back(std::move(finishing_.front()));
    finishing_.pop_front();
  }
}

/// Each eighth message asks, and the last for now.
bool Connection::asks_for_ack(std::size_t index) {
  const bool asks = ++unasked_ >= kAckEach || index + 1 == queue_.size();
  if (asks) unasked_ = 0;
  return asks;
}

Header Connection::header_of(const Outgoing& message) const {
  Header header{.sequence = message.sequence,
                .acknowledged = received_,
                .bytes = message.bytes,
                .source_port = message.source_port,
                .destination_port = message.destination_port,
                .offered = message.offered};
  if (message.was_sent) header.flags = Header::kIsRepeated | Header::kAsksForAck;
  for (const Operation& one : message.operations) {
    if (moves_bytes(one)) header.used = one.remote.remote_key;
  }
  return header;
}

void Connection::push(WorkList& work, Outgoing& message, std::size_t fragment,
                      const Header& header) {
  const Slice& slice = message.fragments[fragment];
  encode(header, std::span<std::byte, Header::kSize>(slice.data, Header::kSize));
  message.last_send = ++posted_;
  work.push(
      Send{.payload = {&slice, 1},
           .solicited = fragment + 1 == message.fragments.size(),  // Linux sleeps until then.
           .done = posted_ % kTagEach == 0 ? Tag{static_cast<std::uint32_t>(posted_)} : kNoTag});
}

/// Returns false if there is no memory for it now.
bool Connection::begin_map(const CongestionMap& own) {
  std::array<Slice, kMapFragments> slices;
  if (!pool_.take(slices)) return false;
  owes_map_ = false;
  map_ = {.bytes = CongestionMap::kSize};
  for (std::size_t i = 0; i < slices.size(); ++i) {
    slices[i].bytes = Header::kSize + kFragmentBytes;
    std::memcpy(slices[i].data + Header::kSize, own.bytes().data() + i * kFragmentBytes,
                kFragmentBytes);
    map_.fragments.push_back(slices[i]);
  }
  return true;
}

/// A message, or its next fragment, or a fragment of the map.
void Connection::push_next(WorkList& work) {
  Outgoing& message = queue_[next_];
  Header header = header_of(message);
  if (fragment_ == 0) message.asks_for_ack = asks_for_ack(next_);
  if (message.asks_for_ack) header.flags |= Header::kAsksForAck;
  push(work, message, fragment_, header);
  owes_ack_ = false;
  if (++fragment_ < message.fragments.size()) return;
  fragment_ = 0;
  ++next_;
}

void Connection::push_map(WorkList& work) {
  Header header = header_of(map_);
  header.flags = Header::kMap;
  push(work, map_, map_fragment_++, header);
  if (map_fragment_ < map_.fragments.size()) return;
  map_fragment_ = 0;
  finishing_.push_back(std::exchange(map_, {}));
}

void Connection::push_acknowledgement(WorkList& work) {
  Slice slice;
  if (!pool_.take({&slice, 1})) return;
  slice.bytes = Header::kSize;
  finishing_.push_back({.fragments = {slice}});
  push(work, finishing_.back(), 0, Header{.acknowledged = received_});
  owes_ack_ = false;
}

std::optional<Atomic> Connection::fill(WorkList& work, const CongestionMap& own) {
  std::optional<Atomic> atomic;
  const auto has_room = [&] { return !work.full() && posted_ - done_ < kWindow; };
  while (has_room()) {
    // A map stands between two messages.
    if (fragment_ == 0 && (!map_.fragments.empty() || (owes_map_ && begin_map(own)))) {
      push_map(work);
      continue;
    }
    if (next_ == queue_.size()) break;
    Outgoing& message = queue_[next_];
    if (fragment_ == 0 && !message.operations.empty()) {
      if (!begin_operations(work, message, atomic)) break;
      if (message.is_silent) {
        message.last_send = posted_;
        finishing_.push_back(std::move(message));
        queue_.erase(queue_.begin() + static_cast<std::ptrdiff_t>(next_));
        continue;
      }
      if (!has_room()) break;
    }
    push_next(work);
  }
  if (owes_ack_ && !atomic && has_room() && fragment_ == 0) push_acknowledgement(work);
  // Whatever is posted last says when it is over.
  Send* const last = work.empty() ? nullptr : std::get_if<Send>(&work[work.size() - 1]);
  if (last != nullptr && !atomic) last->done = Tag{static_cast<std::uint32_t>(posted_)};
  return atomic;
}

void Connection::cancel(SocketId socket, std::uint16_t port) {
  const std::size_t begun = next_ + (fragment_ > 0 ? 1 : 0);
  drop_if(OperationStatus::cancelled, [&](std::size_t index, const Outgoing& one) {
    return index >= begun && one.socket == socket && !one.was_sent &&
           (port == 0 || one.destination_port == port) &&
           std::ranges::none_of(one.operations, is_out);
  });
}

void Connection::disown(SocketId socket) {
  for (Outgoing& message : queue_) {
    if (message.socket == socket) message.socket = kNoSocket;
  }
  for (Outgoing& message : finishing_) {
    if (message.socket == socket) message.socket = kNoSocket;
  }
}

bool Connection::has_owner() const {
  return std::ranges::any_of(queue_, [](const Outgoing& one) { return one.socket != kNoSocket; });
}

void Connection::drop() {
  on_cut();
  drop_if(OperationStatus::dropped, [](std::size_t, const Outgoing&) { return true; });
}

}  // namespace verbatim::ulp::rds
