#include "link/ethernet/node_function.h"

#include <algorithm>
#include <cerrno>
#include <utility>

#include <poll.h>

#include "wire/net/ethernet/neighbour_message.h"

namespace verbatim::link {
namespace {

using wire::NeighbourMessage;
using Kind = NeighbourMessage::Kind;

/// A sender waits this long for an answer, at most once a second if none comes. It is a process
/// that answers, not a kernel (RoceV1Link): on a busy machine it needs its turn first.
constexpr TimeNs kMoment = 100 * kMillisecond;
constexpr TimeNs kAskAgain = 50 * kMillisecond;
/// Then a neighbour is asked again: it may have moved.
constexpr TimeNs kKnownTime = 30 * kSecond;
constexpr std::size_t kKnownMax = 1 << 12;

void send(offload::FunctionClient& client, const NeighbourMessage& message) {
  const MutableByteSpan room = client.room();
  if (room.empty()) return;  // Asked again, by the one or the other.
  client.post(encode(message, room.first<NeighbourMessage::kSizeMax>()));
  client.ring();
}

}  // namespace

Result<NodeFunction::Share*> NodeFunction::share(const SocketAddress& address) {
  const RoceVersion version = roce_version(address);
  Share& share = shares_[static_cast<std::size_t>(version)];
  if (share.port == nullptr) {
    const bool answers = place_.answers && !std::exchange(has_answerer_, true);
    const auto own = version == RoceVersion::v1 ? VNIC_WANTS_ROCE_V1 : VNIC_WANTS_ROCE_V2;
    auto port = FunctionPort::open(
        {.socket = place_.name.socket,
         .function = place_.name.function,
         .wants = static_cast<std::uint16_t>(own | (answers ? VNIC_WANTS_NEIGHBOURS : 0)),
         .qpn_range = place_.qpn_range,
         .qpn_shift = place_.qpn_shift});
    if (!port) return std::unexpected(port.error());
    share.port = std::move(*port);
    share.answers = answers;
  }
  if (share.addresses.size() == kLinksMax) return refuse(ENOSPC, "too many addresses");
  share.addresses.push_back(address);
  return &share;
}

std::optional<MacAddress> NodeFunction::known(const SocketAddress& destination) {
  const std::scoped_lock lock(mutex_);
  const auto found = neighbours_.find(destination.ipv6_bytes());
  if (found == neighbours_.end() || found->second.until < monotonic_now()) return {};
  return found->second.mac;
}

/// Waits without the lock.
Result<MacAddress> NodeFunction::find(const SocketAddress& own, const SocketAddress& destination,
                                      std::optional<TimeNs> patience) {
  if (const auto mac = known(destination)) return *mac;
  const TimeNs begun = monotonic_now();
  bool is_patient = patience.has_value();
  if (!is_patient) {
    const std::scoped_lock lock(mutex_);
    is_patient = begun >= no_wait_until_;
  }
  const TimeNs moment = is_patient ? kMoment : TimeNs{};
  const auto mac = ask_neighbour(place_.name, own, destination, patience.value_or(moment));
  const std::scoped_lock lock(mutex_);
  if (!mac && is_patient) no_wait_until_ = monotonic_now() + kSecond;
  if (mac) {
    if (neighbours_.size() == kKnownMax) neighbours_.clear();
    neighbours_[destination.ipv6_bytes()] = {*mac, monotonic_now() + kKnownTime};
  }
  return mac;
}

Result<FunctionFacts> look_at(const FunctionName& name) {
  const auto client = offload::FunctionClient::join({.socket = name.socket,
                                                     .function = name.function,
                                                     .wants = VNIC_WANTS_NEIGHBOURS,
                                                     .receive_buffers = 1,
                                                     .send_buffers = 1});
  if (!client) return std::unexpected(client.error());
  return FunctionFacts{(*client)->mac(), (*client)->mtu()};
}

Result<MacAddress> ask_neighbour(const FunctionName& name, const SocketAddress& own,
                                 const SocketAddress& destination, TimeNs patience) {
  auto client = offload::FunctionClient::join({.socket = name.socket,
                                               .function = name.function,
                                               .wants = VNIC_WANTS_NEIGHBOURS,
                                               .receive_buffers = 32,
                                               .send_buffers = 8});
  if (!client) return std::unexpected(client.error());
  const NeighbourMessage question{
      .sender_mac = (*client)->mac(), .sender = own, .target = destination};
  const TimeNs deadline = monotonic_now() + patience;
  std::optional<MacAddress> mac;
  TimeNs ask_at = 0;
  for (TimeNs now = monotonic_now();; now = monotonic_now()) {
    if (now >= ask_at) {
      send(**client, question);
      ask_at = now + kAskAgain;
    }
    (*client)->receive([&](ByteSpan frame) {
      const auto message = wire::decode_neighbour_message(frame);
      if (!message || message->sender_mac == question.sender_mac) return;
      if (same_ip(message->sender, destination)) mac = message->sender_mac;
      if (message->kind == Kind::question && same_ip(message->target, own)) {
        send(**client, wire::answer_to(*message, question.sender_mac));
      }
    });
    if (mac) return *mac;
    if (now >= deadline) break;
    const TimeNs wait = std::min(deadline, ask_at) - now;
    pollfd ready{.fd = (*client)->fd(), .events = POLLIN, .revents = 0};
    if ((*client)->begin_sleep()) poll(&ready, 1, static_cast<int>(wait / kMillisecond) + 1);
    if (!(*client)->has_card()) return refuse(ENETDOWN, "the card has ended");
  }
  return refuse(EHOSTUNREACH,
                "nobody answers for " + destination.ip_text() + " on the function's Ethernet");
}

}  // namespace verbatim::link
