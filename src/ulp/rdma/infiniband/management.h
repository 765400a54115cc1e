#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/time.h"
#include "mad/administrator_queries.h"
#include "mad/groups/memberships.h"
#include "service/loop.h"
#include "ulp/rdma/device.h"
#include "wire/mad/management_packet.h"
#include "wire/subnet/path_record.h"
#include "wire/subnet/service_record.h"

namespace verbatim::ulp::rdma {

/// Management datagrams of one InfiniBand port, by libibumad: asks the subnet administrator for
/// paths, groups and services, and answers requests of a management class. Nothing waits: answers
/// come by functions, which `receive` and `on_time` call, and which may ask again.
///
/// With a card, Linux's ib_sa, which joins a group once for all its members, does not see what
/// comes this way: who is in a group by both must leave it by none.
class Management final : public service::Source {
 public:
  /// A question is sent so often, and waits 1, 2, 4, 8 and 16 s for its answer: then ETIMEDOUT.
  static constexpr unsigned kTries = 5;
  static constexpr TimeNs kFirstWait = kSecond;

  /// ENODEV: there is no such InfiniBand port.
  static Result<std::unique_ptr<Management>> open(const std::string& device, std::uint8_t port);
  /// Leaves all groups, and withdraws all services.
  ~Management();
  Management(const Management&) = delete;
  Management& operator=(const Management&) = delete;

  // Errors of the administrator: EINVAL if it refuses. ENOBUFS: too many questions wait.
  using OnPath = std::function<void(const Result<wire::PathRecord>&)>;
  Result<void> find_path(const wire::PathQuery& query, OnPath on_path, TimeNs now);

  /// Called when the port is in the group, and again when the group has become another one. An
  /// error is the last call: it is not, or no longer.
  using OnGroup = std::function<void(const Result<wire::MulticastRecord>&)>;
  /// `components` of `wanted` count; the port's GID is added. Returns the membership's number.
  Result<std::uint32_t> join(const wire::MulticastRecord& wanted, std::uint64_t components,
                             OnGroup on_group, TimeNs now);
  void leave(std::uint32_t membership, TimeNs now);

  using OnService = std::function<void(const Result<wire::ServiceRecord>&)>;
  /// Registers a service of this port, again if a subnet manager has forgotten it, until `withdraw`
  /// of its id. The port's GID is added.
  Result<void> offer(wire::ServiceRecord service, OnService on_service, TimeNs now);
  void withdraw(std::uint64_t service_id, TimeNs now);
  /// One service with these components.
  Result<void> find_service(const wire::ServiceRecord& wanted, std::uint64_t components,
                            OnService on_service, TimeNs now);

  /// Answers Gets and Sets of the class. `answer` fills in the rest of a datagram that is a
  /// response already; false: none is sent. EINVAL: another program serves it.
  using Answer = std::function<bool(wire::MadSpan request, std::span<std::byte, wire::kMadBytes>)>;
  Result<void> serve(wire::MadClass management_class, Answer answer);

  /// Events of the device: another subnet manager must be told of groups and services.
  void on_event(DeviceEvent event, TimeNs now);

  /// Readable: call `receive`.
  int descriptor() const { return descriptor_; }
  void receive(TimeNs now);
  TimeNs deadline() const override;
  void on_time(TimeNs now) override;

 private:
  struct Port {
    Lid lid{};
    Lid manager{};
    std::uint8_t service_level = 0;  // To the manager.
    std::uint16_t pkey_index = 0;    // Of the default partition.
    Gid gid{};
    friend bool operator==(const Port&, const Port&) = default;
  };
  struct Waiting {
    mad::AdministratorQueries::Datagram datagram{};
    TimeNs due = 0;
    unsigned tries = 0;
  };
  Management(std::string device, std::uint8_t number, int umad, int administration);
  static Result<Port> read_port(const std::string& device, std::uint8_t number);

  Result<void> ask(const wire::AdministrationPacket& question,
                   mad::AdministratorQueries::OnAnswer on_answer, TimeNs now);
  void send(Waiting& waiting, TimeNs now);
  void fail(std::uint32_t number);
  void on_answer(wire::MadSpan mad);
  void on_request(int agent);
  void tell_all_again(TimeNs now);
  Result<void> register_service(const wire::ServiceRecord& service, TimeNs now);
  /// Does what `memberships_` wants.
  void drain(TimeNs now);
  void ask(const mad::AskAdministrator& question, TimeNs now);
  void tell(const mad::TellMember& told);

  const std::string device_;
  const std::uint8_t number_;
  const int umad_;            // libibumad's number of the open port.
  const int administration_;  // Its agent that asks.
  const int descriptor_;
  Port port_;
  TimeNs now_ = 0;                              // Of the call that is in progress.
  std::vector<std::byte> incoming_, outgoing_;  // As libibumad has them: an address, a datagram.
  mad::AdministratorQueries queries_;
  std::map<std::uint32_t, Waiting> waiting_;  // By the questions' numbers.
  mad::Memberships memberships_;
  std::map<std::uint32_t, OnGroup> groups_;  // By membership.
  std::uint32_t last_membership_ = 0;
  struct Offered {
    wire::ServiceRecord service;
    OnService on_service;
  };
  std::map<std::uint64_t, Offered> offered_;  // By service id.
  std::map<int, Answer> served_;              // By libibumad's number of the agent.
};

}  // namespace verbatim::ulp::rdma
