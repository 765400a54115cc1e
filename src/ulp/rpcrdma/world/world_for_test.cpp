#include "ulp/rpcrdma/world/world_for_test.h"

#include <algorithm>
#include <cstring>

#include <fmt/format.h>

#include "base/overloaded.h"
#include "ulp/rpcrdma/world/nfs_messages_for_test.h"

namespace verbatim::ulp::rpcrdma {
namespace {

constexpr MemoryKey kRecordsKey{0x11}, kChunksKey{0x22};
constexpr std::size_t kOpenMax = 40;  // Calls of the NFS client.

void append(Bytes& to, ByteSpan bytes) { to.insert(to.end(), bytes.begin(), bytes.end()); }

void append_record(Bytes& to, const Bytes& message) {
  append(to, record_mark(static_cast<std::uint32_t>(message.size())));
  append(to, message);
}

/// The first whole record of what a stream has brought; none yet.
std::optional<Bytes> take_record(Bytes& from) {
  if (from.size() < 4) return std::nullopt;
  const std::uint32_t bytes = load_be<std::uint32_t>(from.data()) & ~kLastFragment;
  if (from.size() < 4 + bytes) return std::nullopt;
  Bytes record(from.begin() + 4, from.begin() + 4 + bytes);
  from.erase(from.begin(), from.begin() + 4 + bytes);
  return record;
}

std::uint32_t word_of(const Bytes& message, std::size_t index) {
  return load_be<std::uint32_t>(message.data() + 4 * index);
}

}  // namespace

World::Memory::Memory(std::size_t large, MemoryKey remote)
    : bytes(large * kLargePiece + 8 * kSmallPiece) {
  std::vector<Slice> small_pieces, large_pieces;
  for (std::size_t i = 0; i < large; ++i)
    large_pieces.push_back({bytes.data() + i * kLargePiece, kLargePiece, {}});
  for (std::size_t i = 0; i < 8; ++i)
    small_pieces.push_back({bytes.data() + large * kLargePiece + i * kSmallPiece, kSmallPiece, {}});
  pool.emplace(small_pieces, large_pieces, std::vector<PiecePool::Keys>{{{}, remote}});
  free_at_first = pool->free_count();
}

World::World(std::uint64_t seed, const Options& options) : random_(seed), options_(options) {
  for (Side* const side : {&client_, &server_}) {
    side->records = std::make_unique<Memory>(options.large_pieces, kRecordsKey);
    side->chunks = std::make_unique<Memory>(options.large_pieces, kChunksKey);
  }
  connect();
}

void World::connect() {
  client_.engine = std::make_unique<ClientConnection>(
      ClientConnection::Options{.limits = options_.limits, .calls_max = 16},
      Pools{*client_.records->pool, *client_.chunks->pool});
  server_.engine = std::make_unique<ServerConnection>(
      ServerConnection::Options{.limits = options_.limits,
                                .peer_takes_invalidation = false,
                                .credits = static_cast<std::uint32_t>(random_.between(1, 20))},
      Pools{*server_.records->pool, *server_.chunks->pool});
  for (Side* const side : {&client_, &server_})
    side->stream = std::make_unique<RecordStream>(*side->records->pool);
}

/// The connection is over: what was not answered is forgotten, as its ends would send it again.
void World::cut() {
  for (Side* const side : {&client_, &server_}) {
    for (const Job& job : std::exchange(side->rdma, {})) {
      const Tag tag = std::visit(
          Overloaded{[](const Send& one) { return one.done; },
                     [](const Read& one) { return one.done; },
                     [](const Write& one) { return one.done; }, [](const auto&) { return kNoTag; }},
          job.work);
      if (tag != kNoTag) side->engine->on_done(tag, CompletionStatus::flushed, output_);
      output_.clear();
    }
    std::vector<ReceiveId> kept;
    side->engine->on_end(kept);
    if (kept.size() != side->kept.size())
      fail(fmt::format("{} receives were kept, {} given back", side->kept.size(), kept.size()));
    side->stream.reset();
    for (Memory* const memory : {side->records.get(), side->chunks.get()}) {
      if (memory->pool->free_count() != memory->free_at_first) fail("memory was not given back");
    }
    side->kept.clear();
    side->written.clear();
    side->out.clear();
    side->in.clear();
  }
  calls_.clear();
  back_calls_.clear();
  to_answer_.clear();
}

std::vector<std::string> World::finish() {
  cut();
  return violations_;
}

void World::run(int calls) {
  const std::uint64_t wanted = answered_ + static_cast<std::uint64_t>(calls);
  for (int steps = 0; answered_ < wanted && violations_.empty(); ++steps) {
    if (steps > 3000 * calls) return fail("it stands still");
    if (calls_.size() < kOpenMax && random_.below(4) == 0) begin();
    step();
    if (!random_.chance(options_.cut)) continue;
    cut();
    connect();
  }
}

void World::begin() {
  const std::uint32_t xid = ++last_xid_;
  if (random_.below(12) == 0 && back_calls_.size() < 20) {
    auto [call, reply] = make_back_exchange(xid, random_);
    append_record(server_.in, call);
    back_calls_[xid] = {std::move(call), std::move(reply)};
    return;
  }
  auto [call, reply] = make_exchange(xid, random_);
  append_record(client_.in, call);
  calls_[xid] = {std::move(call), std::move(reply)};
}

void World::step() {
  Side& side = random_.below(2) == 0 ? client_ : server_;
  switch (random_.below(5)) {
    case 0:
    case 1:
      return work(side, other(side));
    case 2:
      return feed(side);
    case 3:
      if (side.written.empty()) return answer_some();
      side.engine->on_written(side.written.front(), output_);
      side.written.pop_front();
      return carry_out(side);
    default:
      on_client_bytes();
      on_server_bytes();
  }
}

void World::carry_out(Side& side) {
  for (bool more = true; more;) {
    if (!output_.refusal.empty()) fail(output_.refusal);
    for (const Work& one : output_.records) {
      const Send& send = std::get<Send>(one);
      append(side.out, send.header);
      for (const Slice& slice : send.payload) append(side.out, {slice.data, slice.bytes});
      if (send.done != kNoTag) side.written.push_back(send.done);
    }
    for (const Work& one : output_.rdma) {
      if (const auto* const end = std::get_if<Disconnect>(&one)) fail(end->reason);
      Job job{one, {}};
      if (const auto* const send = std::get_if<Send>(&one)) append(job.header, send->header);
      if (const auto* const again = std::get_if<PostAgain>(&one)) {
        if (side.kept.erase(raw(again->receive)) == 0) fail("a receive is posted twice");
      } else {
        side.rdma.push_back(std::move(job));
      }
    }
    output_.clear();
    more = side.engine->resume(output_);
    more |= !output_.rdma.empty() || !output_.records.empty();
  }
}

/// Carries out the first work of a side's RDMA connection.
void World::work(Side& side, Side& peer) {
  if (side.rdma.empty()) return;
  const Job job = std::move(side.rdma.front());
  side.rdma.pop_front();
  Tag tag = kNoTag;
  const auto move = [&](std::span<const Slice> local, const RemoteRange& remote, bool writes) {
    auto* const at = reinterpret_cast<std::byte*>(remote.address);
    const Memory& memory = writes ? *peer.chunks : *peer.records;
    if (remote.remote_key != (writes ? kChunksKey : kRecordsKey) || at < memory.bytes.data() ||
        at + remote.bytes > memory.bytes.data() + memory.bytes.size())
      return fail("memory that was not offered");
    std::size_t done = 0;
    for (const Slice& slice : local) {
      std::memcpy(writes ? at + done : slice.data, writes ? slice.data : at + done, slice.bytes);
      done += slice.bytes;
    }
    if (done != remote.bytes) fail("slices and range differ");
    moved_ += done;
  };
  std::visit(Overloaded{[&](const Send& send) {
                          tag = send.done;
                          deliver(side, peer, send, job.header);
                        },
                        [&](const Write& write) {
                          tag = write.done;
                          move(write.from, write.to, true);
                        },
                        [&](const Read& read) {
                          tag = read.done;
                          move(read.into, read.from, false);
                        },
                        [](const auto&) {}},
             job.work);
  if (tag == kNoTag) return;
  side.engine->on_done(tag, CompletionStatus::success, output_);
  carry_out(side);
}

void World::deliver(Side&, Side& peer, const Send& send, const Bytes& header) {
  if (!send.payload.empty() || header.size() > options_.limits.receive)
    return fail("a SEND that is too long");
  const std::uint32_t id = ++last_receive_;
  Bytes& receive = peer.kept[id] = header;
  const Slice memory{receive.data(), static_cast<std::uint32_t>(receive.size()), {}};
  const ReceiveUse use =
      peer.engine->on_message({.receive = ReceiveId{id}, .memory = memory}, output_);
  carry_out(peer);
  if (use == ReceiveUse::done) {
    std::ranges::fill(receive, std::byte{0xee});
    peer.kept.erase(id);
  }
}

/// Some bytes of a side's stream come in.
void World::feed(Side& side) {
  std::size_t bytes = std::min<std::size_t>(side.in.size(), random_.between(1, 200000));
  ByteSpan rest(side.in.data(), bytes);
  while (!rest.empty() && side.engine->takes_records()) {
    const auto step = side.stream->on_bytes(rest);
    if (step == RecordStream::Step::waits) break;
    if (step == RecordStream::Step::too_long) return fail("too long");
    if (step != RecordStream::Step::record) continue;
    side.engine->on_record(side.stream->take(), output_);
    carry_out(side);
  }
  if (const auto record = side.stream->coming(); !record.empty()) {
    side.engine->on_part(record, side.stream->filled(), output_);
    early_ += output_.rdma.size();
    carry_out(side);
  }
  side.in.erase(side.in.begin(),
                side.in.begin() + static_cast<std::ptrdiff_t>(bytes - rest.size()));
  carry_out(side);
}

void World::on_client_bytes() {
  while (const auto record = take_record(client_.out)) {
    const bool is_call = word_of(*record, 1) == raw(MessageType::call);
    auto& calls = is_call ? back_calls_ : calls_;
    const auto found = calls.find(word_of(*record, 0));
    if (found == calls.end()) return fail("a message of no call");
    if (*record != (is_call ? found->second.call : found->second.reply))
      return fail(fmt::format("xid {}: other bytes come than were sent", found->first));
    if (is_call) {
      append_record(client_.in, found->second.reply);
    } else {
      calls.erase(found);
      ++answered_;
    }
  }
}

void World::on_server_bytes() {
  while (const auto record = take_record(server_.out)) {
    const std::uint32_t xid = word_of(*record, 0);
    const bool is_call = word_of(*record, 1) == raw(MessageType::call);
    auto& calls = is_call ? calls_ : back_calls_;
    const auto found = calls.find(xid);
    if (found == calls.end()) return fail("the server gets a message of no call");
    if (*record != (is_call ? found->second.call : found->second.reply))
      return fail(fmt::format("xid {}: the server gets other bytes", xid));
    if (is_call) {
      to_answer_.push_back(xid);
    } else {
      calls.erase(found);
    }
  }
}

/// The NFS server answers in any order.
void World::answer_some() {
  if (to_answer_.empty()) return;
  const auto at =
      to_answer_.begin() + static_cast<std::ptrdiff_t>(random_.below(to_answer_.size()));
  append_record(server_.in, calls_.at(*at).reply);
  to_answer_.erase(at);
}

}  // namespace verbatim::ulp::rpcrdma
