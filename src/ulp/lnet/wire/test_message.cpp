#include "ulp/lnet/wire/test_message.h"

#include <algorithm>
#include <cstring>

namespace verbatim::ulp::lnet {
namespace {

constexpr std::uint32_t kMagic = 0xeeb0f00d, kVersion = 1;
constexpr std::uint32_t kAnyLength = 1;  // Feature: the bytes of a bulk test, not pages.
constexpr std::uint32_t kPingMagic = 0xbabeface;
constexpr std::uint64_t kPattern = 0xeeb0eeb1eeb2eeb3;
constexpr std::size_t kPage = 4096;

/// Calls `visit(std::byte*)` for each place of the pattern that is checked. Returns false at the
/// first that says so.
template <typename Bytes, typename Visit>
bool visit_pattern(BulkCheck check, Bytes bytes, Visit visit) {
  if (check == BulkCheck::none) return true;
  const std::size_t last = kPage - sizeof kPattern;
  const std::size_t step = check == BulkCheck::full ? sizeof kPattern : last;
  for (std::size_t page = 0; page + kPage <= bytes.size(); page += kPage) {
    for (std::size_t at = 0; at <= last; at += step) {
      if (!visit(bytes.data() + page + at)) return false;
    }
  }
  return true;
}

}  // namespace

TestMessage::TestMessage(TestKind kind) {
  store_le(bytes_.data(), kMagic);
  store_le(bytes_.data() + 4, kVersion);
  store_le(bytes_.data() + 8, static_cast<std::uint32_t>(kind));
  store_le(bytes_.data() + 20, kAnyLength);
}

std::optional<TestMessage> TestMessage::decode(ByteSpan bytes) {
  if (bytes.size() < kSize) return std::nullopt;
  TestMessage message;
  std::ranges::copy(bytes.first(kSize), message.bytes_.begin());
  message.order_ = load_le<std::uint32_t>(bytes.data()) == kMagic ? Order::little : Order::big;
  if (message.u32(0) != kMagic || message.u32(4) != kVersion) return std::nullopt;
  return message;
}

BulkRequest TestMessage::bulk() const {
  return {u64(kBody), u64(kBody + 8), BulkKind{u32(kBody + 16)}, u32(kBody + 20),
          BulkCheck{u32(kBody + 24)}};
}

void TestMessage::set_bulk(const BulkRequest& request) {
  std::byte* const body = bytes_.data() + kBody;
  store_le(body, request.answer_bits);
  store_le(body + 8, request.bulk_bits);
  store_le(body + 16, static_cast<std::uint32_t>(request.kind));
  store_le(body + 20, request.bytes);
  store_le(body + 24, static_cast<std::uint32_t>(request.check));
}

std::size_t TestMessage::session_at() const {
  return kBody + (kind() == TestKind::test ? 16 : 8);  // There the bits of a bulk come first.
}

TestSession TestMessage::session() const {
  const std::size_t at = session_at();
  return {u64(at), u64(at + 8)};
}

void TestMessage::set_session(const TestSession& session) {
  std::byte* const at = bytes_.data() + session_at();
  store_le(at, session.nid);
  store_le(at + 8, session.stamp);
}

void TestMessage::set_service(TestService service, std::uint32_t concurrency) {
  std::byte* const body = bytes_.data() + kBody;
  store_le(body + 32, std::uint64_t{2});  // Its batch.
  store_le(body + 40, std::uint32_t{static_cast<std::uint8_t>(service)});
  store_le(body + 44, concurrency);  // Requests that the server is to have room for.
  store_le(body + 48, concurrency);
  store_le(body + 54, std::uint32_t{1});
}

void TestMessage::set_ping(std::uint32_t number) {
  store_le(bytes_.data() + kBody + 8, kPingMagic);
  store_le(bytes_.data() + kBody + 12, number);
}

void TestMessage::set_answer_session(const TestSession& session) {
  store_le(bytes_.data() + kBody + 4, session.nid);
  store_le(bytes_.data() + kBody + 12, session.stamp);
}

/// After the session's 16 bytes: counters of the framework (5 x 4 bytes), of requests (5 x 4, 2 x
/// 8) and of LNet (7 x 4, 4 x 8).
void TestMessage::set_statistics(const TestStatistics& statistics) {
  std::byte* const framework = bytes_.data() + kBody + 20;
  store_le(framework, statistics.session_ms);
  store_le(framework + 12, statistics.bulk_errors);
  std::byte* const requests = framework + 20;
  store_le(requests + 8, statistics.requests);
  store_le(requests + 20, statistics.fetched_bytes);
  store_le(requests + 28, statistics.sent_bytes);
  std::byte* const messages = requests + 36;
  store_le(messages + 12, statistics.messages.sent);
  store_le(messages + 16, statistics.messages.received);
  store_le(messages + 20, statistics.messages.forwarded);
  store_le(messages + 24, statistics.messages.dropped);
  store_le(messages + 28, statistics.messages.sent_bytes);
  store_le(messages + 36, statistics.messages.received_bytes);
  store_le(messages + 44, statistics.messages.forwarded_bytes);
  store_le(messages + 52, statistics.messages.dropped_bytes);
}

void TestMessage::set_answer_ping(std::uint32_t number) {
  store_le(bytes_.data() + kBody + 4, kPingMagic);
  store_le(bytes_.data() + kBody + 8, number);
}

void fill_bulk(BulkCheck check, MutableByteSpan bytes) {
  visit_pattern(check, bytes, [](std::byte* at) {
    std::memcpy(at, &kPattern, sizeof kPattern);
    return true;
  });
}

bool is_bulk_right(BulkCheck check, ByteSpan bytes) {
  return visit_pattern(check, bytes, [](const std::byte* at) {
    return std::memcmp(at, &kPattern, sizeof kPattern) == 0;
  });
}

}  // namespace verbatim::ulp::lnet
