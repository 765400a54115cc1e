// Two ends in virtual time: messages are late, programs read late, and connections are cut, by
// seed.
#include <algorithm>
#include <array>
#include <deque>
#include <random>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "ulp/sdp/stream.h"

namespace verbatim::ulp::sdp {
namespace {

constexpr std::uint32_t kTicks = 400'000;

struct Packet {
  std::uint32_t due = 0;
  std::vector<std::byte> bytes;
};

/// One end with its program, which writes a sequence of bytes and reads the other's.
struct Side {
  explicit Side(const Limits& limits) : stream(limits), slots(limits.receives) {
    for (std::uint32_t i = 0; i < limits.receives; ++i) free.push_back(i);
  }
  Stream stream;
  std::vector<std::vector<std::byte>> slots;  // Receives.
  std::deque<std::uint32_t> free;             // Posted ones.
  std::deque<Packet> wire;                    // What this end has sent.
  std::uint64_t to_write = 0;
  std::uint64_t written = 0;
  std::uint64_t read = 0;
  std::uint32_t reads_from = 0;  // The program does not read before,
  bool writes_first = false;     // or before it has written all.
  bool lends = false;
  bool is_lent = false;
  std::uint64_t lent_from = 0;     // The place in the sequence that is lent.
  std::uint32_t read_ends_at = 0;  // A READ in flight: when it ends, and how much it reads.
  std::uint32_t reads = 0;
};

class World {
 public:
  World(std::uint64_t seed, bool cuts) : random_(seed), sides_{Side(limits()), Side(limits())} {
    auto& [a, b] = sides_;
    const auto ack = b.stream.on_hello(a.stream.hello());
    EXPECT_TRUE(ack && a.stream.on_hello_ack(*ack));
    for (Side& side : sides_) {
      side.to_write = below(4) == 0 ? 0 : below(3'000);
      side.reads_from = below(3) == 0 ? below(5'000) : 0;
    }
    a.writes_first = below(4) == 0;
    for (Side& side : sides_) {
      side.lends = below(2) == 0;
      side.stream.set_borrows(below(4) > 0);
    }
    if (cuts) cut_at_ = below(300);
  }

  void run() {
    for (now_ = 0; now_ < kTicks && now_ < cut_at_ && !is_over(); ++now_) {
      for (std::size_t i = 0; i < 2; ++i) {
        deliver(sides_[i], sides_[1 - i]);
        act(sides_[i], sides_[1 - i]);
        send_controls(sides_[i]);
      }
    }
  }

  void expect_complete() {
    for (std::size_t i = 0; i < 2; ++i) {
      EXPECT_EQ(sides_[i].read, sides_[1 - i].to_write);
      EXPECT_TRUE(sides_[i].stream.peer_finished());
      EXPECT_EQ(sides_[i].stream.fault(), Fault::none);
    }
  }
  void expect_prefix() {
    for (std::size_t i = 0; i < 2; ++i) EXPECT_LE(sides_[i].read, sides_[1 - i].to_write);
  }

 private:
  Limits limits() {
    return {.receives = static_cast<std::uint16_t>(kFewestReceives + below(12)),
            .receive_bytes = static_cast<std::uint32_t>(Header::kSize + 1 + below(40))};
  }
  std::uint32_t below(std::uint32_t end) { return static_cast<std::uint32_t>(random_() % end); }
  static std::byte byte_at(std::uint64_t position) {
    return static_cast<std::byte>(position * 7 % 251);
  }

  bool is_over() const {
    return std::ranges::all_of(sides_, [](const Side& side) {
      return side.stream.peer_finished() && !side.stream.has_data() && side.reads == 0 &&
             !side.stream.borrowed() && side.stream.is_drained() && side.wire.empty();
    });
  }

  void put(Side& side, const Header& header, const Body& body, ByteSpan data) {
    std::array<std::byte, kMostHead> head{};
    const std::size_t bytes = encode(header, body, head);
    Packet packet{.due = now_ + below(20),
                  .bytes = {head.begin(), head.begin() + static_cast<std::ptrdiff_t>(bytes)}};
    packet.bytes.insert(packet.bytes.end(), data.begin(), data.end());
    EXPECT_EQ(header.buffers, side.free.size());  // A message grants what is posted, no more.
    side.wire.push_back(std::move(packet));
  }

  void send_controls(Side& side) {
    while (const auto control = side.stream.next_control())
      put(side, control->header, control->body, {});
  }

  void deliver(Side& from, Side& to) {
    while (!from.wire.empty() &&
           from.wire.front().due <= now_) {  // In order, as an RC queue pair does.
      ASSERT_FALSE(to.free.empty()) << "a message without a receive";
      const std::uint32_t slot = to.free.front();
      to.free.pop_front();
      to.slots[slot] = std::move(from.wire.front().bytes);
      from.wire.pop_front();
      if (to.stream.on_message(slot, to.slots[slot]) == Stream::Use::again) to.free.push_back(slot);
      send_controls(to);
    }
  }

  /// Lends the next bytes, and goes on when it has them back.
  void lend(Side& side) {
    const std::uint64_t left = side.to_write - side.written;
    const std::size_t room = side.stream.lending_room();
    if (!side.lends || side.is_lent || room == 0 || left < 2 || below(3) > 0) return;
    const std::uint32_t bytes = 2 + below(static_cast<std::uint32_t>(left - 1));
    const std::size_t first =
        1 + below(static_cast<std::uint32_t>(std::min<std::size_t>(room, bytes - 1)));
    std::vector<std::byte> data(first);
    for (std::size_t i = 0; i < first; ++i) data[i] = byte_at(side.written + i);
    side.lent_from = side.written;
    side.is_lent = true;
    const SourceAvailable memory{.bytes = bytes, .key = {}, .address = side.written};
    put(side, side.stream.lend(memory, first), memory, data);
  }
  void take_back(Side& side) {
    if (!side.is_lent) return;
    if (below(200) == 0) side.stream.reclaim();
    if (side.stream.is_lending()) return;
    side.is_lent = false;
    side.written = side.lent_from + side.stream.lent_bytes_moved();
  }

  /// Reads what the other side lends, which takes some time.
  void borrow(Side& side, const Side& other) {
    if (side.reads > 0) {
      if (now_ < side.read_ends_at) return;
      ASSERT_TRUE(other.is_lent) << "memory that is not lent any more";
      side.stream.on_borrowed_read(side.reads);
      side.read += side.reads;
      side.reads = 0;
      return;
    }
    const auto memory = side.stream.borrowed();
    if (!memory) return;
    ASSERT_EQ(memory->address, side.read);
    if (below(10) == 0) return side.stream.refuse_borrowed();
    side.stream.begin_borrowed_read();
    side.reads = 1 + below(memory->bytes);
    side.read_ends_at = now_ + below(30);
  }

  bool may_read(const Side& side) const {
    return now_ >= side.reads_from && (!side.writes_first || side.stream.is_finished());
  }
  void borrow_if_reading(Side& side, const Side& other) {
    if (side.reads > 0 || may_read(side)) borrow(side, other);
  }

  void act(Side& side, Side& other) {
    borrow_if_reading(side, other);
    take_back(side);
    if (below(3) == 0) return;
    lend(side);
    while (side.stream.room() > 0 && side.written < side.to_write && below(4) > 0) {
      const auto most = static_cast<std::uint32_t>(
          std::min<std::uint64_t>(side.stream.room(), side.to_write - side.written));
      std::vector<std::byte> data(1 + below(most));
      for (std::byte& byte : data) byte = byte_at(side.written++);
      put(side, side.stream.data(data.size(), false), {}, data);
    }
    if (side.written == side.to_write && !side.is_lent && !side.stream.is_finished()) {
      side.stream.finish();
    }
    if (!may_read(side)) return;
    while (side.reads == 0 && side.stream.has_data() && below(4) > 0) {
      const Stream::Piece piece = side.stream.piece(0);
      const std::uint32_t bytes = 1 + below(piece.bytes);
      for (std::uint32_t i = 0; i < bytes; ++i) {
        ASSERT_EQ(side.slots[piece.slot][piece.offset + i], byte_at(side.read++));
      }
      if (const auto slot = side.stream.consume(bytes)) side.free.push_back(*slot);
    }
  }

  std::mt19937_64 random_;
  std::array<Side, 2> sides_;
  std::uint32_t now_ = 0;
  std::uint32_t cut_at_ = kTicks;
};

TEST(SdpWorld, EveryByteComesOnceAndInOrder) {
  for (std::uint64_t seed = 1; seed <= 1000; ++seed) {
    SCOPED_TRACE(seed);
    World world(seed, false);
    world.run();
    world.expect_complete();
    if (testing::Test::HasFailure()) return;
  }
}

TEST(SdpWorld, WhatCameBeforeACutIsRight) {
  for (std::uint64_t seed = 1; seed <= 200; ++seed) {
    SCOPED_TRACE(seed);
    World world(seed, true);
    world.run();
    world.expect_prefix();
    if (testing::Test::HasFailure()) return;
  }
}

}  // namespace
}  // namespace verbatim::ulp::sdp
