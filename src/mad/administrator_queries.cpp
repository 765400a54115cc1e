#include "mad/administrator_queries.h"

#include <cerrno>
#include <utility>

#include <fmt/format.h>

namespace verbatim::mad {
namespace {

using wire::AdministrationPacket;

Result<AdministrationPacket> answer_in(ByteSpan datagram, wire::AdministrationAttribute asked) {
  const auto answer = wire::decode_administration_packet(datagram);
  if (!answer || answer->method != wire::MadMethod::get_response || answer->attribute != asked) {
    return refuse(EPROTO, "the subnet administrator answers something else");
  }
  if (answer->status == 0) return *answer;
  // The port of a manager that has gone answers so, because no program there takes questions.
  if (answer->status == raw(wire::MadStatus::unsupported_attribute)) {
    return refuse(EINVAL, "no subnet administrator answers: the subnet manager has ended");
  }
  return refuse(
      EINVAL, fmt::format("the subnet administrator refuses with status {:#06x}", answer->status));
}

}  // namespace

Result<AdministratorQueries::Query> AdministratorQueries::add(AdministrationPacket question,
                                                              OnAnswer on_answer) {
  if (waiting_.size() >= kMax) {
    return refuse(ENOBUFS,
                  fmt::format("{} questions to the subnet administrator are unanswered", kMax));
  }
  while (waiting_.contains(++last_number_)) {
  }
  waiting_.emplace(last_number_, Waiting{question.attribute, std::move(on_answer)});
  Query query{.number = last_number_};
  question.transaction = last_number_;
  encode(question, query.datagram);
  return query;
}

std::optional<AdministratorQueries::Answer> AdministratorQueries::take(ByteSpan datagram,
                                                                       const Result<void>& sent) {
  constexpr std::size_t kNumberAt = 12;
  if (datagram.size() < kNumberAt + sizeof(std::uint32_t)) return {};
  auto found = waiting_.extract(load_be<std::uint32_t>(&datagram[kNumberAt]));
  if (found.empty()) return {};
  auto& [attribute, on_answer] = found.mapped();
  if (!sent) return Answer{std::move(on_answer), std::unexpected(sent.error())};
  return Answer{std::move(on_answer), answer_in(datagram, attribute)};
}

std::vector<AdministratorQueries::OnAnswer> AdministratorQueries::take_all() {
  std::vector<OnAnswer> all;
  for (auto& [number, query] : std::exchange(waiting_, {})) {
    all.push_back(std::move(query.on_answer));
  }
  return all;
}

Result<wire::PathRecord> path_in(const Result<AdministrationPacket>& answer) {
  if (!answer) return std::unexpected(answer.error());
  const auto record = wire::data_as<wire::PathRecord>(*answer);
  // Connections compute with it.
  if (record.mtu < raw(Mtu::k256) || record.mtu > raw(Mtu::k4096)) {
    return refuse(EPROTO, fmt::format("a path record with the MTU {}", record.mtu));
  }
  return record;
}

}  // namespace verbatim::mad
