#pragma once

#include <deque>
#include <optional>

#include "ulp/lnet/node.h"
#include "ulp/lnet/wire/test_message.h"

namespace verbatim::ulp::lnet {

/// The server of self-tests: takes one session at a time, answers pings, sends and fetches bulks.
/// It runs no tests by itself: a group of `lst` that has it as its clients is refused.
class SelfTestServer {
 public:
  struct Counters {
    std::uint64_t pings = 0, reads = 0, writes = 0, errors = 0;
    std::uint64_t sent_bytes = 0, fetched_bytes = 0;
  };
  explicit SelfTestServer(Node& node) : node_(node) {}

  /// A PUT to one of its portals.
  void on_request(Nid from, const TestMessage& request, TimeNs now);
  void on_time(TimeNs now);
  TimeNs deadline() const;
  const Counters& counters() const { return counters_; }
  bool has_session() const { return session_.has_value(); }

 private:
  static constexpr std::uint32_t kSessionSeconds = 100;
  static constexpr std::size_t kWaitingMax = 256;
  struct Session {
    TestSession id;
    TimeNs began = 0, ends = 0;
  };
  struct Waiting {
    Nid from;
    BulkRequest request;
  };

  void on_framework(const TestMessage& request, TestMessage& answer, TimeNs now);
  std::uint32_t enter(const TestSession& id, TimeNs now);
  TestStatistics statistics(TimeNs now) const;
  void begin(const Waiting& bulk, TimeNs now);
  void answer_bulk(const Waiting& bulk, std::uint32_t status, TimeNs now);

  Node& node_;
  std::optional<Session> session_;
  std::deque<Waiting> waiting_;  // For a buffer.
  Counters counters_;
};

}  // namespace verbatim::ulp::lnet
