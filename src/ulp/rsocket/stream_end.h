#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include <sys/types.h>

#include "base/time.h"
#include "ulp/rsocket/bytes.h"
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

/// One end of a connected stream, whatever protocol carries its bytes: rsockets' (`Endpoint`) or
/// SDP (`SdpEnd`). It neither waits nor locks; the stream that owns it does.
class StreamEnd {
 public:
  virtual ~StreamEnd() = default;

  /// The port of the socket that this end replaces. The private data tells it; 0: there is none.
  void set_port(std::uint16_t port) { port_ = port; }
  std::uint16_t peer_port() const { return peer_port_; }

  /// Private data of the REQ, or of the REP after `start`.
  virtual std::vector<std::byte> offer() const = 0;
  /// Uses the peer's private data; EPROTO, ENOTSUP for another version of the protocol.
  virtual Outcome<void> start(std::span<const std::byte> peer) = 0;

  /// Polls completions of sends and receives, and returns credits.
  /// `surely`: takes the channel's event, too, even if there is no completion. Returns true if it
  /// has taken one.
  virtual bool process(bool surely) = 0;
  /// Requests that the next completion makes the channel's descriptor readable.
  virtual void arm() = 0;
  virtual bool armed() const = 0;
  virtual int channel() const = 0;

  virtual bool can_send() const = 0;
  /// Sends at most `most` bytes in one transfer. Requires `can_send`. `is_urgent`: the user's last
  /// byte is. EIO if the queue pair refuses.
  virtual Outcome<std::size_t> send_some(Cursor& from, std::size_t most, bool is_urgent) = 0;
  /// The size of a call's first transfer; each next one may be twice as long.
  virtual std::size_t first_transfer() const { return kFirstTransfer; }
  /// Counts what the peer has told: data, its end.
  virtual std::uint32_t arrivals() const = 0;
  /// When the first of them came that the latest `process` has found.
  virtual TimeNs arrived_at() const = 0;
  virtual bool has_data() const = 0;
  /// Also if it is an urgent byte that no read returns.
  virtual bool has_unread() const { return has_data(); }
  virtual std::size_t bytes_to_read() const = 0;
  virtual std::size_t receive(Cursor& to) = 0;
  virtual std::size_t peek(Cursor& to) const = 0;

  virtual bool can_finish() const = 0;
  /// Tells the peer that this side sends no more; `is_gone`: nor receives.
  virtual Outcome<void> finish(bool is_gone) = 0;
  /// Returns true if everything has reached the peer's memory.
  virtual bool all_sent() const = 0;

  /// Ends both directions at once, which the peer sees as a reset.
  virtual void abort() {}
  /// The peer has done so.
  virtual bool was_reset() const { return false; }

  // Urgent data, as in ulp/sockets/urgent_mark.h.
  /// The peer takes it: that of rdma-core's rsockets does not.
  virtual bool has_urgent() const = 0;
  /// Counts urgent bytes that have come.
  virtual std::uint32_t urgents() const = 0;
  virtual bool is_urgent() const = 0;
  virtual bool is_at_mark() const = 0;
  virtual std::optional<std::byte> urgent(bool peek) = 0;
  virtual void set_urgent_inline(bool is_inline) = 0;
  /// A read begins: an urgent byte that is next, and not inline, leaves the stream.
  virtual void pass_urgent() {}

  // ZCopy, which SDP has: the peer reads the user's buffer, whose call waits for it.
  virtual bool may_lend(std::size_t /*bytes*/) const { return false; }
  /// Requires `may_lend`. Fails if the memory cannot be registered.
  virtual Outcome<void> lend(std::span<std::byte>) { return fail(EINVAL); }
  virtual bool is_lent() const { return false; }
  /// Asks the peer to do without the rest.
  virtual void reclaim() {}
  /// Not lent any more: returns how many bytes the peer has.
  virtual std::size_t take_back() { return 0; }
  /// So many bytes are wanted. What the peer lends is refused if that is not worth a READ, or if
  /// they are only looked at.
  virtual void prepare_read(std::size_t /*bytes*/, bool /*peeks*/) {}
  /// READs at once that each side may have.
  virtual std::uint8_t reads() const { return 0; }

  // riomap's buffers, which SDP does not have.
  virtual Outcome<off_t> map(void*, std::size_t, bool /*remote*/, off_t) { return no_buffers(); }
  virtual Outcome<void> unmap(void*, std::size_t) { return no_buffers(); }
  /// Sends mappings that the peer does not know yet, as far as credits allow.
  virtual Outcome<void> send_mappings() { return {}; }
  virtual bool has_mappings_to_send() const { return false; }
  /// Writes to the buffer that the peer mapped at `offset`; returns 0 if there is none.
  virtual Outcome<std::size_t> write_some(Cursor&, std::size_t, off_t) { return no_buffers(); }

  virtual bool peer_shut() const = 0;  // The peer sends no more.
  virtual bool peer_gone() const = 0;  // The peer neither sends nor receives.
  virtual bool broken() const = 0;
  virtual const Sizes& sizes() const = 0;

 protected:
  std::uint16_t port_ = 0;
  std::uint16_t peer_port_ = 0;

 private:
  static std::unexpected<int> no_buffers() { return unsupported("SDP has no mapped buffers"); }
};

}  // namespace verbatim::rsocket
