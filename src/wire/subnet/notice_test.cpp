#include "wire/subnet/notice.h"

#include <string>

#include <gtest/gtest.h>

#include "wire/hex_test_util.h"
#include "wire/mad/fields_test_util.h"

namespace verbatim::wire {
namespace {

std::string zeros(std::size_t bytes) { return std::string(2 * bytes, '0'); }

template <typename T>
class NoticeDetails : public testing::Test {};
using All =
    testing::Types<Notice, GidDetails, SwitchDetails, PortErrorDetails, LocalChangesDetails,
                   SystemImageGuidDetails, BadMKeyDetails, BadKeyDetails, SwitchBadPKeyDetails>;
TYPED_TEST_SUITE(NoticeDetails, All);
TYPED_TEST(NoticeDetails, DecodeWhatTheyEncode) { expect_round_trip<TypeParam>(); }

TEST(Notice, GoldenBytesOfALinkStateChange) {
  Notice notice{.type = NoticeType::urgent,
                .producer = NoticeProducer::switch_node,
                .trap = TrapNumber::link_state_change,
                .issuer = Lid{2},
                .toggle = true,
                .count = 3};
  set_details(notice, SwitchDetails{.lid = Lid{2}});
  EXPECT_EQ(encoded_hex(notice),
            "81000002"
            "0080"
            "0002"
            "8003"
            "0002" +
                zeros(52));
  EXPECT_EQ(details_as<SwitchDetails>(notice).lid, Lid{2});
}

TEST(Notice, GoldenBytesOfLocalChanges) {
  EXPECT_EQ(encoded_hex(LocalChangesDetails{.lid = Lid{7},
                                            .is_other = true,
                                            .capabilities = 0x0250e84a,
                                            .changes = LocalChangesDetails::kSmPriority,
                                            .capabilities2 = 0x30}),
            "0000"
            "0007"
            "00"
            "01"
            "0250e84a"
            "0008"
            "0030" +
                zeros(40));
}

TEST(Notice, GoldenBytesOfABadMKey) {
  EXPECT_EQ(encoded_hex(BadMKeyDetails{.lid = Lid{1},
                                       .route_source_lid = Lid{0xffff},
                                       .method = MadMethod::set,
                                       .attribute = 0x15,
                                       .modifier = 2,
                                       .m_key = 0x1122334455667788,
                                       .is_directed = true,
                                       .hop_count = 2,
                                       .return_path = {0, 3, 4}}),
            "0000"
            "0001"
            "ffff"
            "02"
            "00"
            "0015"
            "00000002"
            "1122334455667788"
            "00"
            "82"
            "000304" +
                zeros(27));
}

TEST(Notice, GoldenBytesOfABadPKeyAtASwitch) {
  Gid source;
  Gid destination;
  source.bytes[15] = 1;
  destination.bytes[15] = 2;
  EXPECT_EQ(encoded_hex(SwitchBadPKeyDetails{.valid = 3,
                                             .source_lid = Lid{1},
                                             .destination_lid = Lid{2},
                                             .p_key = PKey{0x8001},
                                             .service_level = 4,
                                             .source_qpn = 5,
                                             .destination_qpn = 6,
                                             .source_gid = source,
                                             .destination_gid = destination,
                                             .switch_lid = Lid{9},
                                             .port = 10}),
            "0003"
            "0001"
            "0002"
            "8001"
            "40000005"
            "00000006" +
                zeros(15) + "01" + zeros(15) +
                "02"
                "0009"
                "0a" +
                zeros(3));
}

}  // namespace
}  // namespace verbatim::wire
