#pragma once

#include <array>
#include <cstdint>
#include <deque>
#include <memory>

#include "ulp/engine/slots.h"
#include "ulp/rpcrdma/assembly.h"
#include "ulp/rpcrdma/call_lists.h"
#include "ulp/rpcrdma/connection.h"
#include "ulp/rpcrdma/data_items.h"

namespace verbatim::ulp::rpcrdma {

/// The side that calls (RFC 8166's requester): takes calls from the stream, names memory for what
/// does not fit inline, and gives the whole replies back to the stream.
class ClientConnection final : public Connection {
 public:
  struct Options {
    InlineLimits limits;
    std::uint32_t calls_max = 64;
  };
  ClientConnection(const Options& options, const Pools& pools);

  ReceiveUse on_message(const Message& message, Output& out) override;
  void on_done(Tag tag, CompletionStatus status, Output& out) override;
  void on_record(Lent record, Output& out) override;
  void on_written(Tag tag, Output& out) override;
  bool takes_records() const override { return !calls_.full(); }
  bool resume(Output& out) override;
  bool waits_for_memory() const override { return !waiting_.empty(); }
  void on_end(std::vector<ReceiveId>& kept) override;

  std::uint32_t credits() const { return credits_; }

 private:
  static constexpr std::uint32_t kBackCredits = 16;  // Calls back that the peer may have open.
  enum class State : std::uint8_t {
    waiting,     // For a credit, or for memory.
    sent,        //
    delivering,  // The stream writes the reply.
    over,        // It waits for the completion of its SEND.
  };
  struct Call {
    State state{};
    std::unique_ptr<CallLists> lists;  // The header as it was sent.
    bool is_send_done = false;
    RpcCall rpc;
    CallShape shape;
    Lent record;  // The call,
    Lent chunks;  // and what the peer writes: the data of its results, then the reply.
    std::uint32_t reply_offset = 0;  // In `chunks`.
  };

  void refuse(std::uint32_t xid, std::string why, Output& out);
  void limit_results(Call& call);
  bool start(Call& call, Output& out);
  void offer_results(Call& call);
  void offer_segments(Call& call, std::uint32_t offset, std::uint32_t bytes, Segments& into);
  DataItem choose_reads(Call& call);
  void add_reads(Call& call, std::uint32_t position, std::uint32_t offset, std::uint32_t bytes);
  void send(Call& call, Output& out);
  void send_back_reply(Lent& record, Output& out);
  Call* find_sent(std::uint32_t xid);
  void on_reply(Call& call, const Slice& payload, Output& out);
  bool take_results(Call& call, std::span<const Slice> message, Inserts& inserts);
  void release_if_over(Call& call);

  const Options options_;
  const Pools pools_;
  Slots<Call> calls_;
  std::deque<Tag> waiting_;
  std::uint32_t sent_ = 0;     // Calls without a reply.
  std::uint32_t credits_ = 1;  // Until the peer says more.
  SpareLists spare_;
  Header decoded_;
  std::array<std::byte, kInlineBytes> message_{};  // Until the next input.
  std::array<std::byte, 4> mark_{};
};

}  // namespace verbatim::ulp::rpcrdma
