#include "adapter/queues/tag_matching.h"

#include <algorithm>
#include <cerrno>
#include <numeric>

namespace verbatim::adapter {

using transport::Status;
using wire::TagHeader;

TagMatching::TagMatching(std::uint32_t tags_max) : entries_(tags_max), free_(tags_max) {
  std::iota(free_.rbegin(), free_.rend(), std::uint16_t{0});
  order_.reserve(tags_max);
}

std::expected<TagMatching::Outcome, int> TagMatching::carry_out(const TagOperation& operation) {
  const std::lock_guard guard(lock_);
  if (operation.kind == TagOperation::Kind::add) {
    if (operation.segments.size() > kSegmentsMax) return std::unexpected(EINVAL);
    if (free_.empty()) return std::unexpected(ENOMEM);
  }
  if (operation.handled) {
    handled_ = static_cast<std::uint16_t>(*operation.handled);
    if (in_step()) awake_ = order_.size();
  }
  Outcome outcome;
  if (operation.kind == TagOperation::Kind::add) {
    outcome.handle = add(operation);
  } else if (operation.kind == TagOperation::Kind::remove && !remove(operation.handle)) {
    outcome.status = Status::tag_matching_error;
  }
  outcome.must_synchronize = !in_step();
  return outcome;
}

std::uint32_t TagMatching::add(const TagOperation& operation) {
  const std::uint16_t place = free_.back();
  free_.pop_back();
  Entry& entry = entries_[place];
  entry.tag = operation.tag;
  entry.mask = operation.mask;
  ++entry.generation;
  ReceiveRequest& receive = entry.receive;
  receive.wr_id = operation.receive_wr_id;
  receive.segment_count = static_cast<std::uint32_t>(operation.segments.size());
  receive.capacity_bytes = 0;
  for (const Segment& segment : operation.segments) receive.capacity_bytes += segment.length;
  std::ranges::copy(operation.segments, receive.segments);
  order_.push_back(place);
  if (in_step()) awake_ = order_.size();
  return std::uint32_t{entry.generation} << 16 | place;
}

bool TagMatching::remove(std::uint32_t handle) {
  const auto place = static_cast<std::uint16_t>(handle);
  const auto found = std::ranges::find(order_, place);
  if (found == order_.end() || entries_[place].generation != handle >> 16) return false;
  erase(static_cast<std::size_t>(found - order_.begin()));
  return true;
}

bool TagMatching::match(std::uint64_t tag, ReceiveRequest& out) {
  for (std::size_t i = 0; i < awake_; ++i) {
    const Entry& entry = entries_[order_[i]];
    if ((tag & entry.mask) != entry.tag) continue;
    const ReceiveRequest& receive = entry.receive;
    out.wr_id = receive.wr_id;
    out.capacity_bytes = receive.capacity_bytes;
    out.segment_count = receive.segment_count;
    std::copy_n(receive.segments, receive.segment_count, out.segments);
    erase(i);
    return true;
  }
  return false;
}

void TagMatching::erase(std::size_t position) {
  free_.push_back(order_[position]);
  order_.erase(order_.begin() + static_cast<std::ptrdiff_t>(position));
  if (position < awake_) --awake_;
}

TaggedMessage TaggedMessage::read(ByteSpan payload) {
  TaggedMessage message{.kind = Kind::no_tag};
  if (payload.size() < TagHeader::kSize) return message;
  message.header = wire::decode_tag_header(payload.first<TagHeader::kSize>());
  if (message.header.operation == TagHeader::Operation::eager) {
    message.kind = Kind::eager;
  } else if (message.header.operation == TagHeader::Operation::rendezvous &&
             payload.size() >= message.bytes.size()) {
    message.kind = Kind::rendezvous;
    std::ranges::copy(payload.first(message.bytes.size()), message.bytes.begin());
  }
  return message;
}

std::uint64_t TaggedMessage::room(std::uint64_t capacity) const {
  switch (kind) {
    case Kind::eager:
      return capacity + TagHeader::kSize;
    case Kind::rendezvous:
    case Kind::rendezvous_too_long:
      return kRendezvousHeaderBytes;
    default:
      return capacity;
  }
}

TaggedMessage::Part TaggedMessage::part(std::uint64_t offset, ByteSpan payload,
                                        std::uint64_t capacity) const {
  switch (kind) {
    case Kind::eager:
      // The whole header is in the first packet, even with the smallest MTU.
      if (offset == 0) return {.offset = 0, .payload = payload.subspan(TagHeader::kSize)};
      return {.offset = offset - TagHeader::kSize, .payload = payload};
    case Kind::rendezvous:
      return {};  // The peer's memory is read instead.
    case Kind::rendezvous_too_long:
      return {.offset = offset,
              .payload = payload.first(std::min<std::uint64_t>(
                  payload.size(), offset < capacity ? capacity - offset : 0))};
    default:
      return {.offset = offset, .payload = payload};
  }
}

void TaggedMessage::describe_match(Completion& completion) const {
  completion.opcode = CompletionOpcode::tagged_receive;
  completion.flags |= kCompletionTagMatch;
  completion.tag = header.tag;
  completion.tag_context = header.context;
}

void TaggedMessage::describe(Completion& completion) const {
  if (kind == Kind::none) return;
  completion.opcode =
      kind == Kind::no_tag ? CompletionOpcode::untagged_receive : CompletionOpcode::tagged_receive;
  if (kind == Kind::no_tag || kind == Kind::unexpected) return;
  if (!match_reported) describe_match(completion);
  if (completion.status != Status::success) return;
  if (kind == Kind::eager) {
    completion.byte_count -= std::uint32_t{TagHeader::kSize};
    completion.flags |= kCompletionTagDataValid;
  } else if (kind == Kind::rendezvous) {
    completion.byte_count = 0;
  } else {
    completion.status = Status::rendezvous_incomplete;
  }
}

}  // namespace verbatim::adapter
