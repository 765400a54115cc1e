#include "mad/path_queries.h"

#include <cerrno>

#include <gtest/gtest.h>

namespace verbatim::mad {
namespace {

constexpr Gid kSource{{0xfe, 0x80, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1}};
constexpr Gid kDestination{{0xfe, 0x80, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 2}};

class PathQueriesTest : public testing::Test {
 protected:
  Result<PathQueries::Query> ask() {
    return queries.add(kSource, kDestination, kDefaultPKey,
                       [this](const Result<wire::PathRecord>& path) { paths.push_back(path); });
  }
  /// What a subnet administrator says to it.
  static PathQueries::Datagram answer_to(const PathQueries::Query& query,
                                         const wire::PathRecord& record, std::uint16_t status = 0) {
    PathQueries::Datagram answer = query.datagram;
    auto header = *wire::decode_mad_header(answer);
    header.method = wire::MadMethod::get_response;
    header.status = status;
    wire::encode(header, std::span(answer).first<wire::MadHeader::kSize>());
    wire::encode(record, std::span(answer).subspan<56, wire::PathRecord::kSize>());
    return answer;
  }
  bool receive(ByteSpan datagram, int error = 0) {
    auto answer = queries.take(datagram, error);
    if (answer) answer->on_path(answer->path);
    return answer.has_value();
  }
  int code_of_answer(const wire::PathRecord& record, std::uint16_t status = 0) {
    receive(answer_to(*ask(), record, status));
    return paths.back() ? 0 : paths.back().error().code;
  }

  PathQueries queries;
  std::vector<Result<wire::PathRecord>> paths;
};

TEST_F(PathQueriesTest, AnswerGoesToItsQueryOnce) {
  const auto first = ask();
  const auto second = ask();
  const wire::PathRecord record{.destination_lid = 7, .mtu = raw(Mtu::k2048)};
  EXPECT_TRUE(receive(answer_to(*second, record)));
  ASSERT_EQ(paths.size(), 1u);
  EXPECT_EQ(paths[0].value(), record);
  EXPECT_FALSE(receive(answer_to(*second, record)));
  EXPECT_TRUE(receive(answer_to(*first, record)));
}

TEST_F(PathQueriesTest, QueryNamesBothPortsAndThePartition) {
  const auto query = ask();
  const auto header = wire::decode_mad_header(query->datagram);
  ASSERT_TRUE(header);
  EXPECT_EQ(header->management_class, wire::MadClass::subnet_administration);
  EXPECT_EQ(header->method, wire::MadMethod::get);
  EXPECT_EQ(header->transaction, query->number);
  const auto asked = wire::decode<wire::PathRecord>(
      std::span(query->datagram).subspan<56, wire::PathRecord::kSize>());
  EXPECT_EQ(asked.source_gid, kSource);
  EXPECT_EQ(asked.destination_gid, kDestination);
  EXPECT_EQ(asked.pkey, raw(kDefaultPKey));
}

/// The fabric's daemon repeats queries, and gives back the beginning of one that nobody answers.
TEST_F(PathQueriesTest, UnansweredQueryTimesOut) {
  const auto query = ask();
  EXPECT_TRUE(receive(ByteSpan(query->datagram).first(wire::MadHeader::kSize), ETIMEDOUT));
  EXPECT_EQ(paths.back().error().code, ETIMEDOUT);
  EXPECT_FALSE(receive(answer_to(*query, {.mtu = raw(Mtu::k4096)})));  // Too late.
}

TEST_F(PathQueriesTest, RefusalAndRecordsWithoutUse) {
  constexpr std::uint16_t kNoRecords = 3 << 8;  // IBA table 184.
  EXPECT_EQ(code_of_answer({}, kNoRecords), EINVAL);
  EXPECT_EQ(code_of_answer({.mtu = 0}), EPROTO);
  EXPECT_EQ(code_of_answer({.mtu = raw(Mtu::k4096) + 1}), EPROTO);
  EXPECT_EQ(code_of_answer({.hop_limit = 255, .mtu = raw(Mtu::k4096)}), 0);  // By a router.
  EXPECT_EQ(code_of_answer({.hop_limit = 1, .mtu = raw(Mtu::k256)}), 0);
}

TEST_F(PathQueriesTest, OtherDatagramsAnswerNothing) {
  const auto query = ask();
  EXPECT_FALSE(receive(ByteSpan(query->datagram).first(15)));
  EXPECT_FALSE(receive({}));
  EXPECT_TRUE(receive(query->datagram));  // A request with its number.
  EXPECT_EQ(paths.back().error().code, EPROTO);
}

TEST_F(PathQueriesTest, AreBounded) {
  for (std::size_t i = 1; i < PathQueries::kMax; ++i) ASSERT_TRUE(ask());
  const auto last = ask();
  ASSERT_TRUE(last);
  EXPECT_EQ(ask().error().code, ENOBUFS);
  queries.remove(last->number);
  EXPECT_TRUE(ask());
  EXPECT_EQ(queries.take_all().size(), PathQueries::kMax);
  EXPECT_TRUE(queries.take_all().empty());
}

}  // namespace
}  // namespace verbatim::mad
