#include "base/net/group_gid.h"

#include <gtest/gtest.h>

namespace verbatim {
namespace {

std::string gid_of_group(const char* address, GroupUse use, PKey pkey = PKey{0x7fff}) {
  return gid_text(group_gid_of(SocketAddress::parse(address, 0).value(), use, pkey));
}

TEST(GroupGid, Rfc4391_4_HasSignatureAndPartition) {
  EXPECT_EQ(gid_of_group("239.1.2.3", GroupUse::ip_over_infiniband), "ff12:401b:ffff::f01:203");
  EXPECT_EQ(gid_of_group("224.0.0.1", GroupUse::ip_over_infiniband, PKey{0x0007}),
            "ff12:401b:8007::1");
  EXPECT_EQ(gid_of_group("ff02::1:ff00:1", GroupUse::ip_over_infiniband),
            "ff12:601b:ffff::1:ff00:1");
}

TEST(GroupGid, Rfc4391_4_BroadcastHasAllAddressBits) {
  EXPECT_EQ(gid_text(broadcast_gid_of(PKey{0x7fff})), "ff12:401b:ffff::ffff:ffff");
  EXPECT_EQ(gid_text(broadcast_gid_of(PKey{0x8007})), "ff12:401b:8007::ffff:ffff");
}

TEST(GroupGid, OfRdmaCmIsAnotherGroup) {
  EXPECT_EQ(gid_of_group("239.1.2.3", GroupUse::rdma_cm), "ff12:4001:ffff::f01:203");
  EXPECT_EQ(gid_of_group("ff02::1:ff00:1", GroupUse::rdma_cm), "ff12:6001:ffff::1:ff00:1");
}

TEST(GroupGid, AnAddressThatIsAGidIsTakenAsItIs) {
  EXPECT_EQ(gid_of_group("ff12:a01b:fe80::7", GroupUse::rdma_cm), "ff12:a01b:fe80::7");
}

}  // namespace
}  // namespace verbatim
