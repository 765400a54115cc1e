#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/completion_status.h"
#include "ulp/engine/work.h"
#include "ulp/rpcrdma/pieces.h"
#include "ulp/rpcrdma/wire/private_data.h"

namespace verbatim::ulp::rpcrdma {

/// What one input causes. Both lists are carried out before the next input, `records` first: they
/// may name a receive that `rdma` posts again.
struct Output {
  WorkList rdma;        // On the RDMA connection.
  WorkList records;     // SENDs on the stream, which make whole records together.
  std::string refusal;  // A call that could not be carried, in words with both sides' values.
  void clear() {
    rdma.clear();
    records.clear();
    refusal.clear();
  }
};

inline constexpr std::uint32_t kInlineBytes = 4096;  // Of a message in a SEND, each way.

/// What both sides may put into a SEND.
struct InlineLimits {
  std::uint32_t send = ConnectionFacts::kBytesWithout;
  std::uint32_t receive = ConnectionFacts::kBytesWithout;
};
/// Of what the peer has said; without that, RFC 8166's least.
InlineLimits limits_with(const std::optional<ConnectionFacts>& peer);

/// Memory for records of the stream, and for what chunks move. Apart, so that neither side waits
/// for memory that only its own progress would free.
struct Pools {
  PiecePool& records;
  PiecePool& chunks;
};

/// Joins one RDMA connection with one stream of RPC records (RPC over TCP). It knows neither: a
/// pure step, whose owner carries out what it says.
class Connection {
 public:
  struct Counts {
    std::uint64_t calls = 0, replies = 0, refused = 0;
    std::uint64_t read_bytes = 0, written_bytes = 0;  // Of NFS: moved by chunks.
  };
  virtual ~Connection() = default;

  /// A message over RDMA.
  virtual ReceiveUse on_message(const Message& message, Output& out) = 0;
  /// Work of `Output::rdma` with this tag is over.
  virtual void on_done(Tag tag, CompletionStatus status, Output& out) = 0;
  /// The first `filled` bytes of a record are there, which comes by `on_record` when it is whole:
  /// what is known of it may begin already. May be left out.
  virtual void on_part(std::span<const Slice> record, std::uint32_t filled, Output& out);
  /// A record of the stream. Its memory is the engine's, which gives it back to `Pools::records`.
  virtual void on_record(Lent record, Output& out) = 0;
  /// The SEND of `Output::records` with this tag is written, or given up.
  virtual void on_written(Tag tag, Output& out) = 0;
  /// Whether one more record can be taken: the stream waits meanwhile.
  virtual bool takes_records() const = 0;
  /// What waits for memory or credits, one step: after each input, and after memory was given back,
  /// as long as it returns true.
  virtual bool resume(Output& out) = 0;
  virtual bool waits_for_memory() const = 0;
  /// Both sides are over and touch no memory any more: gives all of it back. `kept`: receives that
  /// it still had.
  virtual void on_end(std::vector<ReceiveId>& kept) = 0;

  const Counts& counts() const { return counts_; }

 protected:
  Counts counts_;
};

}  // namespace verbatim::ulp::rpcrdma
