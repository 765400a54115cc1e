#pragma once

#include <cstdint>
#include <functional>
#include <list>
#include <memory>
#include <optional>
#include <string>

#include "base/error.h"
#include "base/os/unique_fd.h"
#include "base/time.h"
#include "fabric/protocol/interface_addresses.h"
#include "service/loop.h"

namespace verbatim::ulp::ipoib {

/// Answers programs of the host, which ask by rdma_cm where an address leads: at once, or when the
/// neighbour has said who it is.
class AddressAnswers final : private service::Source {
 public:
  static constexpr std::size_t kClientsMax = 64;
  static constexpr TimeNs kPatience = 4 * kSecond;  // As long as a neighbour is asked.

  using Question = fabric::protocol::AddressQuestion;
  using Answer = Result<fabric::protocol::AddressAnswer>;
  /// Nothing: not yet.
  using Find = std::function<std::optional<Answer>(const Question& question)>;

  /// The loop and what `find` uses outlive it. ENOENT: no fabric of ours runs (a card).
  static Result<std::unique_ptr<AddressAnswers>> create(service::Loop& loop,
                                                        std::uint64_t host_guid,
                                                        const std::string& interface, Find find);
  ~AddressAnswers();

  /// A neighbour has spoken.
  void look_again();

 private:
  struct Client {
    UniqueFd connection;
    std::optional<Question> question;
    TimeNs gives_up = kNever;
  };
  using Clients = std::list<Client>;
  AddressAnswers(service::Loop& loop, fabric::protocol::FabricFolder folder,
                 std::uint64_t host_guid, std::string interface, UniqueFd listener, Find find);
  void accept(TimeNs now);
  void on_ready(Clients::iterator client);
  bool answer(Client& client);
  Clients::iterator end(Clients::iterator client);
  TimeNs deadline() const override;
  void on_time(TimeNs now) override;

  service::Loop& loop_;
  const fabric::protocol::FabricFolder folder_;
  const std::uint64_t host_guid_;
  const std::string interface_;
  const UniqueFd listener_;
  const Find find_;
  Clients clients_;
};

}  // namespace verbatim::ulp::ipoib
