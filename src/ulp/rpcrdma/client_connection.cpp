#include "ulp/rpcrdma/client_connection.h"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

namespace verbatim::ulp::rpcrdma {
namespace {

constexpr std::uint32_t kDataMax = 1 << 20;  // That one READ may ask for; more is asked again.
constexpr const char* kNoRpc = "a message that is not RPC-over-RDMA version 1";

/// How many bytes the peer has put into `count` segments that begin at `offered`; none if it has
/// changed what was offered, or left a hole.
std::optional<std::uint32_t> filled(const RemoteRange* offered, const RemoteRange* used,
                                    std::size_t count) {
  std::uint32_t bytes = 0;
  bool is_over = false;
  for (std::size_t i = 0; i < count; ++i) {
    if (used[i].bytes > offered[i].bytes || (is_over && used[i].bytes > 0)) return std::nullopt;
    is_over |= used[i].bytes < offered[i].bytes;
    bytes += used[i].bytes;
  }
  return bytes;
}

}  // namespace

ClientConnection::ClientConnection(const Options& options, const Pools& pools)
    : options_(options), pools_(pools), calls_(options.calls_max + options.calls_max / 2) {}

ClientConnection::Call* ClientConnection::find_sent(std::uint32_t xid) {
  Call* found = nullptr;
  calls_.for_each([&](Call& call) {
    if (call.state == State::sent && call.rpc.xid == xid) found = &call;
  });
  return found;
}

void ClientConnection::refuse(std::uint32_t xid, std::string why, Output& out) {
  ++counts_.refused;
  out.refusal = std::move(why);
  const auto error = system_error(xid);
  std::ranges::copy(error, message_.begin());
  std::ranges::copy(record_mark(error.size()), mark_.begin());
  out.records.push(Send{.header = mark_});
  out.records.push(Send{.header = ByteSpan(message_).first(error.size())});
}

void ClientConnection::on_record(Lent record, Output& out) {
  const auto head = read_head(record.span());
  if (head && head->type == MessageType::reply) return send_back_reply(record, out);
  XdrReader reader(record.span());
  const auto rpc = read_call(reader);
  if (!rpc) {
    if (head) refuse(head->xid, fmt::format("xid {:#x}: no RPC call", head->xid), out);
    return pools_.records.give_back(record);
  }
  Call& call = *calls_.take();
  call.lists = spare_.take();
  ++counts_.calls;
  call.rpc = *rpc;
  call.record = record;
  call.shape = shape_of(*rpc, reader);
  limit_results(call);
  waiting_.push_back(calls_.tag_of(call));
}

/// A READ of more than we have memory for gets a part, as every NFS client expects it.
void ClientConnection::limit_results(Call& call) {
  std::uint32_t all = 0;
  for (DataItem& result : call.shape.results) {
    if (result.bytes > kDataMax) {
      result.bytes = kDataMax;
      cut(call.record.span(), result.position, 4,
          [](const Slice& word) { store_be(word.data, kDataMax); });
    }
    all += padded(result.bytes);
    if (all > kMessageMax) break;
  }
  if (all <= kMessageMax) return;
  call.shape.results.clear();
  call.shape.reply_bytes = kMessageMax;
}

bool ClientConnection::resume(Output& out) {
  if (waiting_.empty() || sent_ >= credits_) return false;
  Call* const call = calls_.find(waiting_.front());
  if (!start(*call, out)) return false;
  waiting_.pop_front();
  return !waiting_.empty();
}

/// Memory for what the reply brings beyond a SEND. False: there is none at the moment.
bool ClientConnection::start(Call& call, Output& out) {
  Header& header = call.lists->header;
  header.clear();
  header.xid = call.rpc.xid;
  header.credits = options_.calls_max;
  DataItems& results = call.shape.results;
  std::uint32_t data = 0;
  for (const DataItem& result : results) data += padded(result.bytes);
  const std::uint32_t reply = std::min(call.shape.reply_bytes, kMessageMax - data);
  const bool is_all_inline = Header::kLeastBytes + reply + data <= options_.limits.receive;
  const std::size_t list_bytes =
      results.size() * 8 + (results.size() + kPiecesMax) * 16;  // Of the reply's write list.
  const bool is_inline = Header::kLeastBytes + list_bytes + reply <= options_.limits.receive;
  const std::uint32_t chunks = is_all_inline ? 0 : data + (is_inline ? 0 : reply);
  if (!pools_.chunks.take(chunks, call.chunks)) return false;
  call.reply_offset = data;
  if (chunks > 0) offer_results(call);
  if (chunks > data) offer_segments(call, data, reply, header.reply.emplace());
  send(call, out);
  return true;
}

void ClientConnection::offer_segments(Call& call, std::uint32_t offset, std::uint32_t bytes,
                                      Segments& into) {
  cut(call.chunks.span(), offset, bytes,
      [&](const Slice& part) { into.push(pools_.chunks.range_of(part)); });
}

void ClientConnection::offer_results(Call& call) {
  std::uint32_t offset = 0;
  for (const DataItem& result : call.shape.results) {
    const std::size_t before = call.lists->header.writes.size();
    offer_segments(call, offset, result.bytes, call.lists->header.writes);
    call.lists->header.write_sizes.push(
        static_cast<std::uint32_t>(call.lists->header.writes.size() - before));
    offset += padded(result.bytes);
  }
}

void ClientConnection::add_reads(Call& call, std::uint32_t position, std::uint32_t offset,
                                 std::uint32_t bytes) {
  cut(call.record.span(), offset, bytes, [&](const Slice& part) {
    call.lists->header.reads.push({position, pools_.records.range_of(part)});
  });
}

/// Which part of the call the peer reads: nothing, WRITE's data, or all of it.
DataItem ClientConnection::choose_reads(Call& call) {
  const std::uint32_t bytes = call.record.bytes();
  if (encoded_bytes(call.lists->header) + bytes <= options_.limits.send) return {bytes, 0};
  if (call.shape.arguments.size() == 1) {
    const DataItem item = call.shape.arguments[0];
    add_reads(call, item.position, item.position, item.bytes);
    if (encoded_bytes(call.lists->header) + bytes - padded(item.bytes) <= options_.limits.send)
      return {item.position, padded(item.bytes)};
    call.lists->header.reads.clear();
  }
  call.lists->header.procedure = Procedure::nomsg;
  add_reads(call, 0, 0, bytes);
  return {0, bytes};
}

void ClientConnection::send(Call& call, Output& out) {
  const DataItem left_out = choose_reads(call);
  std::size_t at = encode(call.lists->header, message_);
  const auto add = [&](const Slice& part) {
    std::copy_n(part.data, part.bytes, message_.begin() + at);
    at += part.bytes;
  };
  const std::uint32_t behind = left_out.position + left_out.bytes;
  cut(call.record.span(), 0, left_out.position, add);
  cut(call.record.span(), behind, call.record.bytes() - behind, add);
  counts_.read_bytes += left_out.bytes;
  call.state = State::sent;
  ++sent_;
  out.rdma.push(Send{.header = ByteSpan(message_).first(at), .done = calls_.tag_of(call)});
}

ReceiveUse ClientConnection::on_message(const Message& message, Output& out) {
  const auto header_bytes = decode(message.bytes(), decoded_);
  if (!header_bytes) {
    out.rdma.push(Disconnect{kNoRpc});
    return ReceiveUse::done;
  }
  if (decoded_.procedure == Procedure::done) return ReceiveUse::done;
  const Slice payload{message.memory.data + *header_bytes,
                      message.memory.bytes - static_cast<std::uint32_t>(*header_bytes),
                      message.memory.local_key};
  const auto head = read_head({&payload, 1});
  if (decoded_.procedure == Procedure::msg && head && head->type == MessageType::call) {
    Cuts none;
    push_record({.message = {&payload, 1}, .is_in_receive = true, .inserts = {}, .data = {}}, none,
                mark_, kNoTag, out.records);
    return ReceiveUse::done;
  }
  Call* const call = find_sent(decoded_.xid);
  if (call == nullptr) return ReceiveUse::done;
  --sent_;
  ++counts_.replies;
  credits_ = std::clamp(decoded_.credits, 1u, options_.calls_max);
  call->state = State::over;
  pools_.records.give_back(call->record);
  on_reply(*call, payload, out);
  release_if_over(*call);
  return ReceiveUse::done;
}

/// The data that the peer has written, at the places in the message where it belongs.
bool ClientConnection::take_results(Call& call, std::span<const Slice> message, Inserts& inserts) {
  const Header& offered = call.lists->header;
  if (decoded_.write_sizes != offered.write_sizes) return false;
  const DataItems items = items_of_reply(call.rpc, message, true);
  std::size_t first = 0;
  std::uint32_t offset = 0, inserted = 0;
  for (std::size_t i = 0; i < offered.write_sizes.size(); ++i) {
    const std::size_t count = offered.write_sizes[i];
    const auto bytes = filled(&offered.writes[first], &decoded_.writes[first], count);
    if (!bytes) return false;
    if (*bytes > 0) {
      if (i >= items.size() || items[i].bytes != *bytes || inserts.full()) return false;
      inserts.push({items[i].position + inserted, offset, *bytes});
      inserted += padded(*bytes);
      counts_.written_bytes += *bytes;
    }
    first += count;
    offset += padded(call.shape.results[i].bytes);
  }
  return true;
}

void ClientConnection::on_reply(Call& call, const Slice& payload, Output& out) {
  if (decoded_.procedure == Procedure::error) {
    return refuse(call.rpc.xid,
                  fmt::format("the peer cannot carry program {} version {} procedure {}: {}",
                              call.rpc.program, call.rpc.version, call.rpc.procedure,
                              decoded_.error == ErrorCode::version ? "ERR_VERS" : "ERR_CHUNK"),
                  out);
  }
  RecordParts record{.message = {&payload, 1}, .is_in_receive = true, .inserts = {}, .data = {}};
  Cuts long_message;
  if (decoded_.procedure == Procedure::nomsg) {
    const Segments none;
    const Segments& used = decoded_.reply ? *decoded_.reply : none;
    const Segments& offered = call.lists->header.reply ? *call.lists->header.reply : none;
    const auto bytes = used.size() == offered.size()
                           ? filled(offered.begin(), used.begin(), used.size())
                           : std::nullopt;
    record.is_in_receive = false;
    record.message =
        add_cut(long_message, call.chunks.span(), call.reply_offset, bytes.value_or(0));
  }
  const auto head = read_head(record.message);
  record.data = call.chunks.span();
  if (!head || head->xid != call.rpc.xid || !take_results(call, record.message, record.inserts)) {
    return refuse(call.rpc.xid,
                  fmt::format("xid {:#x}: the peer's chunks do not fit its reply", call.rpc.xid),
                  out);
  }
  if (push_record(record, call.lists->cuts, mark_, calls_.tag_of(call), out.records))
    call.state = State::delivering;
}

void ClientConnection::send_back_reply(Lent& record, Output& out) {
  const Header header{.xid = read_head(record.span())->xid, .credits = kBackCredits};
  std::size_t at = encode(header, message_);
  if (at + record.bytes() > options_.limits.send) {
    out.refusal = fmt::format("an answer of {} bytes to a call back, and the peer receives {}",
                              record.bytes(), options_.limits.send - at);
  } else {
    for (const Slice& slice : record.slices) {
      std::copy_n(slice.data, slice.bytes, message_.begin() + at);
      at += slice.bytes;
    }
    out.rdma.push(Send{.header = ByteSpan(message_).first(at)});
  }
  pools_.records.give_back(record);
}

void ClientConnection::on_done(Tag tag, CompletionStatus, Output&) {
  Call* const call = calls_.find(tag);
  if (call == nullptr) return;
  call->is_send_done = true;
  release_if_over(*call);
}

void ClientConnection::on_written(Tag tag, Output&) {
  Call* const call = calls_.find(tag);
  if (call == nullptr || call->state != State::delivering) return;
  call->state = State::over;
  release_if_over(*call);
}

void ClientConnection::release_if_over(Call& call) {
  if (call.state != State::over) return;
  pools_.chunks.give_back(call.chunks);
  if (!call.is_send_done) return;
  spare_.give_back(std::move(call.lists));
  calls_.give_back(call);
}

void ClientConnection::on_end(std::vector<ReceiveId>&) {
  calls_.for_each([this](Call& call) {
    pools_.records.give_back(call.record);
    pools_.chunks.give_back(call.chunks);
    calls_.give_back(call);
  });
  waiting_.clear();
}

}  // namespace verbatim::ulp::rpcrdma
