#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <utility>
#include <variant>
#include <vector>

#include "base/bytes.h"
#include "base/error.h"
#include "base/time.h"
#include "fabric/management/management_net.h"
#include "fabric/protocol/messages.h"
#include "mad/dispatcher.h"
#include "mad/rmpp/rmpp_engine.h"

/// The management agents that programs have on one port of a host: what Linux does behind
/// /dev/infiniband/umadN. Without I/O.
namespace verbatim::fabric {

/// A program's open port.
enum class FileId : std::uint32_t {};

/// A datagram leaves by the port.
struct Transmit {
  ManagementDatagram datagram;
};
/// A program gets a datagram, or its own request back with the reason why it has failed.
struct Delivery {
  FileId file{};
  protocol::MadRecord record;
  std::vector<std::byte> bytes;
};
using PortOutput = std::variant<Transmit, Delivery>;

/// How a subnet manager has set a port. If it changes, the manager may not know the port's groups.
struct SubnetManagement {
  Lid manager{};
  std::uint8_t service_level = 0;  // To the manager.
  Lid own{};
  std::uint32_t reregistrations = 0;  // Times that the manager has asked for all anew.
  friend bool operator==(const SubnetManagement&, const SubnetManagement&) = default;
};

/// What a port's own agents know of it at this moment.
struct PortIdentifiers {
  Lid lid{};
  std::uint8_t lmc = 0;
  Gid gid;
  std::span<const std::uint16_t> pkeys;
  SubnetManagement management{};
};

class PortAgents {
 public:
  /// Returns the agent's number in its file, the lowest that is free. EINVAL: the request is wrong,
  /// or another agent of the port takes one of its methods; EMFILE: the file has no number left.
  Result<std::uint32_t> add(FileId file, const protocol::RegisterAgent& wanted);
  /// Forgets the agent and its requests. EINVAL: there is none.
  Result<void> remove(FileId file, std::uint32_t agent);
  void close(FileId file);
  bool empty() const { return agents_.empty(); }
  /// Returns true if an agent takes requests of the class.
  bool serves(wire::MadClass management_class) const;

  /// A program sends. What cannot be sent comes back to it, with an errno value as status.
  void send(FileId file, const protocol::MadRecord& record, ByteSpan bytes,
            const PortIdentifiers& port, TimeNs now);
  /// A datagram arrives that the port's own agents do not answer.
  void on_datagram(const ManagementDatagram& datagram, const PortIdentifiers& port, TimeNs now);
  /// Requests that have waited long enough are sent again, or come back with ETIMEDOUT; segments
  /// are sent again.
  void on_time(const PortIdentifiers& port, TimeNs now);
  TimeNs deadline() const;

  /// To be taken, in order, after each of the calls above.
  std::optional<PortOutput> take_output();

 private:
  struct Agent {
    FileId file{};
    std::uint32_t number = 0;
    mad::SpecialQp qp{};
    std::optional<wire::MadClass> serves{};   // The class whose requests it takes.
    std::unique_ptr<mad::RmppEngine> rmpp{};  // If segments are not the program's to make.
  };
  struct Request {
    mad::ClientId client{};
    protocol::MadRecord record;
    ManagementDatagram datagram;
    std::uint32_t retries_left = 0;
    bool is_message = false;  // RMPP sends it; `datagram` is its first segment.
    TimeNs timeout() const { return record.timeout_ms * kMillisecond; }
  };

  std::optional<mad::ClientId> client_of(FileId file, std::uint32_t agent) const;
  Result<ManagementDatagram> make_datagram(const Agent& agent, const protocol::MadRecord& record,
                                           ByteSpan bytes, const PortIdentifiers& port) const;
  /// Gives the request the transaction id that its reply will have.
  Result<void> expect_reply(Request& request, TimeNs deadline);
  Result<void> send_message(mad::ClientId client, const protocol::MadRecord& record, ByteSpan bytes,
                            const PortIdentifiers& port, TimeNs now);
  void on_finished(const mad::RmppEngine::Finished& message, TimeNs now);
  void route(mad::SpecialQp qp, const ManagementDatagram& datagram, ByteSpan message,
             const PortIdentifiers& port);
  /// Sends and delivers what the agent's RMPP has made.
  void drain(Agent& agent, const PortIdentifiers& port, TimeNs now);
  Result<void> try_send(mad::ClientId client, const protocol::MadRecord& record, ByteSpan bytes,
                        const PortIdentifiers& port, TimeNs now);
  void give_back(FileId file, const protocol::MadRecord& record, ByteSpan bytes, int error);

  mad::Dispatcher dispatcher_;
  std::map<mad::ClientId, Agent> agents_;
  std::map<std::uint64_t, Request> requests_;  // By the transaction id they are sent by.
  std::deque<PortOutput> outputs_;
};

/// Where a datagram came from, as its receiver is told.
protocol::MadAddress address_of(const ManagementDatagram& datagram, const PortIdentifiers& port);
/// The answer to a request that nobody takes, on its way back.
ManagementDatagram unsupported_answer(const ManagementDatagram& request,
                                      const PortIdentifiers& port);

}  // namespace verbatim::fabric
