#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/time.h"
#include "mad/rmpp/rmpp_receiver.h"
#include "mad/rmpp/rmpp_sender.h"

namespace verbatim::mad {

/// Reliable multi-packet protocol of a client (IBA 13.6): messages of more than one MAD, cut into
/// segments and put together again, as Linux does for its users. A pure step: after each call the
/// owner drains what `take_*` has.
class RmppEngine {
 public:
  static constexpr std::size_t kTransfersMax = 1024;  // Of each direction, that have not ended.
  /// Messages that have come whole, of which the last acknowledgement may be lost.
  static constexpr std::size_t kRememberedMax = 4096;
  static constexpr std::size_t kPacketsMax = 4096;  // Acknowledgements and refusals, not taken.

  /// True if a MAD is a segment, or says something about segments: then it is for `on_packet`.
  static bool is_rmpp(wire::MadSpan mad);

  /// Sends `message`: headers of its class, then data. EINVAL if the class has no RMPP, or the
  /// message no room for its headers; EBUSY if this transaction is being sent; ENOBUFS beyond
  /// kTransfersMax.
  Result<void> send(const RmppPeer& to, ByteSpan message, const RmppPatience& patience);
  void on_packet(const RmppPeer& from, wire::MadSpan mad, TimeNs now);

  std::optional<RmppPacket> take_packet(TimeNs now);
  struct Message {
    RmppPeer from;
    std::vector<std::byte> bytes;
  };
  std::optional<Message> take_message();
  /// A message of `send` that was acknowledged as a whole, or never will be.
  struct Finished {
    std::uint64_t transaction = 0;
    wire::RmppStatus status{};  // `normal`: it was.
  };
  std::optional<Finished> take_finished();

  TimeNs deadline() const { return deadlines_.empty() ? kNever : deadlines_.begin()->first; }
  void on_time(TimeNs now);

 private:
  struct Outgoing {
    RmppPeer peer;
    MadBytes headers;  // Of the message.
    RmppSender sender;
    bool is_ready = false;  // In `ready_`.
    TimeNs deadline = kNever;
  };
  struct Incoming {
    RmppPeer peer;
    MadBytes headers;
    RmppReceiver receiver;
    TimeNs deadline = kNever;
  };
  struct Transfer {
    RmppKey key;
    bool is_outgoing = false;
    friend auto operator<=>(const Transfer&, const Transfer&) = default;
  };
  enum class Turn : bool { no, yes };
  using Out = std::map<RmppKey, Outgoing>::iterator;
  using In = std::map<RmppKey, Incoming>::iterator;

  void on_data(const RmppPeer& from, const wire::MadHeader& header, const wire::RmppHeader& rmpp,
               wire::MadSpan mad, TimeNs now);
  void on_ack(const RmppPeer& from, const wire::MadHeader& header, const wire::RmppHeader& rmpp,
              wire::MadSpan mad);
  void on_end(const RmppPeer& from, const wire::MadHeader& header, wire::RmppStatus status);

  void acknowledge(const Incoming& incoming);
  void stop(const RmppPeer& from, wire::MadSpan mad);
  void refuse_packet(const RmppPeer& from, const wire::MadHeader& header, wire::MadSpan mad,
                     wire::RmppStatus status);
  void speak(const RmppPeer& to, wire::MadSpan headers, wire::RmppHeader rmpp, Turn turn);
  void make_ready(Out out);
  void retry(Out out, TimeNs now);
  void finish(Out out, wire::RmppStatus status);
  void forget(In in);
  void schedule(const Transfer& transfer, TimeNs& deadline, TimeNs next);

  std::map<RmppKey, Outgoing> outgoing_;
  std::map<RmppKey, Incoming> incoming_;
  std::set<std::pair<TimeNs, RmppKey>> complete_;  // Of `incoming_`, by deadline: the oldest first.
  std::set<std::pair<TimeNs, Transfer>> deadlines_;
  std::deque<RmppKey> ready_;  // Have segments to send; in turns.
  std::deque<RmppPacket> packets_;
  std::deque<Message> messages_;
  std::deque<Finished> finished_;
};

}  // namespace verbatim::mad
