#pragma once

#include <array>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <string>
#include <variant>
#include <vector>

#include "service/loop.h"
#include "ulp/backstore/store.h"
#include "ulp/engine/slots.h"
#include "ulp/rdma/driver.h"
#include "ulp/storage/session.h"

namespace verbatim::ulp::target {

/// What has become of a connection that did not end in order.
struct Incident {
  std::string peer;
  std::string words;
};

/// Joins sessions, stores and the driver, in one thread: carries out what an input has caused (the
/// store's part, then the work), then the store's answers, each an input again.
///
///     driver --- message, done, end ---> session --- requests ---> store
///       ^                                  | ^                       |
///       '------------- work ---------------' '------- answers -------'
class Runner final : public rdma::Handler, public service::Source {
 public:
  Runner() : units_(1) {}
  ~Runner() override;
  Runner(const Runner&) = delete;
  Runner& operator=(const Runner&) = delete;

  /// Serves what stores have answered outside of a request.
  void on_answers(TimeNs now) {
    serve_answers(now);
    destroy_idle();
  }

  /// Before the first event. `scratch` lends the pages of unit 0.
  void use(backstore::Store& scratch) { units_[0].store = &scratch; }
  /// Stores and services outlive the runner's sessions.
  storage::UnitId add(backstore::Store& store);
  /// Whoever asks for the unit is answered that it is gone. The store must stay until `is_used` is
  /// false.
  void retire(storage::UnitId unit) { units_.at(raw(unit)).is_retired = true; }
  bool is_used(storage::UnitId unit);
  /// Destroys all sessions, before what they use is destroyed. No event may follow.
  void clear();
  /// After a change by an administrator: looks at all sessions' deadlines soon.
  void wake() { next_ = 0; }
  void serve(rdma::ListenerId listener, storage::Service& service, rdma::Carrier& carrier) {
    services_[listener] = {&service, &carrier};
  }
  void stop_serving(rdma::ListenerId listener) { services_.erase(listener); }

  std::uint32_t session_count() const { return session_count_; }
  /// The last ones, oldest first.
  const std::deque<Incident>& incidents() const { return incidents_; }
  std::uint64_t incident_count() const { return incident_count_; }

  TimeNs deadline() const override { return next_; }
  void on_time(TimeNs now) override;

 private:
  /// A connection and its session.
  struct Peer {
    explicit Peer(rdma::ConnectionId connection) : id(connection) {}

    const rdma::ConnectionId id;
    std::string name;
    storage::Service* service = nullptr;
    rdma::Carrier* carrier = nullptr;
    std::unique_ptr<storage::Session> session;
    std::vector<Tag> uses;  // By index of the session's tag: the tag that the store knows.
    bool is_over = false;
  };
  /// Something that a store does, from the request until its answer or the end of the loan.
  struct Use {
    Peer* peer = nullptr;
    Tag tag{};  // The session's.
    storage::UnitId unit{};
  };
  struct Answer {
    Tag use{};
    storage::StoreStatus status{};
    std::span<const Slice> pages;
    bool has_pages = false;
  };
  /// Where stores answer, also when the peer that has asked is gone.
  struct Inbox final : backstore::Answers {
    void on_pages(Tag tag, storage::StoreStatus status, std::span<const Slice> pages) override {
      answers.push_back({tag, status, pages, true});
    }
    void on_stored(Tag tag, storage::StoreStatus status) override {
      answers.push_back({tag, status, {}, false});
    }
    std::vector<Answer> answers;
  };
  struct Waiting {
    Peer* peer = nullptr;
    storage::StoreRequest request;
  };
  /// What listens, and what carries its connections: the adapter, or TCP.
  struct Served {
    storage::Service* service = nullptr;
    rdma::Carrier* carrier = nullptr;
  };
  static constexpr std::uint32_t kUsesMax = Slots<Use>::kMax;
  static constexpr TimeNs kTimeStep = 100 * kMillisecond;
  static constexpr std::size_t kIncidentsMax = 16;

  void on_requested(const rdma::Requested& requested, TimeNs now) override;
  ReceiveUse on_message(rdma::ConnectionId connection, const Message& message, TimeNs now,
                        WorkList& work) override;
  void on_done(rdma::ConnectionId connection, Tag tag, CompletionStatus status, TimeNs now,
               WorkList& work) override;
  void on_end(rdma::ConnectionId connection, const rdma::End& end, TimeNs now) override;

  Peer* find(rdma::ConnectionId connection);
  /// All that `out_` has, and what comes of it.
  void carry_out(Peer& peer, TimeNs now);
  void carry_out_once(Peer& peer, TimeNs now);
  void serve_answers(TimeNs now);
  void request(Peer& peer, const storage::StoreRequest& request);
  void give_back(Peer& peer, Tag tag);
  void on_answer(const Answer& answer, TimeNs now);
  void end_others(const Peer& peer, TimeNs now);
  void disconnect(const storage::Session* session, const char* words, TimeNs now);
  void destroy_idle();
  void note(std::string peer, std::string words);

  struct Unit {
    backstore::Store* store = nullptr;
    bool is_retired = false;
  };
  std::vector<Unit> units_;  // By id, which is not used again.
  std::map<rdma::ListenerId, Served> services_;
  std::vector<std::unique_ptr<Peer>> peers_;   // By the connection's number.
  std::vector<std::unique_ptr<Peer>> ending_;  // Their stores have not answered yet.
  Slots<Use> uses_{kUsesMax};
  Inbox inbox_;
  std::deque<Waiting> waiting_;  // For a use.
  storage::Output out_;
  TimeNs next_ = kNever;
  std::uint32_t session_count_ = 0;
  std::deque<Incident> incidents_;
  std::uint64_t incident_count_ = 0;
};

}  // namespace verbatim::ulp::target
