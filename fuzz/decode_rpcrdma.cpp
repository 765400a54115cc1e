// Any bytes from a peer of NFS over RDMA: headers, calls and replies are decoded within their
// bounds and encode to what they were, and both sides' connections take no harm and give all memory
// back. The first byte says which side; each message's length stands before it, in one byte, in
// words.
#include <deque>
#include <vector>

#include "base/assert.h"
#include "ulp/rpcrdma/client_connection.h"
#include "ulp/rpcrdma/record_stream.h"
#include "ulp/rpcrdma/server_connection.h"
#include "ulp/rpcrdma/wire/private_data.h"

namespace {

using namespace verbatim;
using namespace verbatim::ulp;
using namespace verbatim::ulp::rpcrdma;

void check_codecs(ByteSpan bytes) {
  Header header;
  if (const auto length = decode(bytes, header);
      length && (header.procedure == Procedure::msg || header.procedure == Procedure::nomsg)) {
    VERBATIM_ASSERT(encoded_bytes(header) == *length);
    std::vector<std::byte> again(*length);
    VERBATIM_ASSERT(encode(header, again) == *length);
    VERBATIM_ASSERT(std::equal(again.begin(), again.end(), bytes.begin()));
  }
  if (const auto facts = decode_facts(bytes))
    VERBATIM_ASSERT(decode_facts(encode(*facts)) == *facts);
  const Slice slice{
      const_cast<std::byte*>(bytes.data()), static_cast<std::uint32_t>(bytes.size()), {}};
  XdrReader reader({&slice, 1});
  if (const auto call = read_call(reader))
    VERBATIM_ASSERT(shape_of(*call, reader).reply_bytes <= kMessageMax);
  for (const bool is_reduced : {false, true}) {
    for (const RpcCall& call : {RpcCall{0, 100003, 4, 1, false}, RpcCall{0, 100003, 3, 6, false}}) {
      for (const DataItem& item : items_of_reply(call, {&slice, 1}, is_reduced))
        VERBATIM_ASSERT(item.position + (is_reduced ? 0 : item.bytes) <= bytes.size());
    }
  }
}

constexpr std::size_t kLarge = 2 * kPiecesMax;

struct Memory {
  Memory() : bytes((kLarge + 1) * kLargePiece) {
    std::vector<Slice> small, large;
    for (std::size_t i = 0; i < kLarge; ++i)
      large.push_back({bytes.data() + i * kLargePiece, kLargePiece, {}});
    for (std::size_t i = 0; i < 8; ++i)
      small.push_back({bytes.data() + kLarge * kLargePiece + i * kSmallPiece, kSmallPiece, {}});
    pool.emplace(small, large, std::vector<PiecePool::Keys>(1));
    all = pool->free_count();
  }
  std::vector<std::byte> bytes;
  std::optional<PiecePool> pool;
  std::size_t all = 0;
};

/// One connection: all its work succeeds, and whatever it reads is there.
class Peer {
 public:
  Peer(Connection& engine, Memory& records) : engine_(engine), stream_(*records.pool) {}
  void message(ByteSpan bytes) {
    auto& kept = messages_.emplace_back(bytes.begin(), bytes.end());
    const Slice memory{kept.data(), static_cast<std::uint32_t>(kept.size()), {}};
    engine_.on_message({.memory = memory}, out_);
    drain();
  }
  void stream(ByteSpan bytes) {
    while (!bytes.empty() && engine_.takes_records()) {
      const auto step = stream_.on_bytes(bytes);
      if (step == RecordStream::Step::waits || step == RecordStream::Step::too_long) return;
      if (step != RecordStream::Step::record) continue;
      engine_.on_record(stream_.take(), out_);
      drain();
    }
  }

 private:
  static Tag tag_of(const Work& work) {
    if (const auto* const send = std::get_if<Send>(&work)) return send->done;
    if (const auto* const read = std::get_if<Read>(&work)) return read->done;
    return kNoTag;
  }
  void drain() {
    for (bool more = true; more;) {
      std::deque<Tag> done, written;
      for (const Work& work : out_.rdma) {
        if (tag_of(work) != kNoTag) done.push_back(tag_of(work));
      }
      for (const Work& work : out_.records) {
        if (tag_of(work) != kNoTag) written.push_back(tag_of(work));
      }
      out_.clear();
      for (const Tag tag : written) engine_.on_written(tag, out_);
      for (const Tag tag : done) engine_.on_done(tag, CompletionStatus::success, out_);
      more = engine_.resume(out_) || !out_.rdma.empty() || !out_.records.empty();
    }
  }

  Connection& engine_;
  RecordStream stream_;
  Output out_;
  std::deque<std::vector<std::byte>> messages_;
};

void feed(Connection& engine, Memory& records, Memory& chunks, ByteSpan bytes) {
  {
    Peer peer(engine, records);
    while (!bytes.empty()) {
      const auto head = std::to_integer<std::size_t>(bytes.front());
      const std::size_t length = std::min<std::size_t>(4 * (head >> 1), bytes.size() - 1);
      const ByteSpan one = bytes.subspan(1, length);
      bytes = bytes.subspan(1 + length);
      if ((head & 1) != 0) {
        peer.stream(one);
      } else {
        peer.message(one);
      }
    }
  }
  std::vector<ReceiveId> kept;
  engine.on_end(kept);
  VERBATIM_ASSERT(records.pool->free_count() == records.all);
  VERBATIM_ASSERT(chunks.pool->free_count() == chunks.all);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const ByteSpan bytes = std::as_bytes(std::span(data, size));
  if (bytes.empty()) return 0;
  check_codecs(bytes.subspan(1));
  static Memory records, chunks;
  const Pools pools{*records.pool, *chunks.pool};
  if ((std::to_integer<unsigned>(bytes.front()) & 1) == 0) {
    ServerConnection server(
        {.limits = {.send = kInlineBytes, .receive = kInlineBytes}, .credits = 4}, pools);
    feed(server, records, chunks, bytes.subspan(1));
  } else {
    ClientConnection client({.limits = {}, .calls_max = 4}, pools);
    feed(client, records, chunks, bytes.subspan(1));
  }
  return 0;
}
