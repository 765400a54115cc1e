#include "link/capture_file/capture_merge.h"

#include <string>
#include <vector>

#include <gtest/gtest.h>
#include <unistd.h>

namespace verbatim::link {
namespace {

/// Two programs, whose packets are one byte long.
struct Bench {
  std::unique_ptr<CaptureRing> a = CaptureRing::create(4096).value();
  std::unique_ptr<CaptureRing> b = CaptureRing::create(4096).value();
  CaptureMerge merge;

  static CaptureReader reader_of(const CaptureRing& ring) {
    return CaptureReader::open(UniqueFd(dup(ring.fd()))).value();
  }
  static void put(CaptureRing& ring, TimeNs time, char content) {
    const iovec piece{&content, 1};
    ring.add({.time = time}, std::span(&piece, 1), 0, 1);
  }
  /// What comes before `horizon`.
  std::string read(TimeNs horizon) {
    std::string contents;
    CapturedPacket packet;
    ByteSpan bytes;
    while (merge.next(horizon, packet, bytes)) contents += static_cast<char>(bytes[0]);
    return contents;
  }
};

TEST(CaptureMerge, PacketsComeByTime) {
  Bench bench;
  bench.merge.add(1, Bench::reader_of(*bench.a));
  bench.merge.add(2, Bench::reader_of(*bench.b));
  Bench::put(*bench.b, 20, 'b');
  Bench::put(*bench.b, 40, 'd');
  Bench::put(*bench.a, 10, 'a');
  Bench::put(*bench.a, 30, 'c');
  EXPECT_EQ(bench.read(kNever), "abcd");
}

TEST(CaptureMerge, APacketWaitsForOthersUntilTheHorizon) {
  Bench bench;
  bench.merge.add(1, Bench::reader_of(*bench.a));
  bench.merge.add(2, Bench::reader_of(*bench.b));
  Bench::put(*bench.a, 20, 'b');
  EXPECT_EQ(bench.read(20), "");
  Bench::put(*bench.b, 10, 'a');  // It was slow.
  EXPECT_EQ(bench.read(21), "ab");
}

TEST(CaptureMerge, ANewRingOfAProgramComesBesideTheOldOneUntilThatIsEmpty) {
  Bench bench;
  bench.merge.add(1, Bench::reader_of(*bench.a));
  Bench::put(*bench.a, 10, 'a');
  bench.merge.add(1, Bench::reader_of(*bench.b));
  Bench::put(*bench.b, 20, 'b');
  EXPECT_EQ(bench.merge.rings(), 2u);
  EXPECT_EQ(bench.read(kNever), "ab");
  EXPECT_EQ(bench.merge.rings(), 1u);
  EXPECT_EQ(bench.merge.packets(), 2u);
}

TEST(CaptureMerge, ADamagedRingIsCountedAndGoes) {
  Bench bench;
  bench.merge.add(1, Bench::reader_of(*bench.a));
  bench.merge.add(2, Bench::reader_of(*bench.b));
  const char content = 'x';
  const iovec piece{const_cast<char*>(&content), 1};
  // No remark has this number. NOLINTNEXTLINE(clang-analyzer-optin.core.EnumCastOutOfRange)
  bench.a->add({.time = 1, .remark = static_cast<Remark>(99)}, std::span(&piece, 1), 0, 1);
  Bench::put(*bench.b, 20, 'b');
  EXPECT_EQ(bench.read(kNever), "b");
  EXPECT_EQ(bench.merge.damaged(), 1u);
  EXPECT_EQ(bench.merge.rings(), 1u);
  EXPECT_EQ(bench.merge.packets(), 2u);
}

}  // namespace
}  // namespace verbatim::link
