#pragma once

#include <array>
#include <bitset>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <tuple>
#include <utility>

#include "base/error.h"
#include "base/net/path.h"
#include "base/time.h"
#include "mad/mad.h"
#include "wire/mad/management_packet.h"

/// Which client of a node gets a management datagram (IBA volume 1, chapter 13). Without I/O.
namespace verbatim::mad {

/// Names a client of a Dispatcher; 0 is none. It stands in the upper half of the transaction ids of
/// its requests.
enum class ClientId : std::uint32_t {};
enum class SpecialQp : std::uint8_t { qp0, qp1 };

/// The requests that a client takes. Without methods it takes none, but replies to its own.
struct Registration {
  SpecialQp qp = SpecialQp::qp1;
  wire::MadClass management_class{};
  std::uint8_t class_version = 1;
  std::bitset<128> methods;
  std::uint32_t oui = 0;  // Of the vendor classes 0x30 to 0x4f, whose datagrams say it; else 0.
};

/// One of each port. The communication manager is a client like any other; which program a message
/// of it is for is decided after this (cm/ib/routing.h).
class Dispatcher {
 public:
  static constexpr std::size_t kClientsMax = 1024;
  static constexpr std::size_t kRequestsMax = 1024;  // Of one client, unanswered.

  /// EINVAL where another client has one of the methods of this class and version, or where class,
  /// queue pair and OUI do not belong together; EMFILE beyond kClientsMax.
  Result<ClientId> add(const Registration& registration);
  /// What it waits for is forgotten.
  void remove(ClientId client);

  /// The client sends a request and waits for its reply. Returns the transaction id to send it by:
  /// the lower half is that of `request`. EINVAL for a response, and where a request with the same
  /// id is in flight; ENOBUFS beyond kRequestsMax.
  Result<std::uint64_t> expect_reply(ClientId client, const Mad& request, TimeNs deadline);

  /// Changes when a request that is unanswered expires.
  void set_deadline(std::uint64_t transaction, TimeNs deadline);

  /// The request has not left: nothing waits for its reply.
  void cancel(std::uint64_t transaction);

  struct Decision {
    std::optional<ClientId> client{};
    bool is_reply = false;
    bool answer_unsupported = false;  // By `unsupported_answer`.
    bool operator==(const Decision&) const = default;
  };
  /// A response goes once to the client whose request has its transaction id, class and peer (a
  /// directed route names no peer). A request goes to the client that takes its class, version,
  /// method and OUI; a Get or Set that no client takes is answered.
  Decision route(SpecialQp qp, const Mad& mad);

  /// The client that a datagram is for, whether its reply is awaited or not: `route` decides about
  /// the message of which this is a segment.
  std::optional<ClientId> addressee(SpecialQp qp, const Mad& mad) const;

  /// A request that was not answered in time: its client, and the id it was sent by. One at a time.
  std::optional<std::pair<ClientId, std::uint64_t>> take_expired(TimeNs now);
  /// When the next one is due; kNever where nobody waits.
  TimeNs deadline() const;

 private:
  /// Who takes which method.
  using Methods = std::array<ClientId, 128>;
  using ClassKey = std::tuple<SpecialQp, wire::MadClass, std::uint8_t, std::uint32_t>;
  struct Request {
    SpecialQp qp{};
    wire::MadClass management_class{};
    Path peer;
    TimeNs deadline = 0;
  };
  using Requests = std::map<std::uint64_t, Request>;  // By transaction id.

  std::optional<ClientId> taker(SpecialQp qp, const Mad& mad, const wire::MadHeader& header) const;
  std::optional<ClientId> take_reply(SpecialQp qp, const Mad& mad, const wire::MadHeader& header);
  void forget(Requests::iterator request);

  std::map<ClassKey, Methods> classes_;
  std::map<ClientId, SpecialQp> clients_;
  std::uint32_t last_client_ = 0;
  Requests requests_;
  std::set<std::pair<TimeNs, std::uint64_t>> deadlines_;  // Of `requests_`.
};

/// True for what answers a request (IBA 13.4.5): the method's highest bit, TrapRepress, and a
/// BMSend whose modifier says so.
bool is_response(const wire::MadHeader& header);

/// True for a Send, which no method answers: its transaction id routes nothing. The baseboard's
/// class alone has Sends in both directions (IBA 16.2).
bool is_never_answered(const wire::MadHeader& header);

/// The answer to a Get or Set that nobody takes: the same datagram as GetResp with the status
/// "method and attribute are not supported together" (IBA 13.4.7).
std::array<std::byte, wire::kMadBytes> unsupported_answer(wire::MadSpan mad);

}  // namespace verbatim::mad
