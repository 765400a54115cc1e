// Sending, receiving and credits of a stream.
#include <algorithm>
#include <array>
#include <atomic>
#include <bit>
#include <cstring>

#include <endian.h>

#include "ulp/rsocket/endpoint.h"

namespace verbatim::rsocket {
namespace {

constexpr std::size_t kMostInline = 512;

Target swapped(const Target& target) {
  return {std::byteswap(target.address), std::byteswap(target.key), std::byteswap(target.length)};
}

}  // namespace

/// Returns the target in use. The peer may be writing it: its length is written last.
Target Endpoint::target() const {
  auto* at = reinterpret_cast<Target*>(target_list_) + target_;
  Target now{};
  now.length = std::atomic_ref(at->length).load(std::memory_order_acquire);
  now.address = std::atomic_ref(at->address).load(std::memory_order_relaxed);
  now.key = std::atomic_ref(at->key).load(std::memory_order_relaxed);
  return now;
}

bool Endpoint::can_send() const {
  return requests_free_ > 0 && send_free_ >= kLowWater && sent_ != sent_limit_ &&
         target().length != 0;
}

Outcome<std::size_t> Endpoint::send_some(Cursor& from, std::size_t most, bool is_urgent) {
  has_begun_ = true;
  const Target now = target();
  const std::size_t bytes =
      std::min({from.left(), most, std::size_t{send_free_}, std::size_t{now.length}});
  // Updates our copy of the target before the data is sent: afterwards the peer may renew it.
  auto* note = reinterpret_cast<Target*>(target_list_) + target_;
  note->address += bytes;
  note->length -= static_cast<std::uint32_t>(bytes);
  if (bytes == now.length) target_ = (target_ + 1) % kTargets;
  ++sent_;
  const std::uint32_t mark = is_urgent && bytes == from.left() ? kUrgent : 0;
  const auto word = message(Op::data, static_cast<std::uint32_t>(bytes) | mark);
  if (auto ok = write(from, bytes, word, true, now.address, now.key); !ok) return fail(ok.error());
  return bytes;
}

Outcome<void> Endpoint::write(Cursor& from, std::size_t bytes, std::uint32_t word,
                              bool with_immediate, std::uint64_t address, std::uint32_t key) {
  // With nothing in flight, as usual on the direct path: at the start, which is in the cache.
  if (send_free_ == sizes_.send_bytes) send_at_ = 0;
  --requests_free_;
  send_free_ -= static_cast<std::uint32_t>(bytes);
  if (bytes <= std::min<std::size_t>(sizes_.inline_bytes, kMostInline)) {
    std::array<std::byte, kMostInline> copy;
    from.read(copy.data(), bytes);
    ibv_sge piece{.addr = reinterpret_cast<std::uint64_t>(copy.data()),
                  .length = static_cast<std::uint32_t>(bytes),
                  .lkey = 0};
    return post_write(&piece, 1, word, with_immediate, IBV_SEND_INLINE, address, key);
  }
  std::array<ibv_sge, 2> pieces{};
  int count = 0;
  for (std::size_t left = bytes; left > 0; ++count) {  // Two pieces if the buffer wraps.
    const std::size_t size = std::min<std::size_t>(left, sizes_.send_bytes - send_at_);
    from.read(send_buffer_.data() + send_at_, size);
    pieces[count] = {.addr = send_buffer_.address() + send_at_,
                     .length = static_cast<std::uint32_t>(size),
                     .lkey = send_buffer_.lkey()};
    send_at_ = (send_at_ + static_cast<std::uint32_t>(size)) % sizes_.send_bytes;
    left -= size;
  }
  return post_write(pieces.data(), count, word, with_immediate, 0, address, key);
}

Outcome<void> Endpoint::post_write(ibv_sge* pieces, int count, std::uint32_t word,
                                   bool with_immediate, unsigned flags, std::uint64_t address,
                                   std::uint32_t key) {
  const bool word_follows = with_immediate && sends_words_;
  if (word_follows && count == 0) return post_word(word);
  ibv_send_wr request{};
  request.wr_id = word_follows ? kUncounted | word : word;
  request.sg_list = pieces;
  request.num_sge = count;
  request.opcode = with_immediate && !word_follows ? IBV_WR_RDMA_WRITE_WITH_IMM : IBV_WR_RDMA_WRITE;
  request.send_flags = flags;
  request.imm_data = htobe32(word);
  request.wr.rdma.remote_addr = address;
  request.wr.rdma.rkey = key;
  if (auto ok = post(request); !ok || !word_follows) return ok;
  return post_word(word);
}

Outcome<void> Endpoint::post_word(std::uint32_t word) {
  ibv_sge piece{.addr = reinterpret_cast<std::uint64_t>(&word), .length = sizeof word, .lkey = 0};
  ibv_send_wr request{};
  request.wr_id = word;
  request.sg_list = &piece;
  request.num_sge = 1;
  request.opcode = IBV_WR_SEND;
  request.send_flags = IBV_SEND_INLINE;
  return post(request);
}

Outcome<void> Endpoint::post(ibv_send_wr& request) {
  ibv_send_wr* bad = nullptr;
  if (const int error = ibv_post_send(id_->qp, &request, &bad); error != 0) {
    broken_ = true;
    return fail(error);
  }
  return {};
}

Outcome<void> Endpoint::send_control(Control control) {
  ++controls_;
  return post_write(nullptr, 0, message(Op::control, static_cast<std::uint32_t>(control)), true, 0,
                    0, 0);
}

/// Copies bytes of the receive buffer, which begins again at its end.
void Endpoint::copy_out(std::uint32_t at, std::size_t bytes, Cursor& to) const {
  const std::size_t run = std::min<std::size_t>(bytes, sizes_.receive_bytes - at);
  to.write(receive_buffer_.data() + at, run);
  to.write(receive_buffer_.data(), bytes - run);
}

std::size_t Endpoint::receive(Cursor& to) {
  if (to.left() > 0) consume(mark_.hole());
  const auto bytes = std::min({to.left(), unread_, static_cast<std::size_t>(mark_.bytes_before())});
  copy_out(receive_at_, bytes, to);
  consume(bytes);
  give_credits();
  return bytes;
}

void Endpoint::consume(std::size_t bytes) {
  receive_at_ = (receive_at_ + static_cast<std::uint32_t>(bytes)) % sizes_.receive_bytes;
  read_ += static_cast<std::uint32_t>(bytes);
  unread_ -= bytes;
  mark_.read(bytes);
  while (!messages_.empty()) {
    const std::size_t size = std::min<std::size_t>(bytes, messages_.front());
    bytes -= size;
    messages_.front() -= static_cast<std::uint32_t>(size);
    if (messages_.front() != 0) return;
    messages_.pop_front();
    ++received_;
  }
}

std::size_t Endpoint::peek(Cursor& to) const {
  const std::uint32_t hole = mark_.hole();
  const auto bytes =
      std::min({to.left(), unread_ - hole, static_cast<std::size_t>(mark_.bytes_before())});
  copy_out((receive_at_ + hole) % sizes_.receive_bytes, bytes, to);
  return bytes;
}

/// Half of the first ones were used, also by messages that are unread.
bool Endpoint::wants_more_receives() const {
  return receives_ < sizes_.receive_requests && received_ + messages_.size() >= receives_ / 2U;
}

bool Endpoint::owes_credits() const {
  const bool messages = static_cast<std::int16_t>(received_ - credit_at_) >= 0;
  return has_begun_ && (messages || read_ >= half() || wants_more_receives()) && can_control() &&
         !peer_gone_ && !broken_ && peer_targets_.length != 0;
}

void Endpoint::give_credits() {
  while (owes_credits()) {
    if (wants_more_receives() && !post_receives(sizes_.receive_requests)) broken_ = true;
    credit_at_ = static_cast<std::uint16_t>(received_ + receives_ / 2);
    const auto limit = static_cast<std::uint16_t>(received_ + receives_);
    const std::uint32_t word = message(Op::credits, limit);
    ++controls_;
    if (read_ < half()) {
      static_cast<void>(post_write(nullptr, 0, word, true, 0, 0, 0));
      continue;
    }
    Target fresh{receive_buffer_.address() + offer_at_, receive_buffer_.rkey(), half()};
    if (swap_) fresh = swapped(fresh);
    // Inline data would be enough, but not every queue pair has it.
    std::byte* place = send_buffer_.data() + sizes_.send_bytes + control_place_ * sizeof(Target);
    control_place_ = (control_place_ + 1) % kControlSlots;
    ibv_sge piece{.addr = reinterpret_cast<std::uint64_t>(&fresh),
                  .length = sizeof fresh,
                  .lkey = send_buffer_.lkey()};
    unsigned flags = IBV_SEND_INLINE;
    if (sizes_.inline_bytes < sizeof fresh) {
      std::memcpy(place, &fresh, sizeof fresh);
      piece.addr = reinterpret_cast<std::uint64_t>(place);
      flags = 0;
    }
    static_cast<void>(post_write(&piece, 1, word, true, flags,
                                 peer_targets_.address + peer_target_ * sizeof(Target),
                                 peer_targets_.key));
    peer_target_ = (peer_target_ + 1) % peer_targets_.length;
    read_ -= half();
    offer_at_ = (offer_at_ + half()) % (2 * half());
  }
}

void Endpoint::arm() {
  if (armed_) return;
  ibv_req_notify_cq(ibv_cq_ex_to_cq(cq_), 0);
  armed_ = true;
}

/// Afterwards the queue must be armed again. The event may still be on its way, and comes later
/// then, or not at all if its completion has been taken.
bool Endpoint::take_channel_event() {
  armed_ = false;
  ibv_cq* cq = nullptr;
  void* context = nullptr;
  if (ibv_get_cq_event(channel_, &cq, &context) != 0) return false;
  ibv_ack_cq_events(cq, 1);
  return true;
}

bool Endpoint::process(bool surely) {
  bool was_there = surely && take_channel_event();
  const std::uint32_t before = arrivals_;
  const bool works = take_all(cq_, [&](const ibv_wc& completion, TimeNs at) {
    // Taking the event is a system call, so only if there was one: who sleeps must arm again.
    if (armed_) was_there |= take_channel_event();
    if (arrivals_ == before) arrived_at_ = at;
    take(completion);
  });
  if (!works) broken_ = true;
  for (; receives_owed_ > 0 && !broken_ && !peer_gone_; --receives_owed_) {
    if (!post_receive()) broken_ = true;
  }
  give_credits();
  return was_there;
}

void Endpoint::take(const ibv_wc& completion) {
  const bool well = completion.status == IBV_WC_SUCCESS;
  if ((completion.wr_id & kUncounted) != 0) {
    if (!well) broken_ = true;
    return;
  }
  if ((completion.wr_id & kReceive) == 0) {
    return on_sent(static_cast<std::uint32_t>(completion.wr_id), well);
  }
  if (!well) return;  // It was flushed.
  ++receives_owed_;
  if ((completion.wc_flags & IBV_WC_WITH_IMM) != 0) return on_message(be32toh(completion.imm_data));
  const std::size_t slot = completion.wr_id & ~kReceive;
  std::uint32_t word = 0;
  std::memcpy(&word, receive_buffer_.data() + sizes_.receive_bytes + slot * sizeof word,
              sizeof word);
  on_message(word);
}

void Endpoint::on_message(std::uint32_t word) {
  has_begun_ = true;
  const std::uint32_t value = value_of(word);
  switch (op_of(word)) {
    case Op::data:
      return on_data(value & ~kUrgent, (value & kUrgent) != 0);
    case Op::credits:
      sent_limit_ = static_cast<std::uint16_t>(value);
      return;
    case Op::iomap:
      ++received_;  // It has cost the peer a credit.
      return;
    case Op::control:
      ++arrivals_;
      if (was_reset_) return;  // That both ends are over follows.
      if (value == static_cast<std::uint32_t>(Control::disconnect)) peer_shut_ = peer_gone_ = true;
      if (value == static_cast<std::uint32_t>(Control::shutdown)) peer_shut_ = true;
      if (value == static_cast<std::uint32_t>(Control::reset)) {
        peer_gone_ = was_reset_ = true;
      }
      return;
    default:
      return;
  }
}

void Endpoint::on_data(std::uint32_t bytes, bool is_urgent) {
  ++arrivals_;
  if (bytes > sizes_.receive_bytes - unread_) {  // More than the peer was offered.
    broken_ = true;
    return;
  }
  std::optional<std::byte> urgent;
  if (is_urgent && bytes > 0) {
    consume(mark_.hole());  // That of an earlier mark.
    urgent = receive_buffer_.data()[(receive_at_ + unread_ + bytes - 1) % sizes_.receive_bytes];
  }
  mark_.arrive(bytes, urgent);
  messages_.push_back(bytes);
  unread_ += bytes;
  if (messages_.size() == 1) consume(0);  // An empty one gives its credit back.
}

/// Without room for the message the peer sees an end.
void Endpoint::abort() {
  if (can_control()) static_cast<void>(send_control(Control::reset));
}

void Endpoint::on_sent(std::uint32_t word, bool well) {
  const Op op = op_of(word);
  if (op == Op::credits || op == Op::control) {
    --controls_;
  } else {
    ++requests_free_;
    send_free_ +=
        op == Op::iomap ? static_cast<std::uint32_t>(sizeof(IoMapping)) : value_of(word) & ~kUrgent;
  }
  if (!well) broken_ = true;
}

}  // namespace verbatim::rsocket
