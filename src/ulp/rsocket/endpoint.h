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

/// What users may set before the connection (SOL_RDMA, SO_SNDBUF, SO_RCVBUF).
struct Sizes {
  std::uint32_t send_bytes = 1 << 17;
  std::uint32_t receive_bytes = 1 << 17;
  std::uint16_t send_requests = 384;
  std::uint16_t receive_requests = 384;
  std::uint16_t inline_bytes = 64;
  std::uint32_t iomap_entries = 0;
};

/// One end of a connected stream: queue pair, buffers and credits. Nothing here waits, and nothing
/// locks: the stream that owns it does.
///
/// The receive buffer has two halves. The peer knows each as a target and fills it to the last byte
/// before it uses the next; when half a buffer's bytes have been read, a half is offered anew. A
/// data message costs the peer one credit, which comes back when the message has been read.
class Endpoint {
 public:
  /// The queue pair becomes the id's own (`id->qp`).
  static Outcome<std::unique_ptr<Endpoint>> make(rdma_cm_id* id, const Sizes& sizes);
  ~Endpoint();
  Endpoint(const Endpoint&) = delete;

  ConnectData offer() const;
  /// What the peer offers; ENOTSUP for another version of the protocol.
  Outcome<void> start(const ConnectData& peer);

  /// Takes completions: what has been sent, what has come. Gives credits back.
  void process();
  /// The next completion makes the channel's descriptor readable.
  void arm();
  bool armed() const { return armed_; }
  int channel() const { return channel_->fd; }

  bool can_send() const;
  /// One transfer of at most `most` bytes; `can_send` holds. EIO where the queue pair refuses.
  Outcome<std::size_t> send_some(Cursor& from, std::size_t most);
  bool has_data() const { return !messages_.empty(); }
  std::size_t receive(Cursor& to);
  std::size_t peek(Cursor& to) const;

  bool can_control() const { return controls_ < kControlSlots; }
  Outcome<void> send_control(Control control);
  /// Everything has reached the peer's memory.
  bool all_sent() const { return controls_ == 0 && requests_free_ == data_requests(); }

  // Mapped buffers.
  Outcome<off_t> map(void* buffer, std::size_t bytes, bool remote, off_t offset);
  Outcome<void> unmap(void* buffer, std::size_t bytes);
  /// Tells the peer of buffers that it does not know yet, as far as credits reach.
  Outcome<void> send_mappings();
  bool has_mappings_to_send() const;
  /// A transfer into the buffer that the peer mapped at `offset`; 0 where there is none.
  Outcome<std::size_t> write_some(Cursor& from, std::size_t most, off_t offset);

  bool peer_shut() const { return peer_shut_; }  // It sends no more.
  bool peer_gone() const { return peer_gone_; }  // It neither sends nor takes.
  bool broken() const { return broken_; }
  const Sizes& sizes() const { return sizes_; }

 private:
  struct Mapped {
    ibv_mr* region = nullptr;
    off_t offset = 0;
    int index = -1;  // In the peer's map; -1 for local ones.
    bool told = true;
  };

  Endpoint(rdma_cm_id* id, const Sizes& sizes, bool sends_words)
      : id_(id), sizes_(sizes), sends_words_(sends_words) {}
  Outcome<void> make_queues();
  Outcome<void> make_buffers();
  Outcome<void> post_receive();
  std::uint32_t data_requests() const { return sizes_.send_requests - kControlSlots; }
  std::uint32_t half() const { return sizes_.receive_bytes / 2; }

  /// Copies into the send buffer (or inline), and writes to the peer.
  Outcome<void> write(Cursor& from, std::size_t bytes, std::uint32_t message, bool with_immediate,
                      std::uint64_t address, std::uint32_t key);
  Outcome<void> post_write(ibv_sge* pieces, int count, std::uint32_t message, bool with_immediate,
                           unsigned flags, std::uint64_t address, std::uint32_t key);
  Outcome<void> post_word(std::uint32_t message);
  Outcome<void> post(ibv_send_wr& request);
  Target target() const;
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
  bool sends_words_ = false;  // Over iWARP: SENDs, instead of immediates.

  Memory send_buffer_;
  Memory receive_buffer_;  // And a word for each receive request.
  Memory target_list_;     // `kTargets` targets, then our map of the peer's buffers.

  // Sending.
  std::uint32_t requests_free_ = 0;
  std::uint32_t send_free_ = 0;      // Bytes of the send buffer.
  std::uint32_t send_at_ = 0;        // Where the next byte goes.
  std::uint32_t target_ = 0;         // The one in use.
  std::uint16_t sent_ = 0;           // Messages that cost credits,
  std::uint16_t sent_limit_ = 0;     // and how far they may go.
  std::uint32_t controls_ = 0;       // News on their way,
  std::uint32_t control_place_ = 0;  // and where the next lies if it is not inline.

  // Receiving.
  std::deque<std::uint32_t> messages_;  // Bytes of each that is not read to its end.
  std::uint32_t receive_at_ = 0;        // The next byte to be read.
  std::uint32_t read_ = 0;              // Bytes read and not offered anew.
  std::uint32_t offer_at_ = 0;          // The half to be offered next.
  std::uint16_t received_ = 0;          // Messages read,
  std::uint16_t credit_at_ = 0;         // and when to tell the peer.
  unsigned receives_owed_ = 0;          // To be posted again,
  std::uint32_t receive_slot_ = 0;      // and where the next one's word comes.

  // The peer's memory.
  Target peer_targets_{};
  std::uint32_t peer_target_ = 0;
  Target peer_iomap_{};
  bool swap_ = false;  // Its byte order is another.

  std::list<Mapped> mapped_;
  bool peer_shut_ = false;
  bool peer_gone_ = false;
  bool broken_ = false;
};

}  // namespace verbatim::rsocket
