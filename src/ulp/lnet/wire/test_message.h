#pragma once

#include <array>
#include <cstdint>
#include <optional>

#include "base/bytes.h"
#include "ulp/lnet/wire/byte_order.h"
#include "ulp/lnet/wire/nid.h"

/// LNet's self-test (`lst`): requests and answers of 160 bytes, each the payload of a PUT. A
/// request goes to the portal of its service, whose number is its match bits; the answer to portal
/// 52, with the bits that the request names.
namespace verbatim::ulp::lnet {

inline constexpr std::uint32_t kTestPortal = 50, kFrameworkPortal = 51, kAnswerPortal = 52;

/// Also the match bits of its requests.
enum class TestService : std::uint8_t {
  make_session = 1,
  end_session = 2,
  batch = 3,
  test = 4,
  statistics = 5,
  join = 6,
  bulk = 11,
  ping = 12,
};
/// Of a request; its answer's is one more.
enum class TestKind : std::uint32_t {
  make_session = 0,
  end_session = 2,
  batch = 4,
  statistics = 6,
  test = 8,
  debug = 10,
  bulk = 12,
  ping = 14,
  join = 16,
};
constexpr TestKind answer_to(TestKind kind) {
  return TestKind{static_cast<std::uint32_t>(kind) + 1};
}

struct TestSession {
  std::uint64_t nid = 0, stamp = 0;
  friend bool operator==(const TestSession&, const TestSession&) = default;
};

/// What a node has counted since its start, and of its session.
struct TestStatistics {
  std::uint32_t session_ms = 0, bulk_errors = 0;
  std::uint32_t requests = 0;                       // That have come.
  std::uint64_t fetched_bytes = 0, sent_bytes = 0;  // Of bulks.
  struct {
    std::uint32_t sent = 0, received = 0, forwarded = 0, dropped = 0;
    std::uint64_t sent_bytes = 0, received_bytes = 0, forwarded_bytes = 0, dropped_bytes = 0;
  } messages;  // Of LNet.
};

enum class BulkKind : std::uint32_t { read = 1, write = 2 };
/// Which bytes are checked: none, the ends of each page, all.
enum class BulkCheck : std::uint32_t { none = 1, simple = 2, full = 3 };
struct BulkRequest {
  std::uint64_t answer_bits = 0, bulk_bits = 0;
  BulkKind kind = BulkKind::read;
  std::uint32_t bytes = 0;
  BulkCheck check = BulkCheck::none;
  friend bool operator==(const BulkRequest&, const BulkRequest&) = default;
};

/// Any of the messages: fields are read where the kind has them.
///
///     byte 0-3    4-7       8-11   12-19      20-23      24-159
///         +-------+---------+------+----------+----------+-----------------------------------+
///         | magic | version | kind | reserved | features | request: answer bits 8, of kind   |
///         |       |         |      |          |          | answer: status 4, session 16, ... |
///         +-------+---------+------+----------+----------+-----------------------------------+
class TestMessage {
 public:
  static constexpr std::size_t kSize = 160;
  TestMessage() = default;
  explicit TestMessage(TestKind kind);
  /// None: too short, or no such message.
  static std::optional<TestMessage> decode(ByteSpan bytes);
  ByteSpan bytes() const { return bytes_; }

  TestKind kind() const { return TestKind{u32(8)}; }
  bool is_answer() const { return (u32(8) & 1) != 0; }

  std::uint64_t answer_bits() const { return u64(kBody); }
  BulkRequest bulk() const;
  void set_bulk(const BulkRequest& request);
  /// make_session, end_session, join, debug, statistics, batch; test has it further back.
  TestSession session() const;
  std::uint32_t batch_operation() const { return u32(kBody + 32); }
  bool is_for_client() const { return bytes_[kBody + 52] != std::byte{0}; }  // test
  std::uint32_t ping_number() const { return u32(kBody + 12); }

  /// make_session, end_session, test.
  void set_session(const TestSession& session);
  /// test: requests of this service will come.
  void set_service(TestService service, std::uint32_t concurrency);
  void set_ping(std::uint32_t number);

  std::uint32_t status() const { return u32(kBody); }
  void set_status(std::uint32_t status) { store_le(bytes_.data() + kBody, status); }
  void set_answer_session(const TestSession& session);
  /// make_session, join, debug: seconds without a word after which a session ends.
  void set_timeout(std::uint32_t seconds) { store_le(bytes_.data() + kBody + 20, seconds); }
  void set_statistics(const TestStatistics& statistics);
  void set_answer_ping(std::uint32_t number);
  void set_answer_bits(std::uint64_t bits) { store_le(bytes_.data() + kBody, bits); }

 private:
  std::size_t session_at() const;
  static constexpr std::size_t kBody = 24;
  std::uint32_t u32(std::size_t at) const {
    return load<std::uint32_t>(order_, bytes_.data() + at);
  }
  std::uint64_t u64(std::size_t at) const {
    return load<std::uint64_t>(order_, bytes_.data() + at);
  }

  Order order_ = Order::little;
  std::array<std::byte, kSize> bytes_{};
};

/// The bytes that bulk tests move, and whether they are right.
void fill_bulk(BulkCheck check, MutableByteSpan bytes);
bool is_bulk_right(BulkCheck check, ByteSpan bytes);

}  // namespace verbatim::ulp::lnet
