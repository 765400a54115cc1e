#include "ulp/rpcrdma/server_connection.h"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

namespace verbatim::ulp::rpcrdma {
namespace {

constexpr const char* kTooMany = "more calls than it was granted";
constexpr const char* kTooShort = "a message that is shorter than RPC-over-RDMA's header";

Slice rest_of(const Slice& slice, std::size_t from) {
  return {slice.data + from, slice.bytes - static_cast<std::uint32_t>(from), slice.local_key};
}

/// The key that the reply ends for the peer: the only one of the call's chunks.
std::optional<MemoryKey> only_key(const Header& header) {
  std::optional<MemoryKey> key;
  bool is_only = true;
  const auto see = [&](const RemoteRange& range) {
    is_only &= !key || *key == range.remote_key;
    key = range.remote_key;
  };
  for (const ReadSegment& read : header.reads) see(read.range);
  for (const RemoteRange& range : header.writes) see(range);
  if (header.reply) std::ranges::for_each(*header.reply, see);
  return is_only ? key : std::nullopt;
}

}  // namespace

ServerConnection::ServerConnection(const Options& options, const Pools& pools)
    // A slot is free when the completion of its reply is seen, and the peer may be faster.
    : options_(options), pools_(pools), calls_(options.credits + options.credits / 2) {}

ServerConnection::Call* ServerConnection::find_open(std::uint32_t xid) {
  Call* found = nullptr;
  calls_.for_each([&](Call& call) {
    if (call.state == State::open && call.record.empty() && call.rpc.xid == xid) found = &call;
  });
  return found;
}

ReceiveUse ServerConnection::refuse(HeaderFault fault, Output& out) {
  ++counts_.refused;
  if (fault == HeaderFault::too_short) {
    out.rdma.push(Disconnect{kTooShort});
    return ReceiveUse::done;
  }
  Header error{
      .xid = decoded_->header.xid, .credits = options_.credits, .procedure = Procedure::error};
  error.error = fault == HeaderFault::version ? ErrorCode::version : ErrorCode::chunk;
  out.rdma.push(Send{.header = ByteSpan(message_).first(encode(error, message_))});
  return ReceiveUse::done;
}

ReceiveUse ServerConnection::on_message(const Message& message, Output& out) {
  const auto header_bytes = decode(message.bytes(), decoded_->header);
  if (!header_bytes) return refuse(header_bytes.error(), out);
  if (decoded_->header.procedure == Procedure::error ||
      decoded_->header.procedure == Procedure::done)
    return ReceiveUse::done;
  const Slice payload = rest_of(message.memory, *header_bytes);
  const auto head = read_head({&payload, 1});
  if (decoded_->header.procedure == Procedure::msg && head && head->type == MessageType::reply) {
    on_back_reply(*head, payload, out);
    return ReceiveUse::done;
  }
  return on_call(message, payload, out);
}

void ServerConnection::on_back_reply(const MessageHead& head, const Slice& payload, Output& out) {
  if (!backchannel_.on_reply(head.xid, decoded_->header.credits)) return;
  Cuts none;
  push_record({.message = {&payload, 1}, .is_in_receive = true, .inserts = {}, .data = {}}, none,
              mark_, kNoTag, out.records);
  if (!backchannel_.has_waiting()) return;
  Lent record = backchannel_.next();
  if (const auto next = read_head(record.span())) on_back_call(record, *next, out);
}

ReceiveUse ServerConnection::on_call(const Message& message, const Slice& payload, Output& out) {
  if (open_ >= options_.credits || calls_.full()) {
    out.rdma.push(Disconnect{kTooMany});
    return ReceiveUse::done;
  }
  const auto parts = parts_of(decoded_->header, payload.bytes);
  if (!parts) return refuse(HeaderFault::chunk, out);
  Call& call = *calls_.take();
  call.lists = std::exchange(decoded_, spare_.take());
  ++open_;
  ++counts_.calls;
  call.parts = *parts;
  call.inline_bytes = payload;
  if (call.lists->header.reads.empty()) {
    forward(call, out);
    return ReceiveUse::done;
  }
  call.receive = message.receive;
  waiting_.push_back(calls_.tag_of(call));
  return ReceiveUse::kept;
}

bool ServerConnection::resume(Output& out) {
  if (waiting_.empty()) return false;
  Call* const call = calls_.find(waiting_.front());
  std::uint32_t bytes = 0;
  for (const ReadSegment& read : call->lists->header.reads) bytes += read.range.bytes;
  if (!pools_.chunks.take(bytes, call->chunks)) return false;
  waiting_.pop_front();
  read_chunks(*call, out);
  return !waiting_.empty();
}

void ServerConnection::read_chunks(Call& call, Output& out) {
  call.state = State::reading;
  std::uint32_t offset = 0;
  for (const auto& [position, range] : call.lists->header.reads) {
    if (range.bytes == 0) continue;
    out.rdma.push(Read{.into = add_cut(call.lists->cuts, call.chunks.span(), offset, range.bytes),
                       .from = range});
    offset += range.bytes;
  }
  counts_.read_bytes += offset;
  if (offset > 0) {
    std::get<Read>(out.rdma[out.rdma.size() - 1]).done = calls_.tag_of(call);
  } else {
    forward(call, out);
    out.rdma.push(PostAgain{call.receive});
  }
}

/// The whole call goes to the stream: the message, with each chunk's data at its position.
void ServerConnection::forward(Call& call, Output& out) {
  call.state = State::open;
  call.lists->cuts.clear();
  const auto chunks = call.chunks.span();
  const CallParts& parts = call.parts;
  RecordParts record{.message = {&call.inline_bytes, 1},
                     .is_in_receive = !parts.is_long,
                     .inserts = parts.inserts,
                     .data = chunks};
  Cuts long_message;
  if (parts.is_long) record.message = add_cut(long_message, chunks, 0, parts.message_bytes);
  XdrReader reader(record.message);
  const auto rpc = read_call(reader);
  if (!rpc || rpc->xid != call.lists->header.xid) {
    return fail(call,
                fmt::format("xid {:#x}: no RPC call follows the header", call.lists->header.xid),
                out);
  }
  call.rpc = *rpc;
  call.is_being_written =
      push_record(record, call.lists->cuts, mark_, calls_.tag_of(call), out.records);
}

void ServerConnection::on_written(Tag tag, Output& out) {
  Call* const call = calls_.find(tag);
  if (call == nullptr) return;
  call->is_being_written = false;
  pools_.chunks.give_back(call->chunks);
  if (!call->record.empty()) answer(*call, out);
}

/// READ's data goes into the first write chunk while the rest of it still comes.
void ServerConnection::on_part(std::span<const Slice> record, std::uint32_t filled, Output& out) {
  const auto head = read_head(record);
  if (filled < kPartBytes || !head || head->type != MessageType::reply) return;
  Call* const call = coming_ == kNoTag ? find_open(head->xid) : calls_.find(coming_);
  if (call == nullptr || call->is_being_written || call->lists->header.write_sizes.empty()) return;
  // Of the items, the first is found in what is there, if it begins there.
  const DataItems items = items_of_reply(call->rpc, record, false);
  if (items.empty() || items[0].position >= filled) return;
  const std::span<const RemoteRange> chunk(call->lists->header.writes.begin(),
                                           call->lists->header.write_sizes[0]);
  std::uint64_t room = 0;
  for (const RemoteRange& segment : chunk) room += segment.bytes;
  const std::uint32_t has = std::min(filled - items[0].position, items[0].bytes);
  if (room < items[0].bytes || has - call->placed < kPartBytes) return;
  if (coming_ == kNoTag) call->lists->cuts.clear();
  coming_ = calls_.tag_of(*call);
  write_item(*call, {record, items[0], chunk}, call->placed, has, out);
  call->placed = has;
}

void ServerConnection::on_record(Lent record, Output& out) {
  const Tag coming = std::exchange(coming_, kNoTag);
  const auto head = read_head(record.span());
  if (!head) {
    out.refusal = fmt::format("a record of {} bytes that is no RPC message", record.bytes());
    return pools_.records.give_back(record);
  }
  if (head->type == MessageType::call) return on_back_call(record, *head, out);
  Call* const call = coming == kNoTag ? find_open(head->xid) : calls_.find(coming);
  if (call == nullptr) return pools_.records.give_back(record);
  call->record = record;
  if (!call->is_being_written) answer(*call, out);
}

void ServerConnection::on_back_call(Lent& record, const MessageHead& head, Output& out) {
  const std::uint32_t bytes = record.bytes();
  if (Header::kLeastBytes + bytes > options_.limits.send) {
    out.refusal = fmt::format("a call back of {} bytes, and the peer receives {}", bytes,
                              options_.limits.send - Header::kLeastBytes);
  } else if (backchannel_.may_send()) {
    backchannel_.on_sent(head.xid);
    const Header header{.xid = head.xid, .credits = Backchannel::kWaitingMax};
    std::size_t at = encode(header, message_);
    for (const Slice& slice : record.slices) {
      std::copy_n(slice.data, slice.bytes, message_.begin() + at);
      at += slice.bytes;
    }
    out.rdma.push(Send{.header = ByteSpan(message_).first(at)});
  } else if (!backchannel_.is_full()) {
    return backchannel_.wait(record);
  } else {
    out.refusal = "calls back that the peer does not answer";
  }
  pools_.records.give_back(record);
}

void ServerConnection::answer(Call& call, Output& out) {
  Header& reply = reply_;
  reply.clear();
  reply.xid = call.lists->header.xid;
  reply.credits = options_.credits;
  if (call.placed == 0) call.lists->cuts.clear();
  Ranges kept;
  if (place_items(call, reply, kept, out)) place_rest(call, kept, reply, out);
}

/// Puts the data that the call has write chunks for into them. False: it has failed.
bool ServerConnection::place_items(Call& call, Header& reply, Ranges& kept, Output& out) {
  for (RemoteRange range : call.lists->header.writes) {
    range.bytes = 0;
    reply.writes.push(range);
  }
  for (const std::uint32_t size : call.lists->header.write_sizes) reply.write_sizes.push(size);
  DataItems items;
  if (!reply.write_sizes.empty()) items = items_of_reply(call.rpc, call.record.span(), false);
  std::size_t first = 0;
  std::uint32_t position = 0;
  for (std::size_t i = 0; i < reply.write_sizes.size(); ++i) {
    const std::size_t count = reply.write_sizes[i];
    if (i < items.size() && count > 0 && items[i].bytes > 0) {
      if (!place_item(call, items[i], first, count, reply, out)) return false;
      kept.push({position, items[i].position - position});
      position = items[i].position + padded(items[i].bytes);
    }
    first += count;
  }
  kept.push({position, call.record.bytes() - position});
  return true;
}

/// Into the chunk of `count` segments from `first` on.
bool ServerConnection::place_item(Call& call, const DataItem& item, std::size_t first,
                                  std::size_t count, Header& reply, Output& out) {
  std::uint32_t done = 0;
  for (std::size_t i = first; i < first + count; ++i) {
    reply.writes[i].bytes = std::min(call.lists->header.writes[i].bytes, item.bytes - done);
    done += reply.writes[i].bytes;
  }
  write_item(call, {call.record.span(), item, {&call.lists->header.writes[first], count}},
             std::exchange(call.placed, 0), done, out);
  counts_.written_bytes += done;
  if (done == item.bytes) return true;
  fail(call, fmt::format("data of {} bytes, and a write chunk of {}", item.bytes, done), out);
  return false;
}

/// Writes the bytes [`from`, `to`) of the item.
void ServerConnection::write_item(Call& call, const Placement& placement, std::uint32_t from,
                                  std::uint32_t to, Output& out) {
  std::uint64_t start = 0;  // Of the segment.
  for (const RemoteRange& segment : placement.chunk) {
    const auto begin = std::max<std::uint64_t>(from, start);
    const auto end = std::min<std::uint64_t>(to, start + segment.bytes);
    if (begin < end) {
      const auto at = static_cast<std::uint32_t>(placement.item.position + begin);
      const auto bytes = static_cast<std::uint32_t>(end - begin);
      out.rdma.push(Write{.from = add_cut(call.lists->cuts, placement.record, at, bytes),
                          .to = {segment.address + (begin - start), bytes, segment.remote_key}});
    }
    start += segment.bytes;
  }
}

/// What is left of the reply: into the reply chunk if there is one (RDMA_NOMSG), else inline.
bool ServerConnection::place_rest(Call& call, const Ranges& kept, Header& reply, Output& out) {
  std::uint32_t bytes = 0;
  const std::size_t first = call.lists->cuts.size();
  for (const auto& [position, length] : kept) {
    add_cut(call.lists->cuts, call.record.span(), position, length);
    bytes += length;
  }
  const std::span<const Slice> rest(call.lists->cuts.begin() + first,
                                    call.lists->cuts.size() - first);
  if (call.lists->header.reply) {
    reply.procedure = Procedure::nomsg;
    std::uint32_t done = 0;
    for (RemoteRange to : *call.lists->header.reply) {
      to.bytes = std::min(to.bytes, bytes - done);
      reply.reply = reply.reply.value_or(Segments{});
      reply.reply->push(to);
      if (to.bytes == 0) continue;
      out.rdma.push(Write{.from = add_cut(call.lists->cuts, rest, done, to.bytes), .to = to});
      done += to.bytes;
    }
    if (done < bytes) {
      fail(call, fmt::format("a reply of {} bytes, and a reply chunk of {}", bytes, done), out);
      return false;
    }
    send_reply(call, encode(reply, message_), out);
    return true;
  }
  if (encoded_bytes(reply) + bytes > options_.limits.send) {
    fail(call,
         fmt::format("a reply of {} bytes without a reply chunk, and the peer receives {}", bytes,
                     options_.limits.send),
         out);
    return false;
  }
  std::size_t at = encode(reply, message_);
  for (const Slice& slice : rest) {
    std::copy_n(slice.data, slice.bytes, message_.begin() + at);
    at += slice.bytes;
  }
  send_reply(call, at, out);
  return true;
}

void ServerConnection::fail(Call& call, std::string why, Output& out) {
  ++counts_.refused;
  out.refusal = std::move(why);
  const Header error{.xid = call.lists->header.xid,
                     .credits = options_.credits,
                     .procedure = Procedure::error,
                     .error = ErrorCode::chunk};
  send_reply(call, encode(error, message_), out);
}

void ServerConnection::send_reply(Call& call, std::size_t bytes, Output& out) {
  call.state = State::answering;
  --open_;
  ++counts_.replies;
  out.rdma.push(Send{
      .header = ByteSpan(message_).first(bytes),
      .invalidate = options_.peer_takes_invalidation ? only_key(call.lists->header) : std::nullopt,
      .done = calls_.tag_of(call)});
}

void ServerConnection::on_done(Tag tag, CompletionStatus status, Output& out) {
  Call* const call = calls_.find(tag);
  if (call == nullptr) return;
  if (call->state == State::answering) {
    pools_.records.give_back(call->record);
    pools_.chunks.give_back(call->chunks);
    spare_.give_back(std::move(call->lists));
    return calls_.give_back(*call);
  }
  if (call->state != State::reading || status != CompletionStatus::success) return;
  forward(*call, out);
  out.rdma.push(PostAgain{call->receive});
}

void ServerConnection::on_end(std::vector<ReceiveId>& kept) {
  calls_.for_each([&](Call& call) {
    if (call.state == State::waiting || call.state == State::reading) kept.push_back(call.receive);
    pools_.records.give_back(call.record);
    pools_.chunks.give_back(call.chunks);
    calls_.give_back(call);
  });
  waiting_.clear();
  while (backchannel_.has_waiting()) {
    Lent record = backchannel_.next();
    pools_.records.give_back(record);
  }
}

}  // namespace verbatim::ulp::rpcrdma
