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

/// The connection manager of iWARP: TCP connections whose ends agree by MPA's Request and Reply.
namespace verbatim::cm {

/// What one end wants of a connection, and what it tells the other.
struct StreamOffer {
  std::uint8_t inbound_reads = 0;   // READs and atomics of the peer's at once.
  std::uint8_t outbound_reads = 0;  // Own ones.
  ByteSpan private_data{};          // At most mpa_private_data_max(2).
};

/// --- effects: what `StreamManager` tells; all of them are to be taken, in order. ---

/// Connect a TCP socket from `local` (its port, where it has one) to `remote`; then tell
/// `on_connected` or `on_end`. A socket that the connection has already is closed.
struct OpenStream {
  ConnectionId connection{};
  SocketAddress local;
  SocketAddress remote;
};
struct SendBytes {
  ConnectionId connection{};
  std::vector<std::byte> bytes;
};
/// The socket is the queue pair's from now on; the manager wants to hear of its end only.
struct HandOver {
  ConnectionId connection{};
  MpaParameters agreement;
  bool is_initiator = false;
};
/// Close the socket. Nothing more comes of the connection.
struct CloseStream {
  ConnectionId connection{};
  bool is_turned_out = false;  // For want of room: nothing is left in the kernel of it, either.
};
/// A Request for a listener. Answer with `accept` or `reject`.
struct StreamRequest {
  ConnectionId connection{};
  ListenerId listener{};
  IpEndpoints ends;  // `source` is the peer.
  /// As this side may grant them.
  std::uint8_t inbound_reads = 0;
  std::uint8_t outbound_reads = 0;
  PrivateData private_data;
};
/// The Reply to our `connect`. Then `establish`, or `release`.
struct StreamReply {
  ConnectionId connection{};
  std::uint8_t inbound_reads = 0;
  std::uint8_t outbound_reads = 0;
  PrivateData private_data;
};
/// Our `connect` has come to nothing: ECONNREFUSED (by the peer's program, or nobody listens),
/// ETIMEDOUT, EPROTO (what it said is no Reply), or what the socket said. Ends the connection.
struct StreamFailed {
  ConnectionId connection{};
  int error = 0;
  PrivateData private_data;
};
/// The connection that stood has ended, by whichever side. Ends it here.
struct StreamEnded {
  ConnectionId connection{};
};

using StreamEffect = std::variant<OpenStream, SendBytes, HandOver, CloseStream, StreamRequest,
                                  StreamReply, StreamFailed, StreamEnded>;
using StreamEffects = std::vector<StreamEffect>;

/// A pure step engine: calls, what happens to sockets, and time in; effects out, appended in order.
/// Not thread-safe. Time never goes backwards.
///
///     active   connect -> OpenStream; on_connected; on_bytes -> StreamReply; establish -> HandOver
///     passive  on_accepted; on_bytes -> StreamRequest; accept -> HandOver
///
/// All calls but `release` refuse with EINVAL an id that they do not know or a state that they do
/// not fit.
class StreamManager {
 public:
  /// So long a peer may take for its Request, its Reply, or to close what was rejected or ended.
  static constexpr TimeNs kTimeout = 10 * kSecond;
  /// A server that listens at its port again in a moment (perftest's does for its second
  /// connection) is found: so long a refused connection is tried again, so often.
  static constexpr TimeNs kMoment = kSecond / 2;
  static constexpr TimeNs kTryAgain = 10 * kMillisecond;
  static constexpr std::size_t kConnectionsMax = 65'536;
  /// Of the descriptors that the program may have, strangers get no more than the fourth part, and
  /// in all no more than kStrangersMax (strangers.h). Requests that the program has not answered
  /// get the same part. Where the program is about to run out of descriptors, strangers get less.
  static constexpr std::size_t kPart = 4;
  static constexpr std::size_t kPartOfLast = 32;
  static constexpr std::size_t kStrangersMax = 1024;

  /// `seed`: of ids, as a ConnectionManager's. `wishes`: all of an offer but the depths.
  explicit StreamManager(std::uint64_t seed, const MpaOffer& wishes = {})
      : options_(wishes), identifiers_(0, seed) {}

  Result<ConnectionId> connect(const SocketAddress& local, const SocketAddress& remote,
                               const StreamOffer& offer, TimeNs now, StreamEffects& out);
  /// After StreamReply: the stream is the queue pair's.
  Result<void> establish(ConnectionId id, StreamEffects& out);
  /// After StreamRequest. EPROTO where the Request asks for what is not there, ECONNRESET where the
  /// peer has not waited; then `reject` or `release`.
  Result<void> accept(ConnectionId id, const StreamOffer& offer, StreamEffects& out);
  Result<void> reject(ConnectionId id, ByteSpan private_data, TimeNs now, StreamEffects& out);
  /// The queue pair has ended its side; StreamEnded follows when the peer has ended its, or within
  /// kTimeout.
  Result<void> disconnect(ConnectionId id, TimeNs now, StreamEffects& out);
  /// The user forgets the id, in whatever state.
  void release(ConnectionId id, TimeNs now, StreamEffects& out);

  /// How many descriptors the program may have (RLIMIT_NOFILE).
  void set_descriptors(std::size_t count) { descriptors_ = count; }
  /// A socket of a listener; `few_are_left`: descriptors. Nothing: there are too many connections;
  /// the caller closes it.
  std::optional<ConnectionId> on_accepted(ListenerId listener, const IpEndpoints& ends,
                                          bool few_are_left, TimeNs now, StreamEffects& out);
  /// Turns a stranger out, where there is one: there was no descriptor for the next.
  bool make_room(StreamEffects& out);
  void on_connected(ConnectionId id, TimeNs now, StreamEffects& out);
  /// How many bytes the manager takes of the socket; 0: none, they are not its own.
  std::size_t bytes_wanted(ConnectionId id) const;
  /// At most so many.
  void on_bytes(ConnectionId id, ByteSpan bytes, StreamEffects& out);
  /// The socket has ended: an errno value, or 0 where the peer has closed it.
  void on_end(ConnectionId id, int error, TimeNs now, StreamEffects& out);
  void on_timeout(TimeNs now, StreamEffects& out);
  /// kNever while nothing waits.
  TimeNs deadline() const { return timers_.deadline(); }
  std::size_t connections() const { return connections_.size(); }

 private:
  enum class State : std::uint8_t {
    connecting,      // No TCP connection yet.
    refused,         // To be tried again.
    awaits_reply,    // The Request has been sent.
    replied,         // The program has the Reply.
    awaits_request,  // Accepted.
    requested,       // The program has the Request.
    established,
    ending,    // This side has ended it.
    rejected,  // The program has let go; the peer closes first.
  };
  struct Connection {
    State state{};
    ListenerId listener{};
    IpEndpoints ends;
    MpaOffer offer{};
    std::vector<std::byte> private_data{};  // Of our Request.
    std::vector<std::byte> received{};      // Of the peer's message.
    MpaParameters agreement{};
    bool has_ended = false;  // The peer did not wait for the program's answer.
    TimeNs gives_up_at = 0;  // On a peer that refuses.
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
  void on_refusal(ConnectionId id, int error, TimeNs now, StreamEffects& out);

  MpaOffer offer_of(const StreamOffer& offer) const;

  const MpaOffer options_;
  Identifiers identifiers_;
  Connections connections_;
  std::size_t descriptors_ = kPart * kStrangersMax;
  Strangers strangers_;
  std::size_t requests_ = 0;  // In State::requested.
  Timers timers_;
};

}  // namespace verbatim::cm
