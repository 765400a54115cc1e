#include "ulp/lnet/connection.h"

#include <algorithm>
#include <cerrno>
#include <utility>

namespace verbatim::ulp::lnet {
namespace {

/// Whether the peer gets its credit back at once. For put_request: when its put_done has come.
bool frees_receive(MessageKind kind) {
  return kind == MessageKind::immediate || kind == MessageKind::get_request ||
         kind == MessageKind::put_done;
}

}  // namespace

Connection::Connection(Above& above, Buffers& buffers, const Agreement& agreement, TimeNs now)
    : above_(above),
      buffers_(buffers),
      agreement_(agreement),
      credits_(agreement.sizes.depth),
      reserved_(agreement.sizes.depth),
      last_sent_(now),
      last_step_(now),
      checked_(now) {}

Connection::~Connection() { on_end(); }

bool Connection::send(Parcel parcel, TimeNs now) {
  if (waiting_.size() >= kWaitingMax) {
    if (parcel.bulk) buffers_.give_back(*parcel.bulk);
    return false;
  }
  if (is_idle()) last_step_ = now;
  waiting_.push_back(std::move(parcel));
  return true;
}

void Connection::fail(const char* why) {
  if (failure_ == nullptr) failure_ = why;
}

bool Connection::is_from_peer(const Message& message) const {
  const Ends& ours = agreement_.ends;
  return message.ends.source == ours.destination &&
         message.ends.source_stamp == ours.destination_stamp &&
         message.ends.destination == ours.source &&
         message.ends.destination_stamp == ours.source_stamp;
}

void Connection::take_credits(std::uint8_t credits) {
  if (credits_ + credits > agreement_.sizes.depth)
    return fail("the peer gives back more credits than it was paid");
  credits_ = static_cast<std::uint16_t>(credits_ + credits);
}

void Connection::on_message(ByteSpan bytes, TimeNs now) {
  const auto decoded = decode_message(bytes);
  if (!decoded) return fail(text_of(decoded.error()));
  const Message& message = *decoded;
  if (!is_from_peer(message)) return fail("a message is of or for a node that has started anew");
  last_step_ = now;
  take_credits(message.credits);
  if (frees_receive(message.kind)) ++owed_;
  switch (message.kind) {
    case MessageKind::noop:
      return;
    case MessageKind::immediate: {
      const ByteSpan payload = message.payload.first(message.header.payload_bytes);
      return above_.on_parcel(*this, {message.header, {payload.begin(), payload.end()}, {}}, now);
    }
    case MessageKind::put_request:
      return on_put_request(message);
    case MessageKind::put_accepted:
      return on_put_accepted(message);
    case MessageKind::put_refused:
      return on_put_refused(message);
    case MessageKind::put_done:
      return on_put_done(message, now);
    case MessageKind::get_request:
      return on_get_request(message, now);
    case MessageKind::get_done:
      return on_get_done(message, now);
    case MessageKind::connect:
    case MessageKind::accept:
      return fail("a message is of a kind that has no place in a connection");
  }
}

Connection::Transfer* Connection::begin(Transfer::Role role, const LnetHeader& header,
                                        const Buffer& buffer, TimeNs now) {
  Transfer* const transfer = transfers_.take();
  if (transfer == nullptr) return nullptr;
  transfer->role = role;
  transfer->header = header;
  transfer->buffer = buffer;
  transfer->gives_up = now + kPatience;
  return transfer;
}

Connection::Transfer* Connection::find(std::uint64_t cookie, Transfer::Role role) {
  if (cookie > ~std::uint32_t{0}) return nullptr;
  Transfer* const transfer = transfers_.find(Tag{static_cast<std::uint32_t>(cookie)});
  return transfer != nullptr && transfer->role == role ? transfer : nullptr;
}

void Connection::end(Transfer& transfer) {
  if (transfer.role == Transfer::Role::get_source) {
    above_.on_given(transfer.header, transfer.buffer);
  } else {
    buffers_.give_back(transfer.buffer);
  }
  transfers_.give_back(transfer);
}

void Connection::answer(MessageKind kind, std::uint64_t cookie, std::int32_t status) {
  urgent_.push_back({.message = {.kind = kind, .cookie = cookie, .status = status}});
}

void Connection::on_put_request(const Message& message) {
  // The peer has paid for each that is held, so they are bounded by its credits.
  if (held_.size() + transfers_.size() >= kTransfersMax)
    return fail("the peer asks for more transfers than it has credits");
  if (message.header.payload_bytes > Buffers::kBytes || !above_.wants(message.header)) {
    ++owed_;
    return answer(MessageKind::put_refused, message.cookie, -ENODATA);
  }
  held_.push_back({message.header, message.cookie});
}

void Connection::accept_held(TimeNs now) {
  while (!held_.empty() && !transfers_.full()) {
    const auto buffer = buffers_.take();
    if (!buffer) return;
    const Held held = held_.front();
    held_.pop_front();
    Transfer* const transfer = begin(Transfer::Role::put_sink, held.header, *buffer, now);
    const Slice& memory = buffer->memory;
    urgent_.push_back(
        {.message = {.kind = MessageKind::put_accepted,
                     .cookie = held.cookie,
                     .sink_cookie = raw(transfers_.tag_of(*transfer))},
         .key = raw(buffer->remote_key),
         .memory = {held.header.payload_bytes, reinterpret_cast<std::uint64_t>(memory.data)}});
  }
}

bool Connection::aim(Transfer& transfer, const Fragments& fragments) {
  const Slice& memory = transfer.buffer.memory;
  const std::uint32_t bytes = memory.bytes;
  std::uint32_t aimed = 0;
  for (std::size_t i = 0; i < fragments.size() && aimed < bytes; ++i) {
    const Fragment fragment = fragments[i];
    const std::uint32_t part = std::min(fragment.bytes, bytes - aimed);
    transfer.from.push_back({memory.data + aimed, part, memory.local_key});
    transfer.to.push_back({fragment.address, part, MemoryKey{fragments.key}});
    aimed += part;
  }
  if (aimed < bytes) return false;
  writing_.push_back(transfers_.tag_of(transfer));
  return true;
}

void Connection::on_put_accepted(const Message& message) {
  Transfer* const transfer = find(message.cookie, Transfer::Role::put_source);
  if (transfer == nullptr || !transfer->to.empty())
    return fail("the peer accepts what was not offered");
  ++reserved_;
  transfer->peer_cookie = message.sink_cookie;
  if (!aim(*transfer, message.fragments)) {
    answer(MessageKind::put_done, message.sink_cookie, -EMSGSIZE);
    end(*transfer);
  }
}

void Connection::on_put_refused(const Message& message) {
  Transfer* const transfer = find(message.cookie, Transfer::Role::put_source);
  if (transfer == nullptr || !transfer->to.empty())
    return fail("the peer refuses what was not offered");
  ++reserved_;
  end(*transfer);
}

void Connection::on_put_done(const Message& message, TimeNs now) {
  Transfer* const transfer = find(message.cookie, Transfer::Role::put_sink);
  if (transfer == nullptr) return fail("the peer ends a transfer that has not begun");
  if (message.status < 0) return end(*transfer);
  Parcel parcel{transfer->header, {}, transfer->buffer};
  transfers_.give_back(*transfer);
  above_.on_parcel(*this, std::move(parcel), now);
}

void Connection::on_get_request(const Message& message, TimeNs now) {
  const auto buffer = transfers_.full() ? std::nullopt : above_.find(message.header);
  if (!buffer) return answer(MessageKind::get_done, message.cookie, -ENODATA);
  Transfer* const transfer = begin(Transfer::Role::get_source, message.header, *buffer, now);
  transfer->peer_cookie = message.cookie;
  transfer->buffer.memory.bytes = std::min(buffer->memory.bytes, message.header.bytes);
  if (!aim(*transfer, message.fragments)) {
    answer(MessageKind::get_done, message.cookie, -EMSGSIZE);
    end(*transfer);
  }
}

void Connection::on_get_done(const Message& message, TimeNs now) {
  Transfer* const transfer = find(message.cookie, Transfer::Role::get_requester);
  if (transfer == nullptr) return fail("the peer answers what was not asked");
  ++reserved_;
  const LnetHeader& get = transfer->header;
  const auto bytes = static_cast<std::uint32_t>(std::max(message.status, 0));
  const LnetHeader reply{.destination = get.source,
                         .source = get.destination,
                         .operation = Operation::reply,
                         .payload_bytes = std::min(bytes, get.bytes),
                         .handle = get.handle};
  Parcel parcel{reply, {}, transfer->buffer};
  transfers_.give_back(*transfer);
  above_.on_parcel(*this, std::move(parcel), now);
}

void Connection::on_done(Tag tag, CompletionStatus) {
  if (tag == kNoopTag) {
    --noops_;
  } else if (Transfer* const transfer = transfers_.find(tag)) {
    end(*transfer);
  }
}

void Connection::on_time(TimeNs now) {
  checked_ = now;
  transfers_.for_each([&](const Transfer& transfer) {
    if (now >= transfer.gives_up) fail("the peer has not gone on with a transfer for 50 s");
  });
  if (!waiting_.empty() && now - last_step_ >= kPatience)
    fail("the peer has given back no credit for 50 s");
}

TimeNs Connection::deadline() const {
  return is_idle() ? last_sent_ + kKeepAlive : checked_ + kCheck;
}

void Connection::emit(Message message, Output& out, std::uint32_t key, const Fragment& memory,
                      Tag done) {
  message.ends = agreement_.ends;
  message.credits = static_cast<std::uint8_t>(std::min<std::uint16_t>(owed_, 255));
  owed_ = static_cast<std::uint16_t>(owed_ - message.credits);
  auto& bytes = out.messages[out.used++];
  const std::size_t length = encode(message, bytes, key, memory);
  out.work.push(Send{.header = ByteSpan(bytes).first(length), .done = done});
}

void Connection::pump(TimeNs now, Output& out) {
  if (failure_ != nullptr) {
    out.work.push(Disconnect{failure_});
    return;
  }
  accept_held(now);
  const std::size_t before = out.used;
  while (!urgent_.empty() && out.has_room()) {
    const Urgent next = urgent_.front();
    urgent_.pop_front();
    emit(next.message, out, next.key, next.memory);
  }
  pump_writes(out);
  while (out.has_room() && pump_next(now, out)) {
  }
  pump_noop(now, out);
  out.more = !out.has_room();
  if (out.used > before) last_sent_ = now;
}

void Connection::pump_writes(Output& out) {
  while (!writing_.empty()) {
    Transfer& transfer = *transfers_.find(writing_.front());
    while (transfer.next < transfer.to.size()) {
      if (!out.has_room()) return;
      const std::size_t i = transfer.next++;
      out.work.push(Write{.from = std::span(transfer.from).subspan(i, 1), .to = transfer.to[i]});
    }
    if (!out.has_room()) return;
    const bool is_put = transfer.role == Transfer::Role::put_source;
    emit({.kind = is_put ? MessageKind::put_done : MessageKind::get_done,
          .cookie = transfer.peer_cookie,
          .status = static_cast<std::int32_t>(transfer.buffer.memory.bytes)},
         out, 0, {}, writing_.front());
    writing_.pop_front();
  }
}

bool Connection::pump_next(TimeNs now, Output& out) {
  if (waiting_.empty() || credits_ == 0) return false;
  Parcel& parcel = waiting_.front();
  LnetHeader header = parcel.header;
  if (parcel.bulk && (reserved_ == 0 || transfers_.full())) return false;
  --credits_;
  last_step_ = now;
  if (!parcel.bulk) {
    emit({.kind = MessageKind::immediate, .header = header, .payload = parcel.small}, out);
  } else {
    --reserved_;
    const bool is_get = header.operation == Operation::get;
    Buffer buffer = *parcel.bulk;
    if (!is_get) buffer.memory.bytes = header.payload_bytes;
    Transfer* const transfer = begin(
        is_get ? Transfer::Role::get_requester : Transfer::Role::put_source, header, buffer, now);
    emit({.kind = is_get ? MessageKind::get_request : MessageKind::put_request,
          .header = header,
          .cookie = raw(transfers_.tag_of(*transfer))},
         out, raw(buffer.remote_key),
         {header.bytes, reinterpret_cast<std::uint64_t>(buffer.memory.data)});
  }
  waiting_.pop_front();
  return true;
}

/// Credits go back by themselves if nothing goes that they could ride in.
void Connection::pump_noop(TimeNs now, Output& out) {
  const bool owes_much = owed_ * 2 >= agreement_.sizes.depth;
  const bool is_quiet = is_idle() && now >= last_sent_ + kKeepAlive;
  if ((!owes_much && !is_quiet) || noops_ >= 2 || !out.has_room()) return;
  ++noops_;
  emit({.kind = MessageKind::noop}, out, 0, {}, kNoopTag);
}

void Connection::on_end() {
  transfers_.for_each([this](Transfer& transfer) { end(transfer); });
  for (const Parcel& parcel : waiting_) {
    if (parcel.bulk) buffers_.give_back(*parcel.bulk);
  }
  waiting_.clear();
  held_.clear();
  urgent_.clear();
  writing_.clear();
}

}  // namespace verbatim::ulp::lnet
