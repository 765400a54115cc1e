#pragma once

#include <cstdint>
#include <deque>
#include <list>
#include <memory>
#include <vector>

#include <rdma/rdma_cma.h>

#include "ulp/rsocket/bytes.h"
#include "ulp/rsocket/memory.h"
#include "ulp/rsocket/protocol.h"

namespace verbatim::rsocket {

/// Settings that users make before the connection (SOL_RDMA, SO_SNDBUF, SO_RCVBUF).
struct Sizes {
  std::uint32_t send_bytes = 1 << 17;
  std::uint32_t receive_bytes = 1 << 17;
  std::uint16_t send_requests = 384;
  std::uint16_t receive_requests = 384;
  std::uint16_t inline_bytes = 64;
  std::uint32_t iomap_entries = 0;
};

/// One end of a connected stream: queue pair, buffers and credits. It neither waits nor locks; the
/// stream that owns it does.
///
/// The receive buffer has two halves. The peer knows each as a target and fills it to the last byte
/// before it uses the next. When half a buffer's bytes have been read, a half is offered again. A
/// data message costs the peer one credit, which it gets back when the message has been read.
class Endpoint {
 public:
  /// Creates the queue pair as the id's own (`id->qp`).
  static Outcome<std::unique_ptr<Endpoint>> make(rdma_cm_id* id, const Sizes& sizes);
  ~Endpoint();
  Endpoint(const Endpoint&) = delete;

  ConnectData offer() const;
  /// Uses the peer's offer; ENOTSUP for another version of the protocol.
  Outcome<void> start(const ConnectData& peer);

  /// Polls completions of sends and receives, and returns credits.
  /// `surely`: takes the channel's event, too, even if there is no completion.
  void process(bool surely);
  /// Requests that the next completion makes the channel's descriptor readable.
  void arm();
  bool armed() const { return armed_; }
  int channel() const { return channel_->fd; }

  bool can_send() const;
  /// Sends at most `most` bytes in one transfer. Requires `can_send`. EIO if the queue pair
  /// refuses.
  Outcome<std::size_t> send_some(Cursor& from, std::size_t most);
  /// Counts what the peer has told: data, its end.
  std::uint32_t arrivals() const { return arrivals_; }
  bool has_data() const { return !messages_.empty(); }
  std::size_t bytes_to_read() const;
  std::size_t receive(Cursor& to);
  std::size_t peek(Cursor& to) const;

  bool can_control() const { return controls_ < kControlSlots; }
  Outcome<void> send_control(Control control);
  /// Returns true if everything has reached the peer's memory.
  bool all_sent() const { return controls_ == 0 && requests_free_ == data_requests(); }

  // riomap's buffers.
  Outcome<off_t> map(void* buffer, std::size_t bytes, bool remote, off_t offset);
  Outcome<void> unmap(void* buffer, std::size_t bytes);
  /// Sends mappings that the peer does not know yet, as far as credits allow.
  Outcome<void> send_mappings();
  bool has_mappings_to_send() const;
  /// Writes to the buffer that the peer mapped at `offset`; returns 0 if there is none.
  Outcome<std::size_t> write_some(Cursor& from, std::size_t most, off_t offset);

  bool peer_shut() const { return peer_shut_; }  // The peer sends no more.
  bool peer_gone() const { return peer_gone_; }  // The peer neither sends nor receives.
  bool broken() const { return broken_; }
  const Sizes& sizes() const { return sizes_; }

 private:
  struct Mapped {
    ibv_mr* region = nullptr;
    off_t offset = 0;
    int index = -1;  // Index in the peer's map; -1 for local buffers.
    bool told = true;
  };

  Endpoint(rdma_cm_id* id, const Sizes& sizes, bool sends_words)
      : id_(id), sizes_(sizes), sends_words_(sends_words) {}
  Outcome<void> make_queues();
  Outcome<void> make_buffers();
  Outcome<void> post_receive();
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
  void take_channel_event();
  void consume(std::size_t bytes);
  void take(const ibv_wc& completion);
  void on_message(std::uint32_t message);
  void on_sent(std::uint32_t message, bool well);
  bool owes_credits() const;
  void give_credits();
  IoMapping* mapping_at(off_t offset) const;

  rdma_cm_id* id_;
  Sizes sizes_;
  ibv_comp_channel* channel_ = nullptr;
  ibv_cq* cq_ = nullptr;
  bool armed_ = false;
  bool sends_words_ = false;  // iWARP: sends messages with SEND, not as immediate data.

  Memory send_buffer_;
  Memory receive_buffer_;  // With a word for each receive request.
  Memory target_list_;     // `kTargets` targets, followed by our copy of the peer's map of buffers.

  // Send side.
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
  std::deque<std::uint32_t> messages_;  // Unread bytes of each message.
  std::uint32_t receive_at_ = 0;        // Offset of the next byte to read.
  std::uint32_t read_ = 0;              // Bytes read and not offered again.
  std::uint32_t offer_at_ = 0;          // The half to offer next.
  std::uint16_t received_ = 0;          // Messages read,
  std::uint16_t credit_at_ = 0;         // and the number at which to return credits.
  unsigned receives_owed_ = 0;          // To be posted again,
  std::uint32_t receive_slot_ = 0;      // and the slot of the next one's word.

  // Memory of the peer.
  Target peer_targets_{};
  std::uint32_t peer_target_ = 0;
  Target peer_iomap_{};
  bool swap_ = false;  // The peer's byte order differs.

  std::list<Mapped> mapped_;
  bool peer_shut_ = false;
  bool peer_gone_ = false;
  bool broken_ = false;
};

}  // namespace verbatim::rsocket
