// Two connection managers of iWARP whose programs make any calls at any time, over TCP sockets that
// are refused, cut, and that carry changed bytes. No connection has an event after its end. When
// both programs have released everything and every socket has ended, neither engine has any state
// left.
#include <algorithm>
#include <array>
#include <cerrno>
#include <deque>
#include <map>
#include <set>

#include "base/assert.h"
#include "base/overloaded.h"
#include "cm/iwarp/stream_manager.h"
#include "fuzz/input.h"

namespace {

using namespace verbatim;
using namespace verbatim::cm;

constexpr std::size_t kConnectionsMax = 64;
/// So few that strangers and unanswered requests soon reach their share: 8, or 1.
constexpr std::size_t kDescriptors = 32;

/// One end of a TCP connection: the bytes sent to it.
struct Socket {
  std::deque<std::byte> arrived;
  bool has_ended = false;                 // The other end is closed.
  std::optional<ConnectionId> other_end;  // Nothing: not accepted yet, or closed.
};

/// A program and its engine.
struct Side {
  StreamManager engine;
  std::vector<ConnectionId> known;  // Ids that it asked for or was given.
  std::map<ConnectionId, Socket> sockets;
  std::vector<ConnectionId> to_accept;  // Sockets of the other side that connect.
  std::set<ConnectionId> over;          // Connections that have failed or ended.

  explicit Side(std::uint64_t seed) : engine(seed) { engine.set_descriptors(kDescriptors); }
};

class World {
 public:
  explicit World(Input& input) : input_(input) {}

  void run() {
    while (!input_.empty()) {
      const std::size_t which = input_.byte() & 1;
      const std::uint32_t step = input_.byte();
      if (step < 96) {
        call(which, step % 8);
      } else if (step < 200) {
        deliver(which, step);
      } else if (step < 232) {
        accept_socket(which, step);
      } else if (step < 240) {
        make_room(which);
      } else {
        pass(std::min(sides_[which].engine.deadline(), now_ + kSecond));
      }
    }
    end();
  }

 private:
  Socket* peer_of(std::size_t which, const Socket& socket) {
    if (!socket.other_end) return nullptr;
    const auto found = sides_[1 - which].sockets.find(*socket.other_end);
    return found == sides_[1 - which].sockets.end() ? nullptr : &found->second;
  }
  void close(std::size_t which, ConnectionId id) {
    Side& side = sides_[which];
    const auto found = side.sockets.find(id);
    if (found == side.sockets.end()) return;
    if (Socket* const peer = peer_of(which, found->second)) {
      peer->has_ended = true;
      peer->other_end.reset();
    }
    side.sockets.erase(found);
    std::erase(sides_[1 - which].to_accept, id);
  }
  void hear(Side& side, ConnectionId id) { VERBATIM_ASSERT(!side.over.contains(id)); }
  void take(std::size_t which) {
    Side& side = sides_[which];
    for (const StreamEffect& effect : std::exchange(effects_, {})) {
      std::visit(
          Overloaded{
              [&](const OpenStream& open) {
                hear(side, open.connection);
                close(which, open.connection);
                side.sockets[open.connection] = {};
                sides_[1 - which].to_accept.push_back(open.connection);
              },
              [&](const SendBytes& send) {
                hear(side, send.connection);
                Socket* const peer = peer_of(which, side.sockets.at(send.connection));
                if (peer == nullptr) return;
                peer->arrived.insert(peer->arrived.end(), send.bytes.begin(), send.bytes.end());
              },
              [&](const HandOver& over) {
                hear(side, over.connection);
                VERBATIM_ASSERT(side.engine.bytes_wanted(over.connection) == 0);
              },
              [&](const EndStream& end) {
                hear(side, end.connection);
                if ((input_.byte() & 1) != 0) ended_.push_back(end.connection);
              },
              [&](const CloseStream& done) {
                hear(side, done.connection);
                close(which, done.connection);
              },
              [&](const StreamRequest& request) { side.known.push_back(request.connection); },
              [&](const StreamReply& reply) { hear(side, reply.connection); },
              [&](const StreamFailed& failed) {
                VERBATIM_ASSERT(side.over.insert(failed.connection).second);
              },
              [&](const StreamEnded& ended) {
                VERBATIM_ASSERT(side.over.insert(ended.connection).second);
              }},
          effect);
    }
    for (const ConnectionId id : std::exchange(ended_, {})) {
      side.engine.on_own_end(id, effects_);
      take(which);
    }
  }

  /// A call that does not fit the state is refused, which is fine.
  void call(std::size_t which, std::uint32_t what) {
    Side& side = sides_[which];
    if (what < 2) {
      if (side.engine.connections() >= kConnectionsMax) return;
      const auto id =
          side.engine.connect(SocketAddress::ipv4({10, 0, 0, 1}),
                              SocketAddress::ipv4({10, 0, 0, 2}, 7), offer(), now_, effects_);
      if (id) side.known.push_back(*id);
    } else if (!side.known.empty()) {
      call_about(side, side.known[input_.byte() % side.known.size()], what);
    }
    take(which);
  }
  StreamOffer offer() {
    return {.inbound_reads = static_cast<std::uint8_t>(input_.byte() & 3),
            .outbound_reads = static_cast<std::uint8_t>(input_.byte() & 3)};
  }
  void call_about(Side& side, ConnectionId id, std::uint32_t what) {
    switch (what) {
      case 2:
      case 3:
        return ignore(side.engine.accept(id, offer(), effects_));
      case 4:
        return ignore(side.engine.establish(id, effects_));
      case 5:
        return ignore(side.engine.reject(id, {}, now_, effects_));
      case 6:
        return ignore(side.engine.disconnect(id, now_, effects_));
      default:
        return side.engine.release(id, now_, effects_);
    }
  }
  static void ignore(const Result<void>&) {}

  /// Accepts a connecting socket, or refuses it.
  void accept_socket(std::size_t which, std::uint32_t step) {
    Side& side = sides_[which];
    if (side.to_accept.empty()) return;
    const ConnectionId theirs = side.to_accept.front();
    side.to_accept.erase(side.to_accept.begin());
    Side& peer = sides_[1 - which];
    if (step % 8 == 0) {
      peer.engine.on_end(theirs, ECONNREFUSED, now_, effects_);
      return take(1 - which);
    }
    const IpEndpoints ends{
        .source = SocketAddress::ipv4({10, 0, 0, static_cast<std::uint8_t>(step % 4)}, 1024)};
    const auto id = side.engine.on_accepted(ListenerId{1}, ends, step % 16 == 1, now_, effects_);
    take(which);
    if (!id) return;
    side.sockets[*id].other_end = theirs;
    peer.sockets.at(theirs).other_end = id;
    peer.engine.on_connected(theirs, now_, effects_);
    take(1 - which);
  }

  /// No descriptor was left for the next socket.
  void make_room(std::size_t which) {
    Side& side = sides_[which];
    const std::size_t before = side.engine.connections();
    const bool has_made_room = side.engine.make_room(effects_);
    VERBATIM_ASSERT(side.engine.connections() + (has_made_room ? 1 : 0) == before);
    take(which);
  }

  /// Delivers bytes, usually as they were sent, or the end after them.
  void deliver(std::size_t which, std::uint32_t step) {
    Side& side = sides_[which];
    if (side.sockets.empty()) return;
    auto found = side.sockets.begin();
    std::advance(found, input_.byte() % side.sockets.size());
    const ConnectionId id = found->first;
    Socket& socket = found->second;
    std::vector<std::byte> bytes(std::min<std::size_t>(
        {side.engine.bytes_wanted(id), socket.arrived.size(), 1 + input_.byte()}));
    std::copy_n(socket.arrived.begin(), bytes.size(), bytes.begin());
    socket.arrived.erase(socket.arrived.begin(),
                         socket.arrived.begin() + static_cast<std::ptrdiff_t>(bytes.size()));
    if (step % 8 == 7 && !bytes.empty()) {
      bytes[input_.byte() % bytes.size()] = static_cast<std::byte>(input_.byte());
    }
    if (!bytes.empty()) {
      side.engine.on_bytes(id, bytes, effects_);
    } else if (socket.has_ended) {
      side.engine.on_end(id, step % 4 == 0 ? ECONNRESET : 0, now_, effects_);
    }
    take(which);
  }

  void pass(TimeNs until) {
    if (until == kNever) return;
    now_ = std::max(now_, until);
    for (std::size_t which = 0; which < 2; ++which) {
      if (sides_[which].engine.deadline() > now_) continue;
      sides_[which].engine.on_timeout(now_, effects_);
      take(which);
    }
  }

  void end() {
    for (std::size_t which = 0; which < 2; ++which) {
      for (const ConnectionId id : sides_[which].known) {
        sides_[which].engine.release(id, now_, effects_);
        take(which);
      }
    }
    for (const Side& side : sides_) {
      while (side.engine.deadline() != kNever) pass(side.engine.deadline());
      VERBATIM_ASSERT(side.engine.connections() == 0);
      VERBATIM_ASSERT(side.sockets.empty());
    }
  }

  Input& input_;
  std::array<Side, 2> sides_{Side(3), Side(5)};
  StreamEffects effects_;
  std::vector<ConnectionId> ended_;  // Whose queue pair has ended its side.
  TimeNs now_ = 1'000 * kSecond;
};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  Input input(data, size);
  World(input).run();
  return 0;
}
