// Any bytes as RDS's messages: what is decoded can be encoded again, and a broker that gets them
// from a peer neither loses memory nor keeps more than it may.
#include <algorithm>
#include <array>
#include <memory>
#include <vector>

#include "base/assert.h"
#include "input.h"
#include "ulp/rds/broker.h"
#include "ulp/rds/wire/connect.h"

namespace {

using namespace verbatim;
using namespace verbatim::ulp;
using namespace verbatim::ulp::rds;

constexpr std::size_t kFragments = 64;

class Pool final : public Fragments {
 public:
  Pool() {
    for (std::size_t i = 0; i < kFragments; ++i)
      free_.push_back({&memory_[i * kRoom], static_cast<std::uint32_t>(kRoom), {}});
  }
  bool take(std::span<Slice> slices) override {
    if (free_.size() < slices.size()) return false;
    for (Slice& slice : slices) {
      slice = free_.back();
      free_.pop_back();
    }
    return true;
  }
  void give_back(std::span<const Slice> slices) override {
    for (const Slice& slice : slices)
      free_.push_back({slice.data, static_cast<std::uint32_t>(kRoom), {}});
    VERBATIM_ASSERT(free_.size() <= kFragments);
  }
  std::size_t free() const { return free_.size(); }

 private:
  static constexpr std::size_t kRoom = Header::kSize + kFragmentBytes;
  std::vector<std::byte> memory_ = std::vector<std::byte>(kFragments * kRoom);
  std::vector<Slice> free_;
};

/// A process whose programs read nothing.
class Silent final : public Outside {
 public:
  bool deliver(SocketId, const Delivery&) override { return false; }
  void tell_congestion(SocketId, std::uint64_t) override {}
  void let_send(std::uint64_t) override {}
  void pause(SocketId, bool) override {}
  void show_congestion(bool) override {}
  bool is_own(const SocketAddress& address) override { return address.ipv4_bytes()[3] == 1; }
  Result<LinkId> connect(const Pair&, const PrivateData&) override { return LinkId{++last}; }
  void accept(LinkId, const PrivateData&) override {}
  void reject(LinkId, const PrivateData&) override {}
  void disconnect(LinkId link, const char*) override { ended = link; }
  void carry_out(LinkId, std::span<const Work> work) override { posted += work.size(); }
  void carry_out(LinkId, const Atomic&) override { ++posted; }
  void on_operation(SocketId, const Operation&, OperationStatus) override {}
  void on_finished(SocketId) override {}
  void on_used(SocketId, MemoryKey) override {}

  std::uint32_t last = 0;
  LinkId ended{};
  std::uint64_t posted = 0;
};

void check_round_trip(ByteSpan bytes) {
  if (const auto header = decode_header(bytes)) {
    std::array<std::byte, Header::kSize> out;
    encode(*header, out);
    VERBATIM_ASSERT(decode_header(out) == header);
  }
  for (const int family : {AF_INET, AF_INET6}) {
    const auto data = decode_connect(bytes, family);
    if (!data) continue;
    const PrivateData out = encode(*data);
    VERBATIM_ASSERT(decode_connect({out.begin(), out.size()}, family) == data);
  }
}

/// Fields that most messages need to go on: a length that fits, and no checksum.
void repair(std::vector<std::byte>& bytes) {
  if (bytes.size() < Header::kSize) return;
  bytes[30] = bytes[31] = std::byte{};
  store_be(&bytes[16], static_cast<std::uint32_t>(bytes.size() - Header::kSize));
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  check_round_trip(std::as_bytes(std::span(data, size)));
  Input input(data, size);
  Pool pool;
  Silent process;
  {
    Broker broker(process, pool, {.held_bytes_max = 10'000});
    const SocketAddress own = SocketAddress::ipv4({10, 0, 0, 1}, 7);
    const SocketAddress peer = SocketAddress::ipv4({10, 0, 0, 2}, 7);
    VERBATIM_ASSERT(broker.open(SocketId{1}) && broker.bind(SocketId{1}, own));
    for (TimeNs now = 1; !input.empty(); now += kSecond) {
      std::vector<Slice> slice(1);
      if (pool.take(slice)) {
        slice[0].bytes = Header::kSize;
        static_cast<void>(broker.send(SocketId{1}, peer, {.fragments = slice}, now));
      }
      broker.on_time(now);
      const LinkId link{process.last};
      const auto answer = encode(ConnectData{.source = peer, .destination = own});
      broker.on_established(link, {answer.begin(), answer.size()}, now);
      while (!input.empty() && process.ended != link) {
        std::vector<std::byte> bytes(input.two() % 5000);
        for (std::size_t i = 0; i < std::min<std::size_t>(bytes.size(), Header::kSize); ++i)
          bytes[i] = static_cast<std::byte>(input.byte());
        if (input.byte() < 200) repair(bytes);
        broker.on_message(link, bytes, now);
        broker.flush();
        broker.on_done(link, Tag{static_cast<std::uint32_t>(process.posted)});
        const auto& peers = broker.peers();
        VERBATIM_ASSERT(peers.begin()->second->held_bytes <= 10'000);
      }
      broker.on_end(link, "", now);
    }
  }
  VERBATIM_ASSERT(pool.free() == kFragments);
  return 0;
}
