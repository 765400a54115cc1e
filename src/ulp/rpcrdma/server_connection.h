#pragma once

#include <array>
#include <cstdint>
#include <deque>
#include <memory>

#include "ulp/engine/slots.h"
#include "ulp/rpcrdma/assembly.h"
#include "ulp/rpcrdma/backchannel.h"
#include "ulp/rpcrdma/call_lists.h"
#include "ulp/rpcrdma/connection.h"
#include "ulp/rpcrdma/data_items.h"

namespace verbatim::ulp::rpcrdma {

/// The side that answers calls (RFC 8166's responder): reads the caller's chunks, hands the whole
/// call to the stream, and puts the reply of the stream into the chunks that the call has named.
class ServerConnection final : public Connection {
 public:
  struct Options {
    InlineLimits limits;
    bool peer_takes_invalidation = false;
    std::uint32_t credits = 64;  // Calls that the peer may have open.
  };
  ServerConnection(const Options& options, const Pools& pools);

  ReceiveUse on_message(const Message& message, Output& out) override;
  void on_done(Tag tag, CompletionStatus status, Output& out) override;
  void on_part(std::span<const Slice> record, std::uint32_t filled, Output& out) override;
  void on_record(Lent record, Output& out) override;
  void on_written(Tag tag, Output& out) override;
  bool takes_records() const override { return true; }
  bool resume(Output& out) override;
  bool waits_for_memory() const override { return !waiting_.empty(); }
  void on_end(std::vector<ReceiveId>& kept) override;

  std::uint32_t open_calls() const { return open_; }

 private:
  enum class State : std::uint8_t {
    waiting,    // For memory for its chunks.
    reading,    // RDMA READs are on their way.
    open,       // The stream has it.
    answering,  // The reply is on its way.
  };
  /// One call, from its message until its reply is sent.
  struct Call {
    State state{};
    std::unique_ptr<CallLists> lists;
    CallParts parts;
    RpcCall rpc;
    Lent chunks;                    // What is read of the peer.
    Lent record;                    // The reply.
    std::uint32_t placed = 0;       // Of its first item, in the first write chunk.
    bool is_being_written = false;  // `chunks`, to the stream.
    ReceiveId receive{};            // While its chunks are read.
    Slice inline_bytes{};
  };
  /// What of the reply stays in it.
  using Ranges = InplaceVector<DataItem, kWriteChunksMax + 1>;

  ReceiveUse refuse(HeaderFault fault, Output& out);
  void on_back_reply(const MessageHead& head, const Slice& payload, Output& out);
  void on_back_call(Lent& record, const MessageHead& head, Output& out);
  ReceiveUse on_call(const Message& message, const Slice& payload, Output& out);
  void read_chunks(Call& call, Output& out);
  void forward(Call& call, Output& out);
  void answer(Call& call, Output& out);
  bool place_items(Call& call, Header& reply, Ranges& kept, Output& out);
  bool place_item(Call& call, const DataItem& item, std::size_t first, std::size_t count,
                  Header& reply, Output& out);
  /// Data of a reply, and the chunk of the call that it goes to.
  struct Placement {
    std::span<const Slice> record;
    DataItem item;
    std::span<const RemoteRange> chunk;
  };
  void write_item(Call& call, const Placement& placement, std::uint32_t from, std::uint32_t to,
                  Output& out);
  bool place_rest(Call& call, const Ranges& kept, Header& reply, Output& out);
  void fail(Call& call, std::string why, Output& out);
  void send_reply(Call& call, std::size_t bytes, Output& out);
  Call* find_open(std::uint32_t xid);

  const Options options_;
  const Pools pools_;
  Slots<Call> calls_;
  std::deque<Tag> waiting_;
  std::uint32_t open_ = 0;  // Calls that are not answered.
  Tag coming_ = kNoTag;     // The call whose reply comes, if a part of it is placed.
  Backchannel backchannel_;
  SpareLists spare_;
  std::unique_ptr<CallLists> decoded_ = spare_.take();  // Of the message, which may be a call.
  Header reply_;                                        // Until it is encoded.
  std::array<std::byte, kInlineBytes> message_{};       // Until the next input.
  std::array<std::byte, 4> mark_{};
};

}  // namespace verbatim::ulp::rpcrdma
