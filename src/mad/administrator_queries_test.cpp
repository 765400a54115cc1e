#include "mad/administrator_queries.h"

#include <cerrno>

#include <gtest/gtest.h>

namespace verbatim::mad {
namespace {

constexpr Gid kSource{{0xfe, 0x80, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1}};
constexpr Gid kDestination{{0xfe, 0x80, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 2}};

class AdministratorQueriesTest : public testing::Test {
 protected:
  Result<AdministratorQueries::Query> ask() {
    return queries.add(wire::question_for({.destination = kDestination, .source = kSource}),
                       [this](const auto& answer) { paths.push_back(path_in(answer)); });
  }
  /// What a subnet administrator says to it.
  static AdministratorQueries::Datagram answer_to(const AdministratorQueries::Query& query,
                                                  const wire::PathRecord& record,
                                                  std::uint16_t status = 0) {
    AdministratorQueries::Datagram answer = query.datagram;
    auto header = *wire::decode_mad_header(answer);
    header.method = wire::MadMethod::get_response;
    header.status = status;
    wire::encode(header, std::span(answer).first<wire::MadHeader::kSize>());
    wire::encode(record, std::span(answer).subspan<56, wire::PathRecord::kSize>());
    return answer;
  }
  bool receive(ByteSpan datagram, const Result<void>& sent = {}) {
    auto answer = queries.take(datagram, sent);
    if (answer) answer->on_answer(answer->packet);
    return answer.has_value();
  }
  int code_of_answer(const wire::PathRecord& record, std::uint16_t status = 0) {
    receive(answer_to(*ask(), record, status));
    return paths.back() ? 0 : paths.back().error().code;
  }

  AdministratorQueries queries;
  std::vector<Result<wire::PathRecord>> paths;
};

TEST_F(AdministratorQueriesTest, AnswerGoesToItsQueryOnce) {
  const auto first = ask();
  const auto second = ask();
  const wire::PathRecord record{.destination_lid = 7, .mtu = raw(Mtu::k2048)};
  EXPECT_TRUE(receive(answer_to(*second, record)));
  ASSERT_EQ(paths.size(), 1u);
  EXPECT_EQ(paths[0].value(), record);
  EXPECT_FALSE(receive(answer_to(*second, record)));
  EXPECT_TRUE(receive(answer_to(*first, record)));
}

TEST_F(AdministratorQueriesTest, QuestionIsSentWithItsNumber) {
  const auto query = ask();
  const auto sent = wire::decode_administration_packet(query->datagram);
  ASSERT_TRUE(sent);
  EXPECT_EQ(sent->transaction, query->number);
  EXPECT_EQ(sent->attribute, wire::AdministrationAttribute::path_record);
  EXPECT_EQ(wire::data_as<wire::PathRecord>(*sent).destination_gid, kDestination);
}

/// The fabric's daemon repeats queries, and gives back the beginning of one that nobody answers.
TEST_F(AdministratorQueriesTest, UnansweredQueryTimesOut) {
  const auto query = ask();
  EXPECT_TRUE(receive(ByteSpan(query->datagram).first(wire::MadHeader::kSize),
                      refuse(ETIMEDOUT, "no answer")));
  EXPECT_EQ(paths.back().error().code, ETIMEDOUT);
  EXPECT_FALSE(receive(answer_to(*query, {.mtu = raw(Mtu::k4096)})));  // Too late.
}

TEST_F(AdministratorQueriesTest, RefusalAndRecordsWithoutUse) {
  constexpr std::uint16_t kNoRecords = 3 << 8;  // IBA table 184.
  EXPECT_EQ(code_of_answer({}, raw(wire::MadStatus::unsupported_attribute)), EINVAL);
  EXPECT_NE(paths.back().error().text.find("no subnet administrator answers"), std::string::npos);
  EXPECT_EQ(code_of_answer({}, kNoRecords), EINVAL);
  EXPECT_EQ(code_of_answer({.mtu = 0}), EPROTO);
  EXPECT_EQ(code_of_answer({.mtu = raw(Mtu::k4096) + 1}), EPROTO);
  EXPECT_EQ(code_of_answer({.hop_limit = 255, .mtu = raw(Mtu::k4096)}), 0);  // By a router.
  EXPECT_EQ(code_of_answer({.hop_limit = 1, .mtu = raw(Mtu::k256)}), 0);
}

TEST_F(AdministratorQueriesTest, OtherDatagramsAnswerNothing) {
  const auto query = ask();
  EXPECT_FALSE(receive(ByteSpan(query->datagram).first(15)));
  EXPECT_FALSE(receive({}));
  EXPECT_TRUE(receive(query->datagram));  // A request with its number.
  EXPECT_EQ(paths.back().error().code, EPROTO);
  const auto other = ask();
  auto of_another_kind = answer_to(*other, {.mtu = raw(Mtu::k4096)});
  of_another_kind[17] = std::byte{raw(wire::AdministrationAttribute::multicast_record)};
  EXPECT_TRUE(receive(of_another_kind));
  EXPECT_EQ(paths.back().error().code, EPROTO);
}

TEST_F(AdministratorQueriesTest, AreBounded) {
  for (std::size_t i = 1; i < AdministratorQueries::kMax; ++i) ASSERT_TRUE(ask());
  const auto last = ask();
  ASSERT_TRUE(last);
  EXPECT_EQ(ask().error().code, ENOBUFS);
  queries.remove(last->number);
  EXPECT_TRUE(ask());
  EXPECT_EQ(queries.take_all().size(), AdministratorQueries::kMax);
  EXPECT_TRUE(queries.take_all().empty());
}

}  // namespace
}  // namespace verbatim::mad
