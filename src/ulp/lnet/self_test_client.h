#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>

#include "ulp/lnet/node.h"
#include "ulp/lnet/wire/test_message.h"

namespace verbatim::ulp::lnet {

/// What a self-test does to a server.
struct TestPlan {
  Nid server;
  TestService service = TestService::ping;  // Or bulk.
  BulkKind kind = BulkKind::read;
  BulkCheck check = BulkCheck::full;
  std::uint32_t bytes = 1 << 20;
  std::uint32_t requests = 100;
  std::uint32_t concurrency = 8;
};

struct TestResult {
  std::uint32_t done = 0, errors = 0;
  TimeNs began = 0, ended = 0;  // Of the requests.
  std::string words;            // Why it has ended early.
  bool is_over = false;
};

/// The client of self-tests: makes a session with the server, announces a test, sends its
/// requests, ends the session. One test at a time.
class SelfTestClient {
 public:
  explicit SelfTestClient(Node& node);

  /// False: a test runs.
  bool begin(const TestPlan& plan, TimeNs now);
  const TestResult& result() const { return result_; }
  bool is_running() const { return state_ != State::idle; }

  /// A PUT to portal 52: an answer, or a bulk that we read.
  void on_put(const LnetHeader& header, ByteSpan payload, TimeNs now);
  bool wants(const LnetHeader& put) const;
  /// A bulk that we write.
  std::optional<Buffer> find(const LnetHeader& get);
  void on_given(const LnetHeader& get, const Buffer& buffer);
  void on_time(TimeNs now);
  TimeNs deadline() const { return is_running() ? gives_up_ : kNever; }

 private:
  static constexpr TimeNs kPatience = 60 * kSecond;
  enum class State : std::uint8_t { idle, making, announcing, running, ending };
  struct Request {
    bool has_answer = false, has_bulk = false, is_right = true;
    std::optional<Buffer> buffer;  // Of a write.
    int loans = 0;                 // Transfers that read it.
  };

  bool is_bulk() const { return plan_.service == TestService::bulk; }
  void ask_framework(TestKind kind, TestService service, TimeNs now);
  void on_framework(const TestMessage& answer, TimeNs now);
  void ask(TimeNs now);
  bool ask_one(TimeNs now);
  void on_answer(std::uint64_t bits, const TestMessage& answer, TimeNs now);
  void finish_request(std::uint64_t bits, TimeNs now);
  void end(std::string words, TimeNs now);
  void release(const Request& request);

  Node& node_;
  State state_ = State::idle;
  TestPlan plan_;
  TestResult result_;
  TestSession session_;
  std::map<std::uint64_t, Request> requests_;  // By their answers' bits; a bulk's are one more.
  std::map<const std::byte*, int> lent_;       // Of requests that are over: loans.
  std::uint64_t framework_bits_ = 0;
  std::uint64_t next_bits_;
  std::uint32_t asked_ = 0;
  TimeNs gives_up_ = kNever;
};

}  // namespace verbatim::ulp::lnet
