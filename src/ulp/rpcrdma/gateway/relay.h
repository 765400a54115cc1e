#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "ulp/rdma/driver.h"
#include "ulp/rpcrdma/connection.h"
#include "ulp/rpcrdma/record_stream.h"
#include "ulp/tcp/driver.h"

namespace verbatim::ulp::rpcrdma {

/// Joins each RDMA connection with one TCP connection and the engine between them, in one thread.
/// The one ends with the other: who has made the connection makes it again, and sends again what
/// was not answered, as RPC has it (RFC 8166, section 3.3.3; RFC 5531, section 4).
///
///     role      a peer connects by    this side connects by    engine
///     server    RDMA                  TCP                      ServerConnection
///     client    TCP                   RDMA                     ClientConnection
class Relay final : public rdma::Handler, public tcp::Placer {
 public:
  enum class Role : std::uint8_t { server, client };
  struct Options {
    Role role{};
    SocketAddress to;            // Where this side connects.
    std::uint32_t receives = 0;  // Of all RDMA connections together.
  };
  /// What it stands on: made after it, for drivers know their handler, and ended before it.
  struct Ground {
    rdma::Driver& rdma;
    tcp::Driver& tcp;
    Pools pools;
  };
  static constexpr std::uint32_t kFirstStream = 4096;        // Numbers of TCP connections,
  static constexpr std::uint32_t kFirstStreamListener = 64;  // and listeners.

  explicit Relay(const Options& options);
  ~Relay() override;
  Relay(const Relay&) = delete;
  Relay& operator=(const Relay&) = delete;
  /// Before the first event.
  void use(const Ground& ground) { ground_.emplace(ground); }
  /// All have ended: the ground may go.
  bool is_empty() const { return pairs_.empty(); }

  void disconnect_all(TimeNs now);
  nlohmann::json status() const;

 private:
  struct Pair;
  static constexpr std::uint32_t kCredits = 64, kLeastCredits = 8, kBackReceives = 16;
  static constexpr std::size_t kIncidentsMax = 16;

  void on_requested(const rdma::Requested& requested, TimeNs now) override;
  void on_established(const rdma::Established& established, TimeNs now, WorkList& work) override;
  ReceiveUse on_message(rdma::ConnectionId connection, const Message& message, TimeNs now,
                        WorkList& work) override;
  void on_done(rdma::ConnectionId connection, Tag tag, CompletionStatus status, TimeNs now,
               WorkList& work) override;
  void on_end(rdma::ConnectionId connection, const rdma::End& end, TimeNs now) override;
  std::span<const Slice> place_of(rdma::ConnectionId stream) override;
  void on_placed(rdma::ConnectionId stream, std::uint32_t bytes, TimeNs now) override;

  Pair* find(rdma::ConnectionId connection);
  std::string refusal_of(const Meeting& meeting) const;
  std::uint32_t free_receives() const;
  void request_of_rdma(const rdma::Requested& requested);
  void request_of_stream(const rdma::Requested& requested, TimeNs now);
  void begin_server(Pair& pair);
  void begin_client(Pair& pair, const rdma::Established& established);
  ReceiveUse on_stream(Pair& pair, const Message& message, TimeNs now);
  void carry_out(Pair& pair, TimeNs now);
  void carry_out_once(Pair& pair, TimeNs now);
  void read_records(Pair& pair, TimeNs now);
  void serve_waiting(TimeNs now);
  void end(Pair& pair, const std::string& words, TimeNs now);
  void note(const std::string& peer, std::string words);

  const Options options_;
  std::optional<Ground> ground_;
  std::vector<std::unique_ptr<Pair>> pairs_;
  Output out_;
  std::deque<std::pair<std::string, std::string>> incidents_;  // Peer, words.
};

}  // namespace verbatim::ulp::rpcrdma
