#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <vector>

#include "base/error.h"
#include "wire/subnet/path_record.h"

/// Questions for paths to the subnet administrator that wait for their answers. Without I/O.
namespace verbatim::mad {

class PathQueries {
 public:
  /// Gets the record, or why there is none: ETIMEDOUT, EINVAL if the administrator refuses, EPROTO
  /// for a record that makes no sense. A hop limit above 1: the path leads through a router.
  using OnPath = std::function<void(const Result<wire::PathRecord>&)>;
  using Datagram = std::array<std::byte, wire::kMadBytes>;
  static constexpr std::size_t kMax = 4096;

  struct Query {
    std::uint32_t number = 0;  // The lower half of the datagram's transaction id.
    Datagram datagram{};
  };
  /// ENOBUFS: `kMax` wait already.
  Result<Query> add(const Gid& source, const Gid& destination, PKey pkey, OnPath on_path);
  void remove(std::uint32_t number) { waiting_.erase(number); }

  struct Answer {
    OnPath on_path;
    Result<wire::PathRecord> path;
  };
  /// A datagram has come: an answer, or with `error` the beginning of a query that failed. Nothing
  /// unless its query waits.
  std::optional<Answer> take(ByteSpan datagram, int error);
  /// No answer comes any more.
  std::vector<OnPath> take_all();

 private:
  std::map<std::uint32_t, OnPath> waiting_;  // By number.
  std::uint32_t last_number_ = 0;
};

}  // namespace verbatim::mad
