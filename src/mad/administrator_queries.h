#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <vector>

#include "base/error.h"
#include "wire/subnet/administration_packet.h"
#include "wire/subnet/path_record.h"

/// Questions to the subnet administrator that wait for their answers. Without I/O.
namespace verbatim::mad {

class AdministratorQueries {
 public:
  /// Gets the answer with the record, or why there is none: ETIMEDOUT, EINVAL if the administrator
  /// refuses, EPROTO for another datagram.
  using OnAnswer = std::function<void(const Result<wire::AdministrationPacket>&)>;
  using Datagram = std::array<std::byte, wire::kMadBytes>;
  static constexpr std::size_t kMax = 4096;

  struct Query {
    std::uint32_t number = 0;  // The lower half of the datagram's transaction id.
    Datagram datagram{};
  };
  /// The transaction id is filled in. ENOBUFS: `kMax` wait already.
  Result<Query> add(wire::AdministrationPacket question, OnAnswer on_answer);
  void remove(std::uint32_t number) { waiting_.erase(number); }

  struct Answer {
    OnAnswer on_answer;
    Result<wire::AdministrationPacket> packet;
  };
  /// A datagram has come: an answer or, if `sent` is an error, the beginning of a query that has
  /// failed. Nothing unless its query waits.
  std::optional<Answer> take(ByteSpan datagram, const Result<void>& sent);
  /// No answer comes any more.
  std::vector<OnAnswer> take_all();

 private:
  struct Waiting {
    wire::AdministrationAttribute attribute{};
    OnAnswer on_answer;
  };
  std::map<std::uint32_t, Waiting> waiting_;  // By number.
  std::uint32_t last_number_ = 0;
};

/// The path in an answer. EPROTO for a record that makes no sense. A hop limit above 1: it leads
/// through a router.
Result<wire::PathRecord> path_in(const Result<wire::AdministrationPacket>& answer);

}  // namespace verbatim::mad
