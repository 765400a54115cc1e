#pragma once

#include <cstdint>
#include <optional>
#include <unordered_map>
#include <variant>
#include <vector>

#include "base/error.h"
#include "base/time.h"
#include "cm/ib/guard/strangers.h"
#include "cm/identifiers.h"
#include "cm/iwarp/mpa_setup.h"
#include "cm/messages.h"
#include "cm/timers.h"

/// The connection manager of iWARP: TCP connections whose ends negotiate by MPA's Request and
/// Reply.
namespace verbatim::cm {

/// Parameters that one end requests, and its private data.
struct StreamOffer {
  std::uint8_t inbound_reads = 0;   // READs and atomics of the peer at once.
  std::uint8_t outbound_reads = 0;  // Of this side.
  ByteSpan private_data{};          // At most mpa_private_data_max(2).
};

/// --- effects of `StreamManager`: to be carried out, all of them and in order. ---

/// Connect a TCP socket from `local` (with its port, if it has one) to `remote`; then call
/// `on_connected` or `on_end`. If the connection has a socket already, close it first.
struct OpenStream {
  ConnectionId connection{};
  SocketAddress local;
  SocketAddress remote;
};
struct SendBytes {
  ConnectionId connection{};
  std::vector<std::byte> bytes;
};
/// Give the socket to the queue pair. Afterwards report only its end (`on_end`).
struct HandOver {
  ConnectionId connection{};
  MpaParameters agreement;
  bool is_initiator = false;
};
/// End the queue pair's side of the stream; then call `on_own_end` if it has ended. Repeated until
/// it has.
struct EndStream {
  ConnectionId connection{};
};
/// Close the socket. No effect of the connection follows.
struct CloseStream {
  ConnectionId connection{};
  bool is_turned_out = false;  // Dropped for lack of room: close it with a reset, so that the
                               // kernel keeps nothing of it.
};
/// A Request for a listener. Answer with `accept` or `reject`.
struct StreamRequest {
  ConnectionId connection{};
  ListenerId listener{};
  IpEndpoints ends;  // `source` is the peer.
  /// READs that this side may grant.
  std::uint8_t inbound_reads = 0;
  std::uint8_t outbound_reads = 0;
  PrivateData private_data;
};
/// The Reply to our `connect`. Call `establish` or `release` next.
struct StreamReply {
  ConnectionId connection{};
  std::uint8_t inbound_reads = 0;
  std::uint8_t outbound_reads = 0;
  PrivateData private_data;
};
/// Our `connect` failed: ECONNREFUSED (by the peer's program, or there is no listener), ETIMEDOUT,
/// EPROTO (invalid Reply), or the socket's error. Ends the connection.
struct StreamFailed {
  ConnectionId connection{};
  int error = 0;
  PrivateData private_data;
};
/// The established connection was ended by either side. Ends it here.
struct StreamEnded {
  ConnectionId connection{};
};

using StreamEffect = std::variant<OpenStream, SendBytes, HandOver, EndStream, CloseStream,
                                  StreamRequest, StreamReply, StreamFailed, StreamEnded>;
using StreamEffects = std::vector<StreamEffect>;

/// A pure step engine: calls, socket events and time in; effects out, appended in order. Not
/// thread-safe. Time never goes backwards.
///
///     active   connect -> OpenStream; on_connected; on_bytes -> StreamReply; establish -> HandOver
///     passive  on_accepted; on_bytes -> StreamRequest; accept -> HandOver
///
/// All calls except `release` refuse, with EINVAL, an unknown id and a call that does not fit the
/// state.
class StreamManager {
 public:
  /// How long the program waits for the peer's Request or Reply, for the peer to close what was
  /// rejected, and for a queue pair to end its side.
  static constexpr TimeNs kTimeout = 10 * kSecond;
  /// A refused connection is tried again every kTryAgain for kMoment: a server may close its
  /// listener and listen again (perftest does, for its second connection). EndStream is repeated
  /// every kTryAgain.
  static constexpr TimeNs kMoment = kSecond / 2;
  static constexpr TimeNs kTryAgain = 10 * kMillisecond;
  static constexpr std::size_t kConnectionsMax = 65'536;
  /// Strangers (strangers.h) get at most a quarter of the program's descriptors, and at most
  /// kStrangersMax. Requests that the program has not answered get the same share. If the program
  /// is about to run out of descriptors, strangers get less.
  static constexpr std::size_t kPart = 4;
  static constexpr std::size_t kPartOfLast = 32;
  static constexpr std::size_t kStrangersMax = 1024;

  /// `seed`: as a ConnectionManager's. `wishes`: all of an offer except the depths.
  explicit StreamManager(std::uint64_t seed, const MpaOffer& wishes = {})
      : options_(wishes), identifiers_(0, seed) {}

  Result<ConnectionId> connect(const SocketAddress& local, const SocketAddress& remote,
                               const StreamOffer& offer, TimeNs now, StreamEffects& out);
  /// Called after StreamReply: gives the stream to the queue pair.
  Result<void> establish(ConnectionId id, StreamEffects& out);
  /// Called after StreamRequest. EPROTO if the Request cannot be served, ECONNRESET if the peer has
  /// gone; then call `reject` or `release`.
  Result<void> accept(ConnectionId id, const StreamOffer& offer, StreamEffects& out);
  Result<void> reject(ConnectionId id, ByteSpan private_data, TimeNs now, StreamEffects& out);
  /// StreamEnded follows when the queue pair has ended its side, whatever the peer does, as with a
  /// card; or after kTimeout.
  Result<void> disconnect(ConnectionId id, TimeNs now, StreamEffects& out);
  /// The user releases the id, in any state.
  void release(ConnectionId id, TimeNs now, StreamEffects& out);

  /// `count`: the limit of the program's descriptors (RLIMIT_NOFILE).
  void set_descriptors(std::size_t count) { descriptors_ = count; }
  /// A listener has accepted a socket; `few_are_left`: descriptors. Returns nothing if there are
  /// too many connections; the caller then closes the socket.
  std::optional<ConnectionId> on_accepted(ListenerId listener, const IpEndpoints& ends,
                                          bool few_are_left, TimeNs now, StreamEffects& out);
  /// Drops a stranger, if there is one, because no descriptor was left for the next connection.
  bool make_room(StreamEffects& out);
  void on_connected(ConnectionId id, TimeNs now, StreamEffects& out);
  /// Number of bytes that the manager wants from the socket now; 0: none, leave them in it.
  std::size_t bytes_wanted(ConnectionId id) const;
  /// Passes bytes that were read, at most `bytes_wanted`.
  void on_bytes(ConnectionId id, ByteSpan bytes, StreamEffects& out);
  /// The socket has ended: an errno value, or 0 if the peer closed it.
  void on_end(ConnectionId id, int error, TimeNs now, StreamEffects& out);
  /// After EndStream: the queue pair sends no more.
  void on_own_end(ConnectionId id, StreamEffects& out);
  void on_timeout(TimeNs now, StreamEffects& out);
  /// Returns kNever if nothing waits.
  TimeNs deadline() const { return timers_.deadline(); }
  std::size_t connections() const { return connections_.size(); }

 private:
  enum class State : std::uint8_t {
    connecting,      // No TCP connection yet.
    refused,         // Will be tried again.
    awaits_reply,    // The Request has been sent.
    replied,         // The program has the Reply.
    awaits_request,  // Accepted.
    requested,       // The program has the Request.
    established,
    ending,    // This side has ended it.
    rejected,  // The program has released it; the peer closes first.
  };
  struct Connection {
    State state{};
    ListenerId listener{};
    IpEndpoints ends;
    MpaOffer offer{};
    std::vector<std::byte> private_data{};  // Private data of our Request.
    std::vector<std::byte> received{};      // Part of the peer's message.
    MpaParameters agreement{};
    bool has_ended = false;  // The peer has gone before the program answered.
    TimeNs gives_up_at = 0;  // On a peer that refuses, or on a queue pair that does not end.
    TimeNs at = kNever;
  };
  using Connections = std::unordered_map<ConnectionId, Connection>;

  Result<Connection*> find(ConnectionId id, State state);
  ConnectionId add(Connection connection, TimeNs deadline);
  void set_deadline(Connections::value_type& connection, TimeNs at);
  void forget(ConnectionId id, StreamEffects& out, bool is_turned_out = false);
  void turn_away(ConnectionId id, ByteSpan private_data, TimeNs now, StreamEffects& out);
  void fail(ConnectionId id, int error, StreamEffects& out, ByteSpan private_data = {});
  void on_request(ConnectionId id, const MpaMessage& message, StreamEffects& out);
  void on_reply(ConnectionId id, const MpaMessage& message, StreamEffects& out);
  void ask(ConnectionId id, TimeNs now, StreamEffects& out);
  void open(ConnectionId id, StreamEffects& out);
  void end_own_side(ConnectionId id, TimeNs now, StreamEffects& out);
  void on_refusal(ConnectionId id, int error, TimeNs now, StreamEffects& out);

  MpaOffer offer_of(const StreamOffer& offer) const;

  const MpaOffer options_;
  Identifiers identifiers_;
  Connections connections_;
  std::size_t descriptors_ = kPart * kStrangersMax;
  Strangers strangers_;
  std::size_t requests_ = 0;  // Number in State::requested.
  Timers timers_;
};

}  // namespace verbatim::cm
