// The golden record was sent by Debian's opensm 3.3.23; the values are those that Debian's saquery
// printed for it.
#include "wire/subnet/path_record.h"

#include <array>
#include <vector>

#include <gtest/gtest.h>

#include "wire/hex_test_util.h"
#include "wire/mad/fields_test_util.h"
#include "wire/subnet/administration_packet.h"

namespace verbatim::wire {
namespace {

constexpr std::size_t kRecordAt = 56;

Gid gid_of(std::uint64_t guid) {
  Gid gid{};
  const auto bytes = std::as_writable_bytes(std::span(gid.bytes));
  store_be(&bytes[0], std::uint64_t{0xfe80} << 48);
  store_be(&bytes[8], guid);
  return gid;
}

const PathRecord kGolden{.destination_gid = gid_of(0x100001),
                         .source_gid = gid_of(0x200000),
                         .destination_lid = 1,
                         .source_lid = 2,
                         .reversible = true,
                         .pkey = 0xffff,
                         .mtu = 5,
                         .rate = 3,
                         .packet_life_time = 18};

/// An answer with the golden record.
std::array<std::byte, kMadBytes> answer() {
  AdministrationPacket packet{.method = MadMethod::get_response,
                              .attribute = AdministrationAttribute::path_record};
  set_data(packet, kGolden);
  std::array<std::byte, kMadBytes> mad;
  encode(packet, mad);
  return mad;
}

TEST(PathRecord, DecodesWhatItEncodes) { expect_round_trip<PathRecord>(); }

TEST(PathRecord, GoldenBytes) {
  // The selectors of MTU, rate and life time are 2, "exactly"; a value does not keep them.
  const auto bytes = from_hex(
      "0000 0000 0000 0000 fe80 0000 0000 0000 0000 0000 0010 0001 fe80 0000 0000 0000"
      "0000 0000 0020 0000 0001 0002 0000 0000 0080 ffff 0000 8583 9200 0000 0000 0000");
  ASSERT_EQ(bytes.size(), PathRecord::kSize);
  EXPECT_EQ(decode<PathRecord>(std::span(bytes).first<PathRecord::kSize>()), kGolden);
}

/// Linux's rdma_cm asks for the same ones: IB_SA_PATH_REC_* of its cma_query_ib_route().
TEST(PathQuery, NamesTheComponentsToCompare) {
  const PathQuery plain{.destination = gid_of(0x100001),
                        .source = gid_of(0x200000),
                        .pkey = 0x8001,
                        .service = 0x0000'0000'0106'1e61};
  // ServiceID, DGID, SGID, Reversible, NumbPath and P_Key (IBA table 205).
  const AdministrationPacket question = question_for(plain);
  EXPECT_EQ(question.method, MadMethod::get);
  EXPECT_EQ(question.components, 0x380fu);
  PathRecord wanted{.service = 0x0106'1e61,
                    .destination_gid = gid_of(0x100001),
                    .source_gid = gid_of(0x200000),
                    .reversible = true,
                    .path_count = 1,
                    .pkey = 0x8001};
  EXPECT_EQ(data_as<PathRecord>(question), wanted);

  PathQuery by_class = plain;
  by_class.qos_class = 0;  // Zero is a class, too.
  EXPECT_EQ(question_for(by_class).components, 0x780fu);
  PathQuery by_traffic_class = plain;
  by_traffic_class.traffic_class = 0x68;
  EXPECT_EQ(question_for(by_traffic_class).components, 0x3c0fu);
  wanted.traffic_class = 0x68;
  EXPECT_EQ(data_as<PathRecord>(question_for(by_traffic_class)), wanted);
}

TEST(PathRecord, ServiceAndClassesAreWhereTheSpecificationHasThem) {  // IBA table 204.
  std::array<std::byte, PathRecord::kSize> bytes;
  encode(PathRecord{.service = 0x0102'0304'0506'0708, .qos_class = 0xabc, .service_level = 5},
         bytes);
  EXPECT_EQ(load_be<std::uint64_t>(bytes.data()), 0x0102'0304'0506'0708u);
  EXPECT_EQ(load_be<std::uint16_t>(&bytes[52]), 0xabc5u);
}

/// A GetTable's answer as RMPP puts it together, with this many bytes for each record.
std::vector<std::byte> table_of(std::span<const PathRecord> records, std::size_t record_bytes) {
  const auto first = answer();
  std::vector<std::byte> message(first.begin(), first.begin() + kRecordAt);
  message[3] = std::byte{raw(MadMethod::get_table_response)};
  message[45] = static_cast<std::byte>(record_bytes / 8);
  for (const PathRecord& record : records) {
    message.resize(message.size() + record_bytes);
    encode(record, std::span(message).last(record_bytes).first<PathRecord::kSize>());
  }
  return message;
}

TEST(PathTableQuery, NamesTheSourceAlone) {
  std::array<std::byte, kMadBytes> mad;
  encode(PathTableQuery{.transaction = 7, .source = gid_of(0x200000)}, mad);
  EXPECT_EQ(load_be<std::uint64_t>(&mad[48]), 8u);
  EXPECT_EQ(decode_mad_header(mad)->method, MadMethod::get_table);
  const auto asked = decode<PathRecord>(std::span(mad).subspan<kRecordAt, PathRecord::kSize>());
  EXPECT_EQ(asked, PathRecord{.source_gid = gid_of(0x200000)});
}

TEST(PathTable, HasAllRecords) {
  PathRecord other = kGolden;
  other.service_level = 3;
  const std::array records{kGolden, other};
  for (const std::size_t record_bytes : {PathRecord::kSize, PathRecord::kSize + 8}) {
    auto message = table_of(records, record_bytes);
    const auto table = decode_path_table(message);
    ASSERT_TRUE(table);
    EXPECT_EQ(table->records, std::vector(records.begin(), records.end()));
    message.pop_back();  // What is no whole record is none.
    EXPECT_EQ(decode_path_table(message)->records, std::vector{kGolden});
  }
  EXPECT_TRUE(decode_path_table(table_of({}, 0))->records.empty());
}

TEST(PathTable, MayBeRefused) {
  auto refused = table_of({}, 0);
  refused.resize(kMadBytes);
  EXPECT_FALSE(decode_path_table(refused));  // Data without a size.
  refused[4] = std::byte{5};
  EXPECT_EQ(decode_path_table(refused)->status, 5 << 8);
}

TEST(PathTable, OtherMessagesAreNone) {
  const std::array records{kGolden};
  EXPECT_EQ(decode_path_table(answer()).error(), WireError::mad_attribute);
  auto small = table_of(records, PathRecord::kSize);
  small[45] = std::byte{1};
  EXPECT_EQ(decode_path_table(small).error(), WireError::mad_length);
  auto other_attribute = table_of(records, PathRecord::kSize);
  other_attribute[17] = std::byte{0x38};
  EXPECT_EQ(decode_path_table(other_attribute).error(), WireError::mad_attribute);
  EXPECT_FALSE(decode_path_table(ByteSpan(small).first(kRecordAt - 1)));
}

}  // namespace
}  // namespace verbatim::wire
