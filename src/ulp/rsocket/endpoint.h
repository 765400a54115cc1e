#pragma once

#include <cstdint>
#include <deque>
#include <list>
#include <memory>
#include <vector>

#include <rdma/rdma_cma.h>

#include "ulp/rsocket/bytes.h"
#include "ulp/rsocket/completions.h"
#include "ulp/rsocket/memory.h"
#include "ulp/rsocket/protocol.h"
#include "ulp/rsocket/stream_end.h"
#include "ulp/sockets/urgent_mark.h"

namespace verbatim::rsocket {

/// One end of a connected stream in rsockets' protocol: queue pair, buffers and credits.
///
/// The receive buffer has two halves. The peer knows each as a target and fills it to the last byte
/// before it uses the next. When half a buffer's bytes have been read, a half is offered again. A
/// data message costs the peer one credit, which it gets back when the message has been read.
class Endpoint final : public StreamEnd {
 public:
  /// Creates the queue pair as the id's own (`id->qp`).
  static Outcome<std::unique_ptr<Endpoint>> make(rdma_cm_id* id, const Sizes& sizes);
  ~Endpoint() override;
  Endpoint(const Endpoint&) = delete;

  std::vector<std::byte> offer() const override;
  Outcome<void> start(std::span<const std::byte> peer) override;

  bool process(bool surely) override;
  void arm() override;
  bool armed() const override { return armed_; }
  int channel() const override { return channel_->fd; }

  bool can_send() const override;
  Outcome<std::size_t> send_some(Cursor& from, std::size_t most, bool is_urgent) override;
  std::uint32_t arrivals() const override { return arrivals_; }
  TimeNs arrived_at() const override { return arrived_at_; }
  bool has_data() const override { return unread_ > mark_.hole(); }
  bool has_unread() const override { return unread_ > 0; }
  std::size_t bytes_to_read() const override { return mark_.bytes_to_read(); }
  std::size_t receive(Cursor& to) override;
  std::size_t peek(Cursor& to) const override;

  bool can_finish() const override { return can_control(); }
  Outcome<void> finish(bool is_gone) override {
    return send_control(is_gone ? Control::disconnect : Control::shutdown);
  }
  void abort() override;
  bool was_reset() const override { return was_reset_; }

  bool has_urgent() const override { return peer_takes_urgent_; }
  std::uint32_t urgents() const override { return mark_.marks(); }
  bool is_urgent() const override { return mark_.is_waiting(); }
  bool is_at_mark() const override { return mark_.is_here(); }
  std::optional<std::byte> urgent(bool peek) override { return mark_.take(peek); }
  void set_urgent_inline(bool is_inline) override { mark_.set_inline(is_inline); }
  void pass_urgent() override { consume(mark_.hole()); }

  bool all_sent() const override { return controls_ == 0 && requests_free_ == data_requests(); }

  Outcome<off_t> map(void* buffer, std::size_t bytes, bool remote, off_t offset) override;
  Outcome<void> unmap(void* buffer, std::size_t bytes) override;
  Outcome<void> send_mappings() override;
  bool has_mappings_to_send() const override;
  Outcome<std::size_t> write_some(Cursor& from, std::size_t most, off_t offset) override;

  bool peer_shut() const override { return peer_shut_; }
  bool peer_gone() const override { return peer_gone_; }
  bool broken() const override { return broken_; }
  const Sizes& sizes() const override { return sizes_; }

 private:
  struct Mapped {
    ibv_mr* region = nullptr;
    off_t offset = 0;
    int index = -1;  // Index in the peer's map; -1 for local buffers.
    bool told = true;
  };

  Endpoint(rdma_cm_id* id, const Sizes& sizes, bool sends_words)
      : id_(id), sizes_(sizes), sends_words_(sends_words) {}
  bool can_control() const { return controls_ < kControlSlots; }
  Outcome<void> send_control(Control control);
  Outcome<void> make_queues();
  Outcome<void> make_buffers();
  Outcome<void> post_receive();
  /// Posts receives until there are `most`, or as many as the queue has.
  Outcome<void> post_receives(std::uint16_t most);
  std::uint32_t data_requests() const { return sizes_.send_requests - kControlSlots; }
  std::uint32_t half() const { return sizes_.receive_bytes / 2; }

  /// Copies to the send buffer (or posts inline), and writes to the peer.
  Outcome<void> write(Cursor& from, std::size_t bytes, std::uint32_t message, bool with_immediate,
                      std::uint64_t address, std::uint32_t key);
  Outcome<void> post_write(ibv_sge* pieces, int count, std::uint32_t message, bool with_immediate,
                           unsigned flags, std::uint64_t address, std::uint32_t key);
  Outcome<void> post_word(std::uint32_t message);
  Outcome<void> post(ibv_send_wr& request);
  Target target() const;
  bool take_channel_event();
  void copy_out(std::uint32_t at, std::size_t bytes, Cursor& to) const;
  void consume(std::size_t bytes);
  void take(const ibv_wc& completion);
  void on_message(std::uint32_t message);
  void on_data(std::uint32_t bytes, bool is_urgent);
  void on_sent(std::uint32_t message, bool well);
  bool wants_more_receives() const;
  bool owes_credits() const;
  void give_credits();
  IoMapping* mapping_at(off_t offset) const;

  rdma_cm_id* id_;
  Sizes sizes_;
  ibv_comp_channel* channel_ = nullptr;
  ibv_cq_ex* cq_ = nullptr;
  bool armed_ = false;
  bool sends_words_ = false;  // iWARP: sends messages with SEND, not as immediate data.

  std::shared_ptr<Pages> pages_;  // Of the three, which end before it.
  Part send_buffer_;
  Memory receive_buffer_;  // With a word for each receive request, and the target list.
  /// `kTargets` targets, followed by our copy of the peer's map of buffers.
  std::byte* target_list_ = nullptr;

  // Send side.
  bool has_begun_ = false;  // The peer is ready: a message has come, or may be sent.
  std::uint32_t requests_free_ = 0;
  std::uint32_t send_free_ = 0;      // Free bytes of the send buffer.
  std::uint32_t send_at_ = 0;        // Offset of the next byte.
  std::uint32_t target_ = 0;         // The target in use.
  std::uint16_t sent_ = 0;           // Messages sent that cost credits,
  std::uint16_t sent_limit_ = 0;     // and the number up to which credits reach.
  std::uint32_t controls_ = 0;       // Control messages in flight,
  std::uint32_t control_place_ = 0;  // and the slot of the next one that is not inline.

  // Receive side.
  std::uint32_t arrivals_ = 0;
  TimeNs arrived_at_ = 0;
  std::deque<std::uint32_t> messages_;  // Unread bytes of each message,
  std::size_t unread_ = 0;              // and of all.
  ulp::sockets::UrgentMark mark_;
  std::uint32_t receive_at_ = 0;    // Offset of the next byte to read.
  std::uint32_t read_ = 0;          // Bytes read and not offered again.
  std::uint32_t offer_at_ = 0;      // The half to offer next.
  std::uint16_t received_ = 0;      // Messages read,
  std::uint16_t credit_at_ = 0;     // and the number at which to return credits.
  std::uint16_t receives_ = 0;      // Posted: few at first.
  unsigned receives_owed_ = 0;      // To be posted again,
  std::uint32_t receive_slot_ = 0;  // and the slot of the next one's word.

  // Memory of the peer.
  Target peer_targets_{};
  std::uint32_t peer_target_ = 0;
  Target peer_iomap_{};
  bool swap_ = false;  // The peer's byte order differs.
  bool peer_takes_urgent_ = false;

  std::list<Mapped> mapped_;
  bool peer_shut_ = false;
  bool peer_gone_ = false;
  bool was_reset_ = false;
  bool broken_ = false;
};

}  // namespace verbatim::rsocket
