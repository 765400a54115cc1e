// Two connection managers whose programs make any calls at any time, over a network (RoCE or
// InfiniBand) that loses, repeats, reorders and changes their messages. When both programs have
// released everything and time has passed, neither engine has any state left.
#include <algorithm>

#include "base/assert.h"
#include "cm/ib/connection_manager.h"
#include "fuzz/input.h"

namespace {

using namespace verbatim;
using namespace verbatim::cm;

constexpr std::size_t kKeptMax = 32;  // MADs that may still be delivered.
const std::array kAddresses{SocketAddress::ipv4({10, 0, 0, 1}), SocketAddress::ipv4({10, 0, 0, 2})};
const SocketAddress kStranger = SocketAddress::ipv4({10, 0, 0, 66});

/// Bounds that are small enough to be reached.
Settings settings(std::uint16_t slot) {
  return {.slot = slot,
          .node_guid = slot,
          .seed = slot,
          .connections_max = 12,
          .half_open_max = 4,
          .half_open_of_source_max = 3,
          .remembered_max = 2,
          .ending_max = 3};
}
constexpr TimeNs kForEver = 1'000'000 * kSecond;

/// A program and its engine.
struct Side {
  SocketAddress address;
  ConnectionManager engine;
  std::vector<ConnectionId> known;  // Ids that it asked for or was given.

  Side(const SocketAddress& where, std::uint16_t slot) : address(where), engine(settings(slot)) {
    for (const bool datagram : {false, true}) {
      const auto listener = engine.listen({.service = wire::service_id_of(port_space(datagram), 7),
                                           .address = SocketAddress::ipv4({0, 0, 0, 0}),
                                           .datagram = datagram,
                                           .backlog = 2});
      VERBATIM_ASSERT(listener.has_value());
    }
  }
  static PortSpace port_space(bool datagram) { return datagram ? PortSpace::udp : PortSpace::tcp; }
};

class World {
 public:
  World(Input& input, bool is_infiniband) : input_(input), is_infiniband_(is_infiniband) {}

  void run() {
    while (!input_.empty()) {
      Side& side = sides_[input_.byte() & 1];
      const std::uint32_t step = input_.byte();
      if (step < 96) {
        call(side, step % 11);
      } else if (step < 232) {
        deliver(step);
      } else {
        pass(std::min(side.engine.deadline(), now_ + kSecond));
      }
    }
    end();
  }

 private:
  SendMad* choose_mad() { return mads_.empty() ? nullptr : &mads_[input_.byte() % mads_.size()]; }
  Side& side_to(const verbatim::Path& path) {
    return sides_[path == path_to(kAddresses[0]) ? 0 : 1];
  }
  /// Over InfiniBand the last byte of an address is its LID.
  verbatim::Path path_to(const SocketAddress& address) const {
    if (!is_infiniband_) return roce_path(address);
    return InfinibandPath{.dlid = Lid{address.ipv4_bytes()[3]}, .grh = std::nullopt};
  }

  void take(Side& side) {
    VERBATIM_ASSERT(side.engine.size() <= settings(0).connections_max);
    for (Effect& effect : effects_) {
      if (auto* const mad = std::get_if<SendMad>(&effect)) {
        if (mads_.size() == kKeptMax) mads_.erase(mads_.begin());
        mads_.push_back(*mad);
      } else if (const auto* const request = std::get_if<ConnectRequest>(&effect)) {
        side.known.push_back(request->connection);
      } else if (const auto* const asked = std::get_if<SidrRequest>(&effect)) {
        side.known.push_back(asked->resolution);
      }
    }
    effects_.clear();
  }
  void deliver(std::uint32_t step) {
    SendMad* const mad = choose_mad();
    if (mad == nullptr) return;
    SendMad given = *mad;
    // Usually unchanged; else with some bytes changed.
    for (std::uint32_t changes = step % 4 == 3 ? 1 + input_.byte() % 4 : 0; changes > 0;
         --changes) {
      given.bytes[input_.byte()] = static_cast<std::byte>(input_.byte());
    }
    if (step % 16 == 14) given.source = kStranger;
    Side& to = side_to(given.destination);
    to.engine.on_mad(given.bytes, path_to(given.source), to.address, now_, effects_);
    take(to);
  }
  void pass(TimeNs until) {
    if (until == kNever) return;
    now_ = std::max(now_, until);
    for (Side& side : sides_) {
      if (side.engine.deadline() > now_) continue;
      side.engine.on_timeout(now_, effects_);
      take(side);
    }
  }
  /// A call that does not fit the state is refused, which is fine.
  void call(Side& side, std::uint32_t what) {
    if (what == 0) {
      connect(side);
    } else if (what == 1) {
      resolve(side);
    } else if (!side.known.empty()) {
      call_about(side, side.known[input_.byte() % side.known.size()], what);
    }
    take(side);
  }
  IpEndpoints ends(const Side& side) {
    return {side.address.with_port(9), other(side).address.with_port(7)};
  }
  Side& other(const Side& side) { return sides_[&side == sides_.data() ? 1 : 0]; }
  cm::Path path(const Side& side) {
    return {.local = side.address,
            .remote = path_to(other(side).address),
            .local_gid = gid_of(side.address),
            .remote_gid = gid_of(other(side).address)};
  }
  QueuePairOffer offer() { return {.qpn = Qpn(input_.byte() & 7), .responder_resources = 1}; }
  RetryPolicy retry() {
    return {.response_timeout = 14, .retries = static_cast<std::uint8_t>(input_.byte() & 3)};
  }
  void connect(Side& side) {
    const auto id = side.engine.connect({.service = wire::service_id_of(PortSpace::tcp, 7),
                                         .path = path(side),
                                         .ends = ends(side),
                                         .offer = offer(),
                                         .retry = retry()},
                                        now_, effects_);
    if (id) side.known.push_back(*id);
  }
  void resolve(Side& side) {
    const auto id = side.engine.resolve({.service = wire::service_id_of(PortSpace::udp, 7),
                                         .path = path(side),
                                         .ends = ends(side),
                                         .retry = retry()},
                                        now_, effects_);
    if (id) side.known.push_back(*id);
  }
  void call_about(Side& side, ConnectionId id, std::uint32_t what) {
    ConnectionManager& engine = side.engine;
    switch (what) {
      case 2:
        return ignore(engine.accept(id, {.offer = offer()}, now_, effects_));
      case 3:
        return ignore(engine.establish(id, {}, now_, effects_));
      case 4:
        return ignore(engine.reject(id, RejectReason::consumer, {}, now_, effects_));
      case 5:
        return ignore(
            engine.delay(id, static_cast<std::uint8_t>(input_.byte() & 31), now_, effects_));
      case 6:
        return ignore(engine.notify_established(id, now_, effects_));
      case 7:
        return ignore(engine.disconnect(id, {}, now_, effects_));
      case 8:
        return side.engine.note_taken(id);
      case 9:
        return ignore(engine.answer(id, {.qpn = Qpn(3)}, now_, effects_));
      default:
        return engine.release(id, now_, effects_);
    }
  }
  static void ignore(const Result<void>&) {}

  void end() {
    for (Side& side : sides_) {
      for (const ConnectionId id : side.known) side.engine.release(id, now_, effects_);
      take(side);
    }
    for (Side& side : sides_) {
      while (side.engine.deadline() < kForEver) pass(side.engine.deadline());
    }
    for (const Side& side : sides_) VERBATIM_ASSERT(side.engine.size() == 0);
  }

  Input& input_;
  const bool is_infiniband_;
  std::array<Side, 2> sides_{Side(kAddresses[0], 3), Side(kAddresses[1], 5)};
  Effects effects_;
  std::vector<SendMad> mads_;
  TimeNs now_ = 1'000 * kSecond;
};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  Input input(data, size);
  World(input, size % 2 == 1).run();  // Both have inputs in the corpus.
  return 0;
}
