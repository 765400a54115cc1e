#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <poll.h>
#include <sched.h>

#include "fabric/protocol/fabric_folder.h"
#include "link/fabric/fabric_link.h"
#include "wire/ib/bth.h"
#include "wire/net/lrh.h"

/// Packets between two hosts of the fabric that runs, below the verbs: what links and switches do.
///
///     packets receive HOST COUNT       prints "ready"; takes COUNT packets, which must be in order
///     packets send HOST LID COUNT      sends them; COUNT 0: until it is killed
namespace {

using namespace verbatim;

constexpr std::uint32_t kRange = 5;
constexpr std::size_t kPacketBytes = 1024;
constexpr int kPatienceMs = 30'000;

[[noreturn]] void fail(const std::string& text) {
  fmt::print(stderr, "packets: {}\n", text);
  std::exit(1);
}

template <typename T>
T get(Result<T> result) {
  if (!result) fail(result.error().text);
  return std::move(*result);
}

std::unique_ptr<link::FabricLink> attach(const std::string& host, std::uint32_t range) {
  const auto folder = get(fabric::protocol::FabricFolder::of(fabric::protocol::kDefaultFabric));
  return get(link::FabricLink::attach(get(folder.connect()), folder.path(),
                                      {.host = host, .qpn_range = range}));
}

void wait_for(link::FabricLink& link) {
  if (!link.begin_sleep()) return;
  pollfd ready{.fd = link.descriptors()[0], .events = POLLIN, .revents = 0};
  if (poll(&ready, 1, kPatienceMs) != 1) fail("nothing comes");
}

constexpr std::size_t kNumberAt = wire::Lrh::kSize + wire::Bth::kSize;

class Checker final : public link::Sink {
 public:
  void on_packets(const link::Received& packets, TimeNs) override {
    std::uint32_t number = 0;
    std::memcpy(&number, packets.bytes.data() + kNumberAt, sizeof number);
    if (number != received) fail(fmt::format("packet {} in place of {}", number, received));
    ++received;
  }
  std::uint32_t received = 0;
};

void receive(const std::string& host, std::uint32_t count) {
  const auto link = attach(host, kRange);
  fmt::print("ready\n");
  std::fflush(stdout);
  Checker checker;
  while (checker.received < count) {
    if (link->receive(checker, monotonic_now()) == 0) wait_for(*link);
  }
}

void send(const std::string& host, Lid to, std::uint32_t count) {
  const auto link = attach(host, kRange + 1);
  const Path path = InfinibandPath{.dlid = to};
  link::NextHop& hop = *get(link->next_hop(path, Qpn(kRange << 14), {}));
  std::vector<std::byte> packet(kPacketBytes);
  const std::span<std::byte> bytes(packet);
  wire::encode(wire::Lrh{.dlid = to, .length_words = kPacketBytes / 4},
               bytes.first<wire::Lrh::kSize>());
  wire::Bth bth;
  bth.dest_qp = Qpn(kRange << 14);
  wire::encode(bth, bytes.subspan<wire::Lrh::kSize, wire::Bth::kSize>());
  Checker nothing;
  const wire::IcrcSeed no_seed{wire::IpFlow{}};
  for (std::uint32_t number = 0; count == 0 || number < count;) {
    if (!link->reserve(hop.lane(), link::Reservation::of(kPacketBytes))) {
      link->receive(nothing, monotonic_now());
      wait_for(*link);
      continue;
    }
    std::memcpy(packet.data() + kNumberAt, &number, sizeof number);
    const iovec piece{packet.data(), packet.size()};
    const int error = link->send({.to = hop,
                                  .path = path,
                                  .seed = no_seed,
                                  .pieces = {&piece, 1},
                                  .packet_bytes = kPacketBytes,
                                  .count = 1,
                                  .lane = hop.lane()});
    if (error != 0) fail(std::strerror(error));
    ++number;
  }
}

}  // namespace

int main(int argc, char** argv) {
  const std::vector<std::string> words(argv + 1, argv + argc);
  if (words.size() == 3 && words[0] == "receive") {
    receive(words[1], static_cast<std::uint32_t>(std::stoul(words[2])));
  } else if (words.size() == 4 && words[0] == "send") {
    send(words[1], Lid(static_cast<std::uint16_t>(std::stoul(words[2]))),
         static_cast<std::uint32_t>(std::stoul(words[3])));
  } else {
    fail("see the source");
  }
  return 0;
}
