#include "ulp/disk/vhost/protocol.h"

#include <cerrno>

#include <gtest/gtest.h>

namespace verbatim::ulp::disk::vhost {
namespace {

Bytes bytes_of(std::initializer_list<std::uint32_t> numbers) {
  Bytes bytes;
  for (const std::uint32_t number : numbers)
    for (const std::byte one : std::as_bytes(std::span(&number, 1))) bytes.push_back(one);
  return bytes;
}

Result<Header> header_of(std::uint32_t request, std::uint32_t flags, std::uint32_t size) {
  const Bytes bytes = bytes_of({request, flags, size});
  return decode_header(ByteSpan(bytes).first<kHeaderBytes>());
}

TEST(VhostUserProtocol, Headers) {
  const auto header = header_of(24, 1 | 8, 100);
  ASSERT_TRUE(header);
  EXPECT_EQ(header->request, Request::get_config);
  EXPECT_TRUE(header->needs_reply);
  EXPECT_EQ(header->bytes, 100U);
  struct Row {
    std::uint32_t flags, size;
  };
  for (const Row row : {Row{0, 0}, Row{2, 0}, Row{3, 0}, Row{1 | 4, 0}, Row{1, 269}, Row{1, ~0U}})
    EXPECT_FALSE(header_of(1, row.flags, row.size)) << row.flags << " " << row.size;
}

TEST(VhostUserProtocol, MessagesThatAreShorterThanTheySayAreRefused) {
  struct Row {
    Request request;
    Bytes least;  // One byte less is refused.
  };
  const Row rows[] = {
      {Request::set_features, bytes_of({1, 0})},
      {Request::set_vring_num, bytes_of({0, 128})},
      {Request::set_vring_addr, bytes_of({0, 0, 1, 0, 2, 0, 3, 0, 4, 0})},
      {Request::set_mem_table, bytes_of({1, 0, 1, 0, 2, 0, 3, 0, 4, 0})},
      {Request::get_config, bytes_of({0, 4, 0, 0})},
  };
  for (const Row& row : rows) {
    const Header header{row.request, false, static_cast<std::uint32_t>(row.least.size())};
    EXPECT_TRUE(decode(header, row.least));
    for (std::size_t size = 0; size < row.least.size(); ++size)
      EXPECT_EQ(decode(header, ByteSpan(row.least).first(size)).error().code, EPROTO) << size;
  }
}

TEST(VhostUserProtocol, HostileNumbersAreRefused) {
  struct Row {
    Request request;
    Bytes payload;
    int code;
  };
  const Row rows[] = {
      {Request::set_mem_table, bytes_of({9, 0}), EPROTO},
      {Request::set_mem_table, bytes_of({~0U, 0}), EPROTO},
      {Request::get_config, bytes_of({257, 0, 0}), EPROTO},
      {Request::get_config, bytes_of({~0U, 1, 0, 0}), EPROTO},
      {Request::get_config, bytes_of({4, ~0U, 0, 0}), EPROTO},
      {Request{6}, bytes_of({0, 0}), EOPNOTSUPP},
      {Request{0}, {}, EOPNOTSUPP},
      {Request{~0U}, {}, EOPNOTSUPP},
  };
  for (const Row& row : rows) {
    const auto message = decode({row.request, false, 0}, row.payload);
    ASSERT_FALSE(message) << static_cast<std::uint32_t>(row.request);
    EXPECT_EQ(message.error().code, row.code);
  }
}

TEST(VhostUserProtocol, Fields) {
  const auto address =
      decode({Request::set_vring_addr, false, 40}, bytes_of({7, 1, 2, 0, 3, 0, 4, 0, 5, 0}));
  const auto& ring = std::get<VringAddress>(address->body);
  EXPECT_EQ(ring.index, 7U);
  EXPECT_EQ(ring.descriptors, 2U);
  EXPECT_EQ(ring.used, 3U);
  EXPECT_EQ(ring.available, 4U);
  const auto table =
      decode({Request::set_mem_table, false, 40}, bytes_of({1, 0, 1, 0, 2, 0, 3, 0, 4, 0}));
  const auto& regions = std::get<MemoryTable>(table->body);
  ASSERT_EQ(regions.size(), 1U);
  EXPECT_EQ(regions[0].guest, 1U);
  EXPECT_EQ(regions[0].bytes, 2U);
  EXPECT_EQ(regions[0].user, 3U);
  EXPECT_EQ(regions[0].offset, 4U);
}

TEST(VhostUserProtocol, Replies) {
  EXPECT_EQ(encode_reply(Request::get_features, std::uint64_t{3}), bytes_of({1, 5, 8, 3, 0}));
  EXPECT_EQ(encode_reply(Request::get_vring_base, VringState{0, 9}), bytes_of({11, 5, 8, 0, 9}));
  EXPECT_EQ(encode_reply(Request::get_config, {8, 4, 0}, bytes_of({6})),
            bytes_of({24, 5, 16, 8, 4, 0, 6}));
}

}  // namespace
}  // namespace verbatim::ulp::disk::vhost
