#pragma once

#include <cstdint>
#include <memory>

#include <rdma/rdma_cma.h>

#include "ulp/rsocket/completions.h"
#include "ulp/rsocket/memory.h"
#include "ulp/rsocket/stream_end.h"
#include "ulp/sdp/stream.h"

namespace verbatim::rsocket {

/// One end of a connected stream of the Sockets Direct Protocol: the queue pair and the buffers of
/// an `ulp::sdp::Stream`, which decides what is sent.
///
/// Each message is in a slot: the user's bytes behind a header. A slot of the receive buffer is
/// posted again when its bytes have been read.
class SdpEnd final : public StreamEnd {
 public:
  /// Creates the queue pair as the id's own (`id->qp`).
  static Outcome<std::unique_ptr<SdpEnd>> make(rdma_cm_id* id, const Sizes& sizes);
  ~SdpEnd() override;
  SdpEnd(const SdpEnd&) = delete;

  std::vector<std::byte> offer() const override;
  Outcome<void> start(std::span<const std::byte> peer) override;

  bool process(bool surely) override;
  void arm() override;
  bool armed() const override { return armed_; }
  int channel() const override { return channel_->fd; }

  bool can_send() const override { return slots_free_ > 0 && stream_.room() > 0 && !broken_; }
  Outcome<std::size_t> send_some(Cursor& from, std::size_t most, bool is_urgent) override;
  std::size_t first_transfer() const override { return kMostTransfer; }
  std::uint32_t arrivals() const override { return arrivals_; }
  TimeNs arrived_at() const override { return arrived_at_; }
  bool has_data() const override { return stream_.has_data() || stream_.borrowed(); }
  std::size_t bytes_to_read() const override;
  std::size_t receive(Cursor& to) override;
  std::size_t peek(Cursor& to) const override;

  bool can_finish() const override { return true; }
  Outcome<void> finish(bool is_gone) override;
  /// Returns true even if there are no credits for DisConn: the connection's end says it, too.
  bool all_sent() const override { return slots_free_ == slots_ && controls_free_ == kControls; }

  void abort() override;
  bool was_reset() const override { return stream_.peer_aborted(); }

  bool has_urgent() const override { return true; }
  std::uint32_t urgents() const override { return urgents_; }
  bool is_urgent() const override { return stream_.is_urgent(); }
  bool is_at_mark() const override { return stream_.is_at_mark(); }
  std::optional<std::byte> urgent(bool peek) override { return stream_.urgent(peek); }
  void set_urgent_inline(bool is_inline) override { stream_.set_urgent_inline(is_inline); }

  bool may_lend(std::size_t bytes) const override;
  Outcome<void> lend(std::span<std::byte> memory) override;
  bool is_lent() const override { return stream_.is_lending(); }
  void reclaim() override;
  std::size_t take_back() override;
  void prepare_read(std::size_t bytes, bool peeks) override;
  std::uint8_t reads() const override { return kReads; }

  bool peer_shut() const override { return stream_.peer_finished(); }
  bool peer_gone() const override { return stream_.peer_finished() && broken_; }
  bool broken() const override { return broken_; }
  const Sizes& sizes() const override { return sizes_; }

 private:
  static constexpr std::uint32_t kControls = 8;  // Messages besides Data that may be in flight.

  static constexpr std::uint8_t kReads = 4;

  SdpEnd(rdma_cm_id* id, const Sizes& sizes, const ulp::sdp::Limits& limits);
  Outcome<void> make_queues();
  Outcome<void> make_buffers();
  Outcome<void> post_receive(std::uint32_t slot);
  Outcome<void> post_send(std::uint64_t number, std::uint64_t offset, std::size_t bytes);
  bool take_channel_event();
  void take(const ibv_wc& completion);
  void on_message(std::uint32_t slot, std::uint32_t bytes);
  /// Reads the next bytes from the peer's memory into the user's, if there are enough.
  std::size_t borrow(Cursor& to);
  Outcome<void> post_read(const Memory& to, std::size_t bytes,
                          const ulp::sdp::SourceAvailable& from);
  /// Sends what the stream owes the peer besides Data.
  void send_controls();

  rdma_cm_id* id_;
  Sizes sizes_;
  ulp::sdp::Limits limits_;
  ulp::sdp::Stream stream_;
  ibv_comp_channel* channel_ = nullptr;
  ibv_cq_ex* cq_ = nullptr;
  bool armed_ = false;
  bool broken_ = false;
  bool was_asked_ = false;  // The passive side: `answer_` is for the peer's Hello.
  ulp::sdp::HelloAck answer_;
  std::uint32_t arrivals_ = 0;
  TimeNs arrived_at_ = 0;
  std::uint32_t urgents_ = 0;

  std::shared_ptr<Pages> pages_;  // Of both buffers.
  // The send buffer: slots of a message each, then `kControls` small ones. Both are used in turn.
  Part send_buffer_;
  std::uint32_t slots_ = 0;
  std::uint32_t slots_free_ = 0;
  std::uint32_t slot_ = 0;
  std::uint32_t controls_free_ = kControls;
  std::uint32_t control_ = 0;
  Memory receive_buffer_;  // `limits_.receives` slots.
  std::optional<Memory> lent_;
  bool is_reading_ = false;
};

}  // namespace verbatim::rsocket
