// function_ends FUNCTION FUNCTION [SECONDS]: links of two nodes on two functions (SOCKET/vf0), in
// one process. Sends packets of either RoCE version over IPv4 and IPv6, to nodes and to groups, and
// compares what comes. With SECONDS: how fast packets of 4,200 bytes pass.
#include <algorithm>
#include <array>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include <poll.h>

#include "base/net/path.h"
#include "base/time.h"
#include "link/ethernet/function_link.h"
#include "wire/ib/bth.h"
#include "wire/net/ethernet/roce_frame.h"
#include "wire/net/flow_grh.h"

namespace {

using namespace verbatim;
using namespace verbatim::link;

void need(bool good, const std::string& words) {
  if (good) return;
  std::fprintf(stderr, "function_ends: %s\n", words.c_str());
  std::exit(1);
}

template <typename T>
T need(Result<T> result) {
  if (!result) need(false, result.error().text);
  return std::move(*result);
}

constexpr std::uint32_t kQpn = 3 << 14 | 7;  // Of the program in slot 3.

class Collector final : public Sink {
 public:
  void on_packets(const Received& packets, TimeNs) override {
    ++count_;
    bytes_.assign(packets.bytes.begin(), packets.bytes.end());
    group_ = packets.group;
    from_ = packets.from == nullptr ? SocketAddress() : address_of(*packets.from);
  }
  std::size_t count_ = 0;
  std::vector<std::byte> bytes_;
  Gid group_{};
  SocketAddress from_;
};

/// A program of a node: with `answers` also what the agent does.
struct Node {
  Node(const FunctionName& function, const char* text, std::uint16_t port)
      : address(need(SocketAddress::parse(text, port))),
        agent(open({function, 0, 14, true})),
        program(open({function, 3, 14, false})) {}
  std::unique_ptr<FunctionLink> open(const FunctionPlace& place) const {
    return need(FunctionLink::open(address, std::make_shared<NodeFunction>(place)));
  }
  SocketAddress address;
  std::unique_ptr<FunctionLink> agent, program;
};

/// The agent's thread: answers who asks.
class Answering {
 public:
  explicit Answering(Node& node)
      : thread_([this, &node] {
          Collector nothing;
          while (!ends_) {
            node.agent->receive(nothing, monotonic_now());
            std::this_thread::yield();
          }
        }) {}
  ~Answering() {
    ends_ = true;
    thread_.join();
  }

 private:
  std::atomic<bool> ends_{false};
  std::thread thread_;
};

/// A packet as the port makes it: GRH (v1), BTH, content.
std::vector<std::byte> packet(const Path& path, const SocketAddress& from, std::uint32_t qpn,
                              std::size_t bytes) {
  std::vector<std::byte> made;
  if (std::holds_alternative<RoceV1Path>(path)) {
    made.resize(wire::Grh::kSize);
    encode(wire::Grh{.payload_length = static_cast<std::uint16_t>(bytes),
                     .source = gid_of(from),
                     .destination = gid_of(address_of(path))},
           std::span<std::byte, wire::Grh::kSize>(made.data(), wire::Grh::kSize));
  }
  const std::size_t start = made.size();
  made.resize(start + bytes);
  for (std::size_t i = 0; i < bytes; ++i) made[start + i] = static_cast<std::byte>(i * 7);
  store_be24(&made[start + 5], qpn);
  return made;
}

void send(Node& from, const Path& path, std::uint32_t qpn, std::span<const std::byte> bytes,
          std::uint32_t count) {
  NextHop* const hop = need(from.program->next_hop(path, Qpn(qpn), 2 * kSecond));
  const wire::IcrcSeed seed(wire::flow_of(from.address, address_of(path)));
  std::vector<iovec> pieces(count, {const_cast<std::byte*>(bytes.data()), bytes.size()});
  need(from.program->send({.to = *hop,
                           .path = path,
                           .seed = seed,
                           .pieces = pieces,
                           .packet_bytes = bytes.size(),
                           .count = count,
                           .lane = 0}) == 0,
       "send");
}

void await(Node& to, Collector& collector, std::size_t count) {
  const TimeNs deadline = monotonic_now() + 10 * kSecond;
  while (collector.count_ < count) {
    need(monotonic_now() < deadline, to.address.text() + " receives nothing");
    to.program->receive(collector, monotonic_now());
    std::this_thread::yield();
  }
}

void compare(const std::array<FunctionName, 2>& functions, const char* one, const char* other,
             std::uint16_t port, const char* group) {
  Node a(functions[0], one, port), b(functions[1], other, port);
  const Answering a_answers(a), b_answers(b);
  const auto to_address = [port](const SocketAddress& address) {
    return port == 0 ? Path(RoceV1Path{address, {}}) : Path(RoceV2Path{address, {}});
  };
  Collector got;
  const Path path = to_address(b.address);
  for (const std::size_t size : {16u, 256u, 4200u}) {
    const auto sent = packet(path, a.address, kQpn, size);
    got.count_ = 0;
    send(a, path, kQpn, sent, 20);
    await(b, got, 20);
    need(got.bytes_.size() >= sent.size(), "a packet is cut");  // v1: Ethernet may pad.
    need(std::equal(sent.begin(), sent.end(), got.bytes_.begin()), "content differs");
    need(port == 0 || same_ip(got.from_, a.address), "the source differs");
  }
  const SocketAddress members = need(SocketAddress::parse(group, port));
  const MulticastGroup joined{.gid = gid_of(members)};
  need(b.program->join(joined).has_value(), "join");
  got.count_ = 0;
  send(a, to_address(members), 0xffffff, packet(to_address(members), a.address, 0xffffff, 64), 1);
  await(b, got, 1);
  need(got.group_ == joined.gid, "not to the group");
  b.program->leave(joined);
  // To a program of its own node.
  got.count_ = 0;
  send(a, to_address(a.address), kQpn, packet(to_address(a.address), a.address, kQpn, 64), 1);
  await(a, got, 1);
  const auto nobody = a.program->next_hop(
      to_address(need(SocketAddress::parse(a.address.is_ipv4() ? "10.9.0.77" : "fd09::77", port))),
      Qpn(kQpn), 100 * kMillisecond);
  need(!nobody && nobody.error().code == EHOSTUNREACH, "an address that nobody has");
}

/// What a client has sent arrives, even if it ends before the card knows.
void send_and_end(const std::array<FunctionName, 2>& functions) {
  constexpr std::size_t kCount = 100;
  const auto to = need(offload::FunctionClient::join(
      {.socket = functions[1].socket, .function = functions[1].function}));
  auto from = need(offload::FunctionClient::join(
      {.socket = functions[0].socket, .function = functions[0].function, .wants = 0}));
  for (std::size_t i = 0; i < kCount; ++i) {
    const MutableByteSpan room = from->room();
    std::fill_n(room.begin(), 200, std::byte{2});
    from->post(200);
  }
  from.reset();
  std::size_t count = 0;
  const TimeNs deadline = monotonic_now() + 10 * kSecond;
  while (count < kCount) {
    need(monotonic_now() < deadline, "the last frames of a client that has ended are lost");
    to->receive([&](ByteSpan frame) { count += frame.size() == 200 ? 1 : 0; });
    std::this_thread::yield();
  }
}

/// A thread that polls takes no word away from one that sleeps.
void poll_beside_a_sleeper(const std::array<FunctionName, 2>& functions) {
  const auto port =
      need(FunctionPort::open({.socket = functions[1].socket, .function = functions[1].function}));
  auto from = need(offload::FunctionClient::join(
      {.socket = functions[0].socket, .function = functions[0].function, .wants = 0}));
  need(port->begin_sleep(), "a frame that nobody has sent");
  port->receive([](MutableByteSpan) {});
  std::fill_n(from->room().begin(), 200, std::byte{2});
  from->post(200);
  from->ring();
  pollfd ready{.fd = port->descriptor(), .events = POLLIN, .revents = 0};
  need(poll(&ready, 1, 10'000) == 1, "who sleeps is not woken");
}

/// Packets of RoCE v2, whose content nobody looks at, ring to ring.
void measure(const std::array<FunctionName, 2>& functions, int seconds) {
  auto to = need(offload::FunctionClient::join(
      {.socket = functions[1].socket, .function = functions[1].function}));
  auto from = need(offload::FunctionClient::join(
      {.socket = functions[0].socket, .function = functions[0].function, .wants = 0}));
  std::array<std::byte, 4200> packet{};
  const wire::IpFlow flow = wire::flow_of(need(SocketAddress::parse("10.9.0.1", kRocePort)),
                                          need(SocketAddress::parse("10.9.0.2", kRocePort)));
  wire::encode_roce_v2_headers({2, 0, 0, 0, 0, 2}, {2, 0, 0, 0, 0, 1}, flow, 0, packet);
  const std::size_t headers = wire::roce_v2_header_bytes(flow) + wire::Bth::kSize;
  std::uint64_t bytes = 0;
  const TimeNs begun = monotonic_now();
  std::atomic<bool> ends{false};
  std::thread sender([&] {
    while (!ends) {
      const MutableByteSpan room = from->room();
      if (room.empty()) {
        std::this_thread::yield();
        continue;
      }
      std::copy_n(packet.begin(), headers, room.begin());
      from->post(packet.size());
      from->ring();
    }
  });
  while (monotonic_now() < begun + seconds * kSecond) {
    if (to->receive([&](ByteSpan frame) { bytes += frame.size(); }) == 0) std::this_thread::yield();
  }
  ends = true;
  sender.join();
  std::printf("%.2f GB/s\n",
              static_cast<double>(bytes) / static_cast<double>(monotonic_now() - begun));
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 3) return 1;
  const std::array functions{need(parse_function(argv[1])), need(parse_function(argv[2]))};
  if (argc > 3) {
    measure(functions, std::atoi(argv[3]));
    return 0;
  }
  for (const std::uint16_t port : {kRocePort, std::uint16_t{0}}) {
    compare(functions, "10.9.0.1", "10.9.0.2", port, "239.1.2.3");
    compare(functions, "fd09::1", "fd09::2", port, "ff15::7");
  }
  send_and_end(functions);
  poll_beside_a_sleeper(functions);
  std::puts("ok");
  return 0;
}
