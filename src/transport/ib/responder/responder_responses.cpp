#include "transport/ib/responder/responder_responses.h"

#include <algorithm>

#include "base/assert.h"

namespace verbatim::transport {

using wire::Verb;

namespace {

constexpr wire::Opcode response(Verb verb, wire::Position position) {
  return wire::opcode_of(wire::Service::rc, verb, position);
}
constexpr wire::Opcode kReadFirst = response(Verb::read_response, wire::Position::first);
constexpr wire::Opcode kReadMiddle = response(Verb::read_response, wire::Position::middle);
constexpr wire::Opcode kReadLast = response(Verb::read_response, wire::Position::last);
constexpr wire::Opcode kReadOnly = response(Verb::read_response, wire::Position::only);
constexpr wire::Opcode kAtomicAcknowledge =
    response(Verb::atomic_acknowledge, wire::Position::only);

}  // namespace

void ResponseQueue::reset(std::uint32_t depth, Mtu path_mtu, wire::Service service) {
  service_ = service;
  depth_ = std::min(depth, kDepthMax);
  mtu_bytes_ = bytes_of(path_mtu);
  oldest_ = count_ = queue_head_ = queued_ = 0;
  last_polled_ = nullptr;
}

std::uint32_t ResponseQueue::packets_of(std::uint32_t length) const {
  return length == 0 ? 1 : (length - 1) / mtu_bytes_ + 1;
}

bool ResponseQueue::full() const { return count_ == depth_ && (depth_ == 0 || !oldest().answered); }

ResponseQueue::Entry& ResponseQueue::add(Psn psn, wire::Msn msn, Verb verb) {
  VERBATIM_ASSERT(!full());
  if (count_ == depth_) {
    // A new request shows that the requester has the answer to the oldest one: a repetition of it
    // is not needed any more.
    if (entries_[oldest_].queued) dequeue(entries_[oldest_]);
    oldest_ = (oldest_ + 1) % depth_;
    --count_;
  }
  ++count_;
  return newest() = Entry{.first_psn = psn, .msn = msn, .verb = verb};
}

void ResponseQueue::add_read(Psn first_psn, wire::Msn msn, const wire::Reth& reth, PdNumber pd,
                             SrqNumber srq) {
  Entry& entry = add(first_psn, msn, Verb::read_request);
  entry.pd = pd;
  entry.srq = srq;
  entry.key = reth.key;
  entry.address = reth.address;
  entry.length = entry.end = reth.length;
  enqueue(entry);
}

void ResponseQueue::add_executed(Psn psn, wire::Msn msn, Verb verb) { add(psn, msn, verb); }

void ResponseQueue::set_atomic_result(std::uint64_t original) {
  newest().original = original;
  enqueue(newest());
}

bool ResponseQueue::repeat_read(Psn psn, const wire::Reth& reth) {
  Entry* const entry = find(psn);
  if (entry == nullptr || entry->verb != Verb::read_request) return false;
  // IBA 9.7.5.1: the repetition is for bytes of the first request, from the packet that it names.
  const auto start = static_cast<std::uint32_t>(distance(entry->first_psn, psn)) * mtu_bytes_;
  if (reth.key != entry->key || reth.address != entry->address + start ||
      reth.length > entry->length - start) {
    return false;
  }
  entry->start = entry->next = start;
  entry->end = start + reth.length;
  if (!entry->queued) enqueue(*entry);
  return true;
}

bool ResponseQueue::repeat_executed(Psn psn, Verb verb) {
  Entry* const entry = find(psn);
  if (entry == nullptr || entry->verb != verb) return false;
  if (!entry->queued) enqueue(*entry);
  return true;
}

std::optional<ResponseQueue::Reach> ResponseQueue::reach_between(Psn psn, Psn end) const {
  for (std::uint32_t i = 0; i < count_; ++i) {
    const Entry& entry = entries_[(oldest_ + i) % depth_];
    // Compares both distances, because a remembered request may be half the PSN range old.
    if (distance(psn, entry.first_psn) > 0 && distance(entry.first_psn, end) > 0) {
      return Reach{entry.first_psn - 1, wire::Msn(entry.msn.value() - 1)};
    }
  }
  return std::nullopt;
}

/// Returns the remembered request that contains this PSN. Searches from the newest, because PSNs
/// repeat after 2^24 packets.
ResponseQueue::Entry* ResponseQueue::find(Psn psn) {
  for (std::uint32_t i = count_; i-- > 0;) {
    Entry& entry = entries_[(oldest_ + i) % depth_];
    const std::int32_t offset = distance(entry.first_psn, psn);
    if (offset >= 0 && offset < static_cast<std::int32_t>(packets_of(entry.length))) return &entry;
  }
  return nullptr;
}

void ResponseQueue::enqueue(Entry& entry) {
  queue_[(queue_head_ + queued_) % depth_] = static_cast<std::uint8_t>(&entry - entries_.data());
  ++queued_;
  entry.queued = true;
}

void ResponseQueue::dequeue(Entry& entry) {
  const auto index = static_cast<std::uint8_t>(&entry - entries_.data());
  std::uint32_t kept = 0;
  for (std::uint32_t i = 0; i < queued_; ++i) {
    const std::uint8_t other = queue_[(queue_head_ + i) % depth_];
    if (other != index) queue_[(queue_head_ + kept++) % depth_] = other;
  }
  queued_ = kept;
  entry.queued = false;
}

Psn ResponseQueue::psn_of(const Entry& entry) const {
  return entry.first_psn + entry.next / mtu_bytes_;
}

Psn ResponseQueue::next_psn() const { return psn_of(head()); }

void ResponseQueue::poll(OutgoingPacket& out) {
  Entry& entry = head();
  last_polled_ = &entry;
  last_psn_ = psn_of(entry);
  last_was_repetition_ = entry.answered;
  out.headers.bth.psn = last_psn_;
  out.headers.aeth = {.syndrome = wire::Syndrome::ack(), .msn = entry.msn};
  out.payload = {};
  if (entry.verb == Verb::compare_swap || entry.verb == Verb::fetch_add) {
    out.headers.bth.opcode = wire::in_service(kAtomicAcknowledge, service_);
    out.headers.atomic_ack = entry.original;
  } else {
    // The responses to FLUSH and ATOMIC WRITE are like that to a READ of 0 bytes (annex A19).
    poll_read(entry, out);
    entry.next += out.payload.length;
    if (entry.next != entry.end) return;
  }
  entry.answered = true;
  entry.queued = false;
  queue_head_ = (queue_head_ + 1) % depth_;
  --queued_;
}

void ResponseQueue::poll_read(Entry& entry, OutgoingPacket& out) const {
  const std::uint32_t left = entry.end - entry.next;
  const bool begins = entry.next == entry.start;
  const bool ends = left <= mtu_bytes_;
  const wire::Opcode opcode =
      begins ? (ends ? kReadOnly : kReadFirst) : (ends ? kReadLast : kReadMiddle);
  out.headers.bth.opcode = wire::in_service(opcode, service_);
  if (left == 0) return;
  out.payload.from = PayloadSource::From::region;
  out.payload.length = std::min(left, mtu_bytes_);
  out.payload.key = entry.key;
  out.payload.pd = entry.pd;
  out.payload.srq = entry.srq;
  out.payload.address = entry.address + entry.next;
}

std::optional<ResponseQueue::Reach> ResponseQueue::fail_last() {
  VERBATIM_ASSERT(last_polled_ != nullptr);
  if (last_was_repetition_) {
    if (last_polled_->queued) dequeue(*last_polled_);
    return std::nullopt;
  }
  for (Entry& entry : entries_) entry.queued = false;
  queued_ = 0;
  return Reach{last_psn_, wire::Msn(last_polled_->msn.value() - 1)};
}

}  // namespace verbatim::transport
