// What programs ask of their sockets.
#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>

#include <fmt/format.h>
#include <sys/socket.h>
#include <sys/uio.h>

#include "base/log.h"
#include "base/os/passed_descriptors.h"
#include "ulp/rds/driver/info.h"
#include "ulp/rds/driver/programs.h"

namespace verbatim::ulp::rds {
namespace {

using local::Answer;
using local::Ask;
using local::Head;

/// SOL_RDS's own.
constexpr std::int32_t kCancelSentTo = 1;
constexpr std::int32_t kReceiveErrors = 5, kCongestionMonitor = 6, kTransport = 8;
constexpr std::uint64_t kOverInfiniband = 0;

SocketAddress from_local(const local::Address& address) {
  return SocketAddress::from(&address.any, sizeof address).value_or(SocketAddress{});
}

Result<Answer> named(const Result<SocketAddress>& address) {
  if (!address) return std::unexpected(address.error());
  Answer answer;
  if (!address->empty()) std::memcpy(&answer.address, address->data(), address->size());
  return answer;
}

Result<Answer> done(const Result<void>& result) {
  if (!result) return std::unexpected(result.error());
  return Answer{};
}

void put(int fd, const Answer& answer, ByteSpan more, int beside) {
  const std::array<iovec, 2> pieces{iovec{const_cast<Answer*>(&answer), sizeof answer},
                                    iovec{const_cast<std::byte*>(more.data()), more.size()}};
  // Who does not wait for the answer any more has none.
  send_message(fd, pieces, {&beside, beside < 0 ? 0u : 1u}, MSG_DONTWAIT);
}

}  // namespace

void Programs::on_question(Program& program, Packet& packet) {
  if (!packet.beside) return;
  std::vector<std::byte> more;
  const auto answered = answer(program, packet, more);
  if (!answered && answered.error().code == EINPROGRESS) {
    waiters_[last_waiter_] = {program.socket, std::move(packet.beside)};
    return;
  }
  Answer told = answered.value_or(Answer{});
  if (!answered) {
    told.error = answered.error().code;
    log(LogLevel::debug, "process {}: {}", program.process, answered.error().text);
  }
  int beside = -1;
  if (answered && packet.head.ask == Ask::shared_page) beside = page_file_.get();
  if (answered && packet.head.ask == Ask::inbox)
    beside = programs_[SocketId{static_cast<std::uint32_t>(told.value)}]->inbox_file.get();
  put(packet.beside.get(), told, more, beside);
}

void Programs::let_send(std::uint64_t waiter) {
  const auto found = waiters_.extract(waiter);
  if (!found.empty()) put(found.mapped().answer.get(), Answer{}, {}, -1);
}

Result<Answer> Programs::answer(Program& program, Packet& packet, std::vector<std::byte>& more) {
  const Head& head = packet.head;
  const SocketId id = program.socket;
  const SocketAddress address = from_local(head.address);
  Broker::Socket& socket = *broker_->find(id);
  switch (head.ask) {
    case Ask::bind: {
      const auto bound = broker_->bind(id, address);
      if (bound) publish(*bound);
      return named(bound);
    }
    case Ask::inbox: {
      const SocketId there = address.empty() ? id : broker_->at(address);
      if (there == kNoSocket) return refuse(ENOENT, "no socket is bound there");
      return Answer{.value = raw(there)};
    }
    case Ask::connect:
      return done(broker_->connect(id, address));
    case Ask::own_name:
      return named(socket.own);
    case Ask::peer_name:
      if (socket.peer.empty()) return refuse(ENOTCONN, "not connected");
      return named(socket.peer);
    case Ask::may_send:
      return done(broker_->may_send(id, address, head.value == 0 ? 0 : ++last_waiter_));
    case Ask::set_option:
      return set_option(program, head);
    case Ask::get_option:
      return get_option(program, head);
    case Ask::shared_page:
      return Answer{};
    case Ask::info: {
      const auto lists = info_of(head.option, *broker_);
      if (!lists) return std::unexpected(lists.error());
      more = lists->bytes;
      if (more.size() > local::kAnswerBytesMax) more.resize(local::kAnswerBytesMax);
      return Answer{.value = lists->each};
    }
    case Ask::transmit:
      return transmit(program, packet);
    case Ask::grant:
      return grant(program, packet);
    case Ask::end_grant:
      return done(grants_.end(id, MemoryKey{static_cast<std::uint32_t>(head.value)}));
    case Ask::source_for:
      for (const SocketAddress& own : addresses_) {
        if (own.family() == address.family()) return named(own);
      }
      return refuse(EADDRNOTAVAIL, "the node has no address of this family");
  }
  return refuse(EINVAL, "no such question");
}

/// What follows a question; it was received into fragments.
std::vector<std::byte> Programs::rest_of(const Packet& packet) const {
  std::vector<std::byte> bytes(packet.bytes);
  for (std::size_t at = 0, i = 0; at < bytes.size(); ++i) {
    const std::size_t part = std::min<std::size_t>(kFragmentBytes, bytes.size() - at);
    std::copy_n(spare_[i].data + Header::kSize, part,
                bytes.begin() + static_cast<std::ptrdiff_t>(at));
    at += part;
  }
  return bytes;
}

/// A message with operations in the peer's memory, or that offers memory.
Result<Answer> Programs::transmit(Program& program, Packet& packet) {
  const std::vector<std::byte> bytes = rest_of(packet);
  auto operations = transfers_.begin(packet.process, bytes);
  if (!operations) return std::unexpected(operations.error());
  const auto length = static_cast<std::uint32_t>(std::min<std::uint64_t>(packet.head.value, ~0u));
  auto fragments = fragments_of_file(packet.file.get(), length);
  local::Transmission head;
  std::memcpy(&head, bytes.data(), sizeof head);
  const MemoryKey key{static_cast<std::uint32_t>(head.offered)};
  if (fragments && head.offered != 0 && !grants_.has(program.socket, key)) {
    pool_.give_back(*fragments);
    fragments = refuse(EINVAL, fmt::format("key {:#x} is none of this socket's", raw(key)));
  }
  if (!fragments) {
    transfers_.drop(*operations);
    return std::unexpected(fragments.error());
  }
  const bool tells_errors = broker_->find(program.socket)->tells_errors;
  for (Operation& one : *operations) one.tells_errors = tells_errors;
  Parcel parcel{.bytes = length,
                .fragments = std::move(*fragments),
                .operations = std::move(*operations),
                .is_silent = head.is_silent != 0 && length == 0 && head.operations > 0};
  if (head.offered != 0) parcel.offered = {key, static_cast<std::uint32_t>(head.offered >> 32)};
  std::vector<std::uint64_t> numbers;
  for (const Operation& one : parcel.operations) numbers.push_back(one.number);
  program.inbox->submitted.fetch_add(1);  // Not by the program: a signal may end its question.
  const auto sent = broker_->send(program.socket, from_local(packet.head.address),
                                  std::move(parcel), loop_.now());
  if (!sent) std::ranges::for_each(numbers, [&](std::uint64_t one) { transfers_.forget(one); });
  return done(sent);
}

Result<Answer> Programs::grant(Program& program, const Packet& packet) {
  const std::vector<std::byte> bytes = rest_of(packet);
  local::Grant grant;
  if (bytes.size() != sizeof grant) return refuse(EINVAL, "a grant of a wrong length");
  if (broker_->find(program.socket)->own.empty())
    return refuse(ENOTCONN, "the socket is not bound");
  std::memcpy(&grant, bytes.data(), sizeof grant);
  const auto granted = grants_.add(program.socket, packet.file.get(), grant);
  if (!granted) return std::unexpected(granted.error());
  return Answer{.value = local::cookie_of(raw(granted->key), granted->offset)};
}

Result<Answer> Programs::set_option(Program& program, const Head& head) {
  constexpr std::uint32_t kLeastBuffer = 4096;
  Broker::Socket& socket = *broker_->find(program.socket);
  const auto buffer = [&] {
    const std::uint64_t most = 8 * kMessageBytesMax;
    return static_cast<std::uint32_t>(std::clamp<std::uint64_t>(head.value, kLeastBuffer, most));
  };
  switch (head.option) {
    case local::kSendBuffer:
      socket.send_limit = buffer();
      return Answer{};
    case local::kReceiveBuffer:
      socket.receive_limit = buffer();
      set_limit(program);
      return Answer{};
    case local::kTypeOfService:
      // Sequences are of a connection: messages that wait keep theirs.
      socket.tos = static_cast<std::uint8_t>(head.value);
      return Answer{};
    case kCancelSentTo:
      broker_->cancel(program.socket, from_local(head.address));
      return Answer{};
    case kReceiveErrors:
      socket.tells_errors = head.value != 0;
      return Answer{};
    case kCongestionMonitor:
      socket.monitors = head.value != 0;
      socket.refused_ports = 0;
      return Answer{};
    case kTransport:
      if (!socket.own.empty()) return refuse(EOPNOTSUPP, "the socket is bound already");
      if (head.value != kOverInfiniband)
        return refuse(ENOPROTOOPT, "RDS_TRANS_IB is the only transport");
      return Answer{};
    default:
      return refuse(ENOPROTOOPT, "no such option");
  }
}

Result<Answer> Programs::get_option(Program& program, const Head& head) {
  const Broker::Socket& socket = *broker_->find(program.socket);
  switch (head.option) {
    case local::kSendBuffer:
      return Answer{.value = socket.send_limit};
    case local::kReceiveBuffer:
      return Answer{.value = socket.receive_limit};
    case local::kTypeOfService:
      return Answer{.value = socket.tos};
    case kReceiveErrors:
      return Answer{.value = socket.tells_errors ? 1u : 0u};
    case kTransport:
      // RDS_TRANS_NONE before it is bound, as in Linux.
      return Answer{.value = socket.own.empty() ? ~std::uint32_t{0} : kOverInfiniband};
    default:
      return refuse(ENOPROTOOPT, "no such option");
  }
}

}  // namespace verbatim::ulp::rds
