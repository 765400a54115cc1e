#include "mad/path_queries.h"

#include <cerrno>
#include <cstring>
#include <utility>

#include <fmt/format.h>

namespace verbatim::mad {
namespace {

/// Checks what connections compute with.
Result<wire::PathRecord> checked(const wire::PathRecord& record) {
  if (record.mtu < raw(Mtu::k256) || record.mtu > raw(Mtu::k4096)) {
    return refuse(EPROTO, fmt::format("a path record with the MTU {}", record.mtu));
  }
  return record;
}

Result<wire::PathRecord> record_of(ByteSpan datagram) {
  const auto answer = wire::decode_path_answer(datagram);
  if (!answer) return refuse(EPROTO, "the answer is no path record");
  if (answer->record) return checked(*answer->record);
  return refuse(EINVAL, fmt::format("the subnet administrator knows no path (status {:#06x})",
                                    answer->status));
}

}  // namespace

Result<PathQueries::Query> PathQueries::add(const Gid& source, const Gid& destination, PKey pkey,
                                            OnPath on_path) {
  if (waiting_.size() >= kMax) {
    return refuse(ENOBUFS, fmt::format("{} queries for paths are unanswered", kMax));
  }
  while (waiting_.contains(++last_number_)) {
  }
  waiting_.emplace(last_number_, std::move(on_path));
  Query query{.number = last_number_};
  wire::encode(wire::PathQuery{.transaction = last_number_,
                               .destination = destination,
                               .source = source,
                               .pkey = raw(pkey)},
               query.datagram);
  return query;
}

std::optional<PathQueries::Answer> PathQueries::take(ByteSpan datagram, int error) {
  constexpr std::size_t kNumberAt = 12;
  if (datagram.size() < kNumberAt + sizeof(std::uint32_t)) return {};
  auto found = waiting_.extract(load_be<std::uint32_t>(&datagram[kNumberAt]));
  if (found.empty()) return {};
  if (error != 0) {
    return Answer{
        std::move(found.mapped()),
        refuse(error, fmt::format("asking the subnet administrator: {}", std::strerror(error)))};
  }
  return Answer{std::move(found.mapped()), record_of(datagram)};
}

std::vector<PathQueries::OnPath> PathQueries::take_all() {
  std::vector<OnPath> all;
  for (auto& [number, on_path] : std::exchange(waiting_, {})) all.push_back(std::move(on_path));
  return all;
}

}  // namespace verbatim::mad
