#pragma once

#include <array>
#include <deque>
#include <optional>
#include <string>
#include <vector>

#include "base/completion_status.h"
#include "base/time.h"
#include "ulp/engine/slots.h"
#include "ulp/engine/work.h"
#include "ulp/lnet/parcel.h"
#include "ulp/lnet/wire/message.h"

namespace verbatim::ulp::lnet {

/// What `Connection::pump` wants done; its messages lie here until the next call.
struct Output {
  static constexpr std::size_t kMessages = 8;
  WorkList work;
  std::array<std::array<std::byte, kMessageBytes>, kMessages> messages;
  std::size_t used = 0;
  bool more = false;

  void clear() { work.clear(), used = 0, more = false; }
  bool has_room() const { return used < kMessages && work.size() + 2 < work.capacity(); }
};

class Connection;

/// What is above connections: the node.
class Above {
 public:
  /// A message of LNet, whole. An answer to our GET that has come into its buffer is a REPLY.
  virtual void on_parcel(Connection& from, Parcel parcel, TimeNs now) = 0;
  /// A payload for this header wants to come. False: it is refused.
  virtual bool wants(const LnetHeader& header) = 0;
  /// The peer asks for memory that it has named by this GET. None: there is nothing. The buffer is
  /// the node's again with `on_given`.
  virtual std::optional<Buffer> find(const LnetHeader& get) = 0;
  virtual void on_given(const LnetHeader& get, const Buffer& buffer) = 0;

 protected:
  ~Above() = default;
};

/// One connection of o2iblnd, of either side.
///
///     parcel of at most 3,976 bytes   immediate                              one credit
///     a longer one                    put_request       -> put_accepted     one credit
///                                     WRITE, put_done ->                     none
///     a GET with a buffer             get_request       -> WRITE, get_done  one credit
///
/// Credits: whoever asks pays one, and gets it back when the receive is free again: at once, after
/// put_done for what was accepted. They ride in any message; a noop carries half of them if none
/// comes. A queue's worth of receives answers for what we have asked.
class Connection {
 public:
  /// What both sides have agreed on.
  struct Agreement {
    Ends ends;  // The source is ours.
    ConnectionSizes sizes;
  };
  static constexpr TimeNs kPatience = 50 * kSecond;    // For the peer's next step.
  static constexpr TimeNs kKeepAlive = 100 * kSecond;  // Idle for so long, a noop is sent.
  static constexpr std::size_t kWaitingMax = 128;      // Parcels.

  Connection(Above& above, Buffers& buffers, const Agreement& agreement, TimeNs now);
  ~Connection();
  Connection(const Connection&) = delete;
  Connection& operator=(const Connection&) = delete;

  static std::uint32_t receives(std::uint16_t depth) { return 2u * depth + 2; }
  Nid peer() const { return agreement_.ends.destination; }
  std::uint64_t peer_stamp() const { return agreement_.ends.destination_stamp; }

  /// The peer has answered out of the rules.
  void refuse(const char* why) { fail(why); }
  /// False: too many wait; the parcel's buffer is free again.
  bool send(Parcel parcel, TimeNs now);
  void on_message(ByteSpan bytes, TimeNs now);
  void on_done(Tag tag, CompletionStatus status);
  void on_time(TimeNs now);
  TimeNs deadline() const;

  /// What is to be sent now. Asked after each input, and again while `more` is set.
  void pump(TimeNs now, Output& out);
  /// The adapter touches no memory of it any more: all that waits is given back.
  void on_end();

  std::size_t waiting() const { return waiting_.size(); }
  std::uint16_t credits() const { return credits_; }
  /// A payload waits for a buffer: ask `pump` when one is free.
  bool waits_for_buffer() const { return !held_.empty(); }

 private:
  /// A payload that moves by RDMA. Its cookie on the wire is its tag.
  struct Transfer {
    enum class Role : std::uint8_t { put_source, put_sink, get_requester, get_source };
    Role role{};
    LnetHeader header;
    Buffer buffer;
    std::uint64_t peer_cookie = 0;
    /// Of the WRITEs: pieces of the buffer and where each goes.
    std::vector<Slice> from;
    std::vector<RemoteRange> to;
    std::size_t next = 0;
    TimeNs gives_up = kNever;
  };
  struct Urgent {
    Message message;
    std::uint32_t key = 0;
    Fragment memory;
  };
  /// A put_request that waits for a buffer.
  struct Held {
    LnetHeader header;
    std::uint64_t cookie = 0;
  };
  static constexpr std::uint32_t kTransfersMax = 64;
  static constexpr TimeNs kCheck = 5 * kSecond;
  static constexpr Tag kNoopTag{0xffffffff};

  bool is_idle() const {
    return waiting_.empty() && urgent_.empty() && held_.empty() && transfers_.size() == 0;
  }
  void fail(const char* why);
  bool is_from_peer(const Message& message) const;
  void take_credits(std::uint8_t credits);
  Transfer* begin(Transfer::Role role, const LnetHeader& header, const Buffer& buffer, TimeNs now);
  Transfer* find(std::uint64_t cookie, Transfer::Role role);
  /// The buffer becomes free, or its owner's again.
  void end(Transfer& transfer);
  void answer(MessageKind kind, std::uint64_t cookie, std::int32_t status);

  void on_put_request(const Message& message);
  void on_put_accepted(const Message& message);
  void on_put_refused(const Message& message);
  void on_put_done(const Message& message, TimeNs now);
  void on_get_request(const Message& message, TimeNs now);
  void on_get_done(const Message& message, TimeNs now);
  /// Aims the transfer's bytes at the peer's memory, which must have room. Writes begin by `pump`.
  bool aim(Transfer& transfer, const Fragments& fragments);

  void accept_held(TimeNs now);
  void pump_writes(Output& out);
  bool pump_next(TimeNs now, Output& out);
  void pump_noop(TimeNs now, Output& out);
  void emit(Message message, Output& out, std::uint32_t key = 0, const Fragment& memory = {},
            Tag done = kNoTag);

  Above& above_;
  Buffers& buffers_;
  Agreement agreement_;
  std::uint16_t credits_;    // That we may spend.
  std::uint16_t owed_ = 0;   // That the peer gets back.
  std::uint16_t reserved_;   // Receives for what our requests bring.
  std::uint32_t noops_ = 0;  // Of ours on their way; told by their tags.
  Slots<Transfer> transfers_{kTransfersMax};
  std::deque<Urgent> urgent_;   // Cost no credit.
  std::deque<Parcel> waiting_;  // Each costs one.
  std::deque<Held> held_;
  std::deque<Tag> writing_;  // Transfers, in their order.
  TimeNs last_sent_, last_step_, checked_;
  const char* failure_ = nullptr;
};

}  // namespace verbatim::ulp::lnet
