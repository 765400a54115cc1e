#include "base/net/path.h"

#include <gtest/gtest.h>

namespace verbatim {
namespace {

SocketAddress address(std::string_view text, std::uint16_t port) {
  return SocketAddress::parse(text, port).value();
}

TEST(Path, ThePortSaysWhichRoceItIs) {
  const Path v2 = roce_path(address("10.0.0.1", kRocePort));
  const Path v1 = roce_path(address("10.0.0.1", 0));
  EXPECT_TRUE(std::holds_alternative<RoceV2Path>(v2));
  EXPECT_TRUE(std::holds_alternative<RoceV1Path>(v1));
  EXPECT_EQ(address_of(v2), address("10.0.0.1", kRocePort));
  EXPECT_EQ(address_of(v1), address("10.0.0.1", 0));
}

TEST(Path, AnAddressIsWhatRoceAndStreamsLeadTo) {
  EXPECT_EQ(address_of(StreamPath{address("10.0.0.1", 5000)}), address("10.0.0.1", 5000));
  EXPECT_TRUE(address_of(InfinibandPath{.dlid = Lid{3}}).empty());
}

TEST(Path, ASourceIsAPortOfANodeOverOneKindOfLink) {
  const Path from{RoceV2Path{address("10.0.0.1", 50'000), {.flow_label = 1, .hop_limit = 64}}};
  const Path other_port{RoceV2Path{address("10.0.0.1", 50'001), {.flow_label = 2}}};
  EXPECT_TRUE(same_source(from, other_port));
  EXPECT_FALSE(same_source(from, RoceV2Path{address("10.0.0.2", 50'000), {}}));
  EXPECT_FALSE(same_source(from, roce_path(address("10.0.0.1", 0))));
  EXPECT_FALSE(same_source(from, StreamPath{address("10.0.0.1", 50'000)}));
}

TEST(Path, AnInfinibandSourceIsItsLidsAndOwnPort) {
  const InfinibandPath from{.dlid = Lid{3}, .slid = Lid{4}, .service_level = 1};
  EXPECT_TRUE(same_source(from, InfinibandPath{.dlid = Lid{3}, .slid = Lid{4}}));
  EXPECT_FALSE(same_source(from, InfinibandPath{.dlid = Lid{5}, .slid = Lid{4}}));
  EXPECT_FALSE(same_source(from, InfinibandPath{.dlid = Lid{3}, .slid = Lid{5}}));
  EXPECT_FALSE(same_source(from, InfinibandPath{.dlid = Lid{3}, .slid = Lid{4}, .port = 2}));
}

TEST(Path, EachKindHasAText) {
  EXPECT_EQ(path_text(roce_path(address("10.0.0.1", kRocePort))), "10.0.0.1:4791");
  EXPECT_EQ(path_text(roce_path(address("fe80::1", 0))), "fe80::1 (RoCE v1)");
  EXPECT_EQ(path_text(InfinibandPath{.dlid = Lid{3}}), "LID 3");
  EXPECT_EQ(path_text(StreamPath{address("10.0.0.1", 5000)}), "10.0.0.1:5000 (TCP)");
}

}  // namespace
}  // namespace verbatim
