#include "verbatim/exchange.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <random>

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include "api/bytes.h"
#include "api/connecting/modify.h"
#include "api/connecting/sockets.h"
#include "api/connection.h"

namespace verbatim::inline v1::exchange {
namespace {

using detail::Deadline;
using detail::PeerAddress;

constexpr Call kCall = Call::exchange;
constexpr std::array<std::byte, 4> kMark{std::byte{'V'}, std::byte{'B'}, std::byte{'X'},
                                         std::byte{'1'}};
constexpr std::size_t kHeaderBytes = 40;
constexpr std::size_t kMaxData = 65'536;
constexpr std::byte kReady{1};

struct Header {
  PeerAddress address;
  std::uint32_t data_bytes = 0;
};

std::array<std::byte, kHeaderBytes> encode(const Header& header) {
  std::array<std::byte, kHeaderBytes> bytes{};
  std::byte* at = std::copy(kMark.begin(), kMark.end(), bytes.data());
  const PeerAddress& address = header.address;
  detail::put(at, address.lid);
  detail::put(at, static_cast<std::uint8_t>(address.mtu));
  detail::put(at, static_cast<std::uint8_t>(address.has_gid));
  for (const std::uint8_t byte : address.gid.bytes) detail::put(at, byte);
  detail::put(at, address.queue_pair);
  detail::put(at, address.psn);
  detail::put(at, address.reads_in_flight);
  at += 3;
  detail::put(at, header.data_bytes);
  return bytes;
}

Result<Header> decode(std::span<const std::byte, kHeaderBytes> bytes) {
  const auto refuse = [](const char* detail) {
    return Failure{.call = kCall, .status = Status::bad_format, .detail = detail};
  };
  if (!std::equal(kMark.begin(), kMark.end(), bytes.begin()))
    return refuse("the other side speaks something else");
  const std::byte* at = bytes.data() + kMark.size();
  Header header;
  PeerAddress& address = header.address;
  address.lid = detail::take<std::uint16_t>(at);
  const auto mtu = detail::take<std::uint8_t>(at);
  address.has_gid = detail::take<std::uint8_t>(at) != 0;
  for (std::uint8_t& byte : address.gid.bytes) byte = detail::take<std::uint8_t>(at);
  address.queue_pair = detail::take<std::uint32_t>(at);
  address.psn = detail::take<std::uint32_t>(at);
  address.reads_in_flight = detail::take<std::uint8_t>(at);
  at += 3;
  header.data_bytes = detail::take<std::uint32_t>(at);
  if (mtu < IBV_MTU_256 || mtu > IBV_MTU_4096)
    return refuse("the other side's MTU is none of InfiniBand's");
  address.mtu = static_cast<ibv_mtu>(mtu);
  if (address.queue_pair > 0xffffff || address.psn > 0xffffff)
    return refuse("a queue pair number has 24 bits");
  if (header.data_bytes > kMaxData) return refuse("the other side sends more than 64 KiB of data");
  return header;
}

ibv_mtu active_mtu(const Context& context) {
  ibv_port_attr attributes{};
  return ibv_query_port(context.native(), context.port().number, &attributes) == 0
             ? attributes.active_mtu
             : IBV_MTU_1024;
}

std::uint32_t random_psn() { return std::random_device()() & 0xffffff; }

Result<void> make_queue_pair(detail::Connection& connection, const QueuePairOptions& options) {
  detail::Party& party = connection.party;
  if (auto made = party.make_queues(options); !made) return made;
  ibv_qp_init_attr wanted = party.attributes(options, IBV_QPT_RC);
  ibv_qp* const queue_pair = ibv_create_qp(party.domain.native(), &wanted);
  if (queue_pair == nullptr) {
    return detail::refused(Call::make_queue_pair, errno,
                           "larger than the device allows, or too many (ibv_devinfo -v)");
  }
  if (auto adopted = party.adopt(queue_pair, wanted.cap); !adopted) {
    ibv_destroy_qp(queue_pair);
    return adopted;
  }
  return detail::to_init(queue_pair, party.domain.context());
}

/// Each side sends its address, and then that it can receive; only then may the other side send.
Result<void> meet(detail::Connection& connection, int socket, const ConnectOptions& options,
                  const Deadline& deadline) {
  const Context& context = connection.party.domain.context();
  ibv_qp* const queue_pair = connection.party.queue_pair;
  const std::uint32_t psn = random_psn();
  const Header ours{.address = {.lid = context.port().lid,
                                .mtu = active_mtu(context),
                                .has_gid = context.port().is_ethernet,
                                .gid = context.gid(),
                                .queue_pair = queue_pair->qp_num,
                                .psn = psn,
                                .reads_in_flight = options.queue_pair.reads_in_flight},
                    .data_bytes = static_cast<std::uint32_t>(options.data.size())};
  if (auto sent = detail::send_all(kCall, socket, encode(ours), deadline); !sent) return sent;
  if (auto sent = detail::send_all(kCall, socket, options.data, deadline); !sent) return sent;

  std::array<std::byte, kHeaderBytes> bytes;
  if (auto received = detail::receive_all(kCall, socket, bytes, deadline); !received)
    return received;
  const auto theirs = decode(bytes);
  if (!theirs) return theirs.error();
  connection.peer_data.resize(theirs->data_bytes);
  connection.peer_number = theirs->address.queue_pair;
  if (auto received = detail::receive_all(kCall, socket, connection.peer_data, deadline); !received)
    return received;

  const ibv_mtu mtu = std::min(ours.address.mtu, theirs->address.mtu);
  if (auto done = detail::to_receive(queue_pair, context, theirs->address, mtu, options.queue_pair);
      !done)
    return done;
  if (auto done = detail::to_send(queue_pair, psn, theirs->address, options.queue_pair); !done)
    return done;
  std::byte ready = kReady;
  if (auto sent = detail::send_all(kCall, socket, {&ready, 1}, deadline); !sent) return sent;
  return detail::receive_all(kCall, socket, {&ready, 1}, deadline);
}

Result<QueuePair> connect_within(const ProtectionDomain& domain, int socket,
                                 const ConnectOptions& options, const Deadline& deadline) {
  if (domain.context().device().is_iwarp) {
    return Failure{.call = kCall,
                   .status = Status::refused,
                   .code = EOPNOTSUPP,
                   .detail =
                       "over iWARP rdma_cm alone connects queue pairs: use verbatim::connect and "
                       "verbatim::Listener"};
  }
  if (options.data.size() > kMaxData) {
    return Failure{
        .call = kCall, .status = Status::out_of_range, .detail = "at most 64 KiB of data"};
  }
  auto connection = std::make_unique<detail::Connection>(domain, options.queue_pair);
  if (auto made = make_queue_pair(*connection, options.queue_pair); !made) return made.error();
  if (auto met = meet(*connection, socket, options, deadline); !met) return met.error();
  return ConnectionMaker::make(std::move(connection));
}

}  // namespace

Result<QueuePair> connect_over(const ProtectionDomain& domain, int socket,
                               const ConnectOptions& options) {
  return connect_within(domain, socket, options, Deadline(options.timeout));
}

Result<QueuePair> connect(const ProtectionDomain& domain, const std::string& host,
                          std::uint16_t port, const ConnectOptions& options) {
  const Deadline deadline(options.timeout);
  auto socket = detail::connect_tcp(kCall, host, port, options.source, deadline);
  if (!socket) return socket.error();
  return connect_within(domain, socket->get(), options, deadline);
}

struct Listener::State {
  ProtectionDomain domain;
  detail::Socket socket;
};

Listener::Listener(std::unique_ptr<State> state) : state_(std::move(state)) {}
Listener::Listener(Listener&&) noexcept = default;
Listener& Listener::operator=(Listener&&) noexcept = default;
Listener::~Listener() = default;

Result<Listener> Listener::open(const ProtectionDomain& domain, const ListenOptions& options) {
  auto socket = detail::listen_tcp(Call::listen, options.address, options.port, options.backlog);
  if (!socket) return socket.error();
  return Listener(std::make_unique<State>(domain, std::move(*socket)));
}

Result<QueuePair> Listener::accept(const ConnectOptions& options,
                                   std::chrono::milliseconds timeout) {
  auto socket = detail::accept_tcp(Call::accept, state_->socket.get(), Deadline(timeout));
  if (!socket) return socket.error();
  return connect_within(state_->domain, socket->get(), options, Deadline(options.timeout));
}

std::uint16_t Listener::port() const noexcept {
  sockaddr_storage address{};
  socklen_t size = sizeof address;
  getsockname(state_->socket.get(), reinterpret_cast<sockaddr*>(&address), &size);
  return ntohs(address.ss_family == AF_INET
                   ? reinterpret_cast<const sockaddr_in&>(address).sin_port
                   : reinterpret_cast<const sockaddr_in6&>(address).sin6_port);
}

int Listener::event_descriptor() const noexcept { return state_->socket.get(); }

}  // namespace verbatim::inline v1::exchange
