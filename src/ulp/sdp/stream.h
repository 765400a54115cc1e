#pragma once

#include <cstddef>
#include <cstdint>
#include <expected>
#include <optional>
#include <utility>
#include <vector>

#include "ulp/sdp/wire/hello.h"
#include "ulp/sdp/wire/message.h"
#include "ulp/sdp/zcopy.h"

namespace verbatim::ulp::sdp {

/// What this side offers.
struct Limits {
  std::uint16_t receives = 64;           // At least `kFewestReceives`.
  std::uint32_t receive_bytes = 32'768;  // Of each, with the header.
};
inline constexpr std::uint16_t kFewestReceives = 4;
inline constexpr std::uint32_t kMostReceiveBytes = 65'536;

/// Why a connection is not made, or is ended by this side: the peer broke the rules.
enum class Fault : std::uint8_t {
  none,
  message,          // A message that cannot be decoded.
  no_room,          // Its Hello offers too few receives, or too small ones.
  sequence,         // MSeq is not the next one.
  acknowledgement,  // MSeqAck is of no message that this side has sent.
  after_end,        // Data after DisConn.
  unexpected,       // A message of another phase, or an answer to what was not asked.
};
const char* words_of(Fault fault);

/// One end of an SDP connection: credits, order and ends of both directions. Bytes travel in Data
/// messages (BCopy) or, if the driver lends memory, are read by the peer (ZCopy). It has no I/O,
/// clock, lock or, after construction, allocation; who drives it sends the headers that it returns,
/// in that order.
///
/// Credits: each message uses one of the peer's receives. A message says how many receives its
/// sender has posted and which message it had received then, so
/// credits = MSeqAck + buffers - own MSeq. Data leaves two; other messages leave one, and the last
/// is for messages that give the peer credits.
class Stream {
 public:
  explicit Stream(const Limits& own);

  /// The REQ's private data, without addresses.
  Hello hello() const;
  /// The passive side: the answer to the peer's Hello.
  std::expected<HelloAck, Fault> on_hello(const Hello& hello);
  /// The active side.
  std::expected<void, Fault> on_hello_ack(const HelloAck& ack);

  /// Most bytes that a Data message can have now; 0: none can be sent.
  std::size_t room() const { return may_send() ? data_max_ : 0; }
  /// The header of a Data message with this many bytes. Requires 0 < `bytes` <= `room()`.
  Header data(std::size_t bytes, bool is_urgent);

  // ZCopy, sending. The memory stays as it is until `is_lending` returns false.
  /// Most bytes that a SrcAvail message can have itself now; 0: none can be sent.
  std::size_t lending_room() const {
    return may_send() && data_max_ > kSourceBytes ? data_max_ - kSourceBytes : 0;
  }
  /// SrcAvail's header. Requires 0 < `bytes` < `memory.bytes`, `bytes` <= `lending_room()`.
  Header lend(const SourceAvailable& memory, std::size_t bytes);
  bool is_lending() const { return lending_.is_open(); }
  /// Bytes of what was lent last that the peer has.
  std::uint32_t lent_bytes_moved() const { return lending_.moved(); }
  /// Asks for it back (SrcAvailCancel).
  void reclaim() { lending_.cancel(); }

  // ZCopy, receiving.
  /// Whether this side reads what is offered; else it refuses it.
  void set_borrows(bool borrows) { borrows_ = borrows; }
  /// What can be read now: the next bytes of the stream. Without value: nothing.
  std::optional<SourceAvailable> borrowed() const {
    return borrowing_.can_be_read() && count_ == 0 ? std::optional(borrowing_.rest())
                                                   : std::nullopt;
  }
  /// A READ of it begins, and has read so many of its first bytes.
  void begin_borrowed_read() { borrowing_.begin_read(); }
  void on_borrowed_read(std::uint32_t bytes);
  /// The rest shall come as Data.
  void refuse_borrowed() { borrowing_.refuse(); }

  /// DisConn: this side sends no more.
  void finish() { finish_owed_ = !is_finished_; }
  bool is_finished() const { return is_finished_ || finish_owed_; }
  /// AbortConn.
  void abort() { abort_owed_ = !has_ended(); }

  struct Control {
    Header header;
    Body body;
  };
  /// The next message besides Data that is owed and that credits allow; without value if there is
  /// none.
  std::optional<Control> next_control();
  /// DisConn and AbortConn have been returned by `next_control`, if they were asked for.
  bool is_drained() const { return !finish_owed_ && !abort_owed_; }

  /// `again`: the receive is free, and its driver posts it now. `kept`: until `consume` returns it.
  enum class Use : std::uint8_t { kept, again };
  /// A message in the receive `slot`, in the order of arrival.
  Use on_message(std::uint32_t slot, ByteSpan message);

  /// Bytes that can be read: a part of a receive.
  struct Piece {
    std::uint32_t slot = 0;
    std::uint32_t offset = 0;
    std::uint32_t bytes = 0;
  };
  bool has_data() const { return count_ > 0; }
  std::size_t pieces() const { return count_; }
  Piece piece(std::size_t index) const;
  /// Bytes until the urgent mark; a read stops there. Without value: no mark ahead.
  std::optional<std::uint64_t> bytes_to_mark() const;
  /// Reads bytes of the first piece. Returns the receive if it is free now, to be posted.
  std::optional<std::uint32_t> consume(std::uint32_t bytes);

  /// Urgent data stays in the stream (SO_OOBINLINE).
  void set_urgent_inline(bool is_inline) { urgent_inline_ = is_inline; }
  /// An urgent byte has come, and was not read (`urgent` empty: it is in the stream).
  bool is_urgent() const { return has_mark_ && mark_ >= read_ && !urgent_taken_; }
  bool is_at_mark() const { return has_mark_ && mark_ == read_; }
  /// Takes the urgent byte, or looks at it.
  std::optional<std::byte> urgent(bool peek);

  std::uint32_t credits() const;
  bool peer_finished() const { return peer_finished_; }
  bool peer_aborted() const { return peer_aborted_; }
  Fault fault() const { return fault_; }
  bool has_ended() const { return peer_aborted_ || fault_ != Fault::none || is_aborted_; }

 private:
  static constexpr std::uint32_t kReserved = 2;
  static constexpr std::size_t kSourceBytes = 16;  // SrcAvail's own fields.
  bool may_send() const { return credits() > kReserved && !is_finished() && !lending_.is_open(); }
  std::optional<Control> next_zcopy();

  Header header(Mid mid, std::size_t bytes);
  void learn_credits(const Header& header);
  bool owes_credits() const;
  Use fail(Fault fault);
  Use dispatch(std::uint32_t slot, const Message& message);
  Use on_data(std::uint32_t slot, const Message& message, bool overtakes);
  Control control(Mid mid, const Body& body = {}, std::size_t body_bytes = 0);

  Limits own_;
  std::size_t data_max_ = 0;  // The peer's receive without the header.

  // Sent.
  std::uint32_t sequence_ = 0;      // MSeq of the last message; Hello's is 0.
  std::uint32_t acknowledged_ = 0;  // The last one that the peer has received.
  std::uint32_t limit_ = 0;         // The MSeq up to which the peer has receives.
  bool finish_owed_ = false;
  bool is_finished_ = false;
  bool abort_owed_ = false;
  bool is_aborted_ = false;
  bool sink_cancel_owed_ = false;
  bool buffer_change_owed_ = false;

  // Received.
  std::uint32_t received_ = 0;  // MSeq of the last message.
  std::uint32_t posted_;        // Receives.
  std::uint32_t told_ = 0;      // The limit that the peer knows.
  std::uint32_t freed_ = 0;  // Receives that are free again since then, but those of credits alone.
  bool peer_finished_ = false;
  bool peer_aborted_ = false;
  Fault fault_ = Fault::none;

  Lending lending_;
  Borrowing borrowing_;
  bool borrows_ = false;

  std::vector<Piece> ring_;  // Unread data.
  std::size_t first_ = 0;
  std::size_t count_ = 0;

  // Urgent data; positions count bytes of the stream.
  std::uint64_t arrived_ = 0;
  std::uint64_t read_ = 0;
  std::uint64_t mark_ = 0;
  bool has_mark_ = false;
  bool urgent_inline_ = false;
  bool urgent_taken_ = false;
  std::optional<std::byte> urgent_;
};

}  // namespace verbatim::ulp::sdp
