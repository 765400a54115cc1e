#include "infinity/meeting/meeting.h"

#include <algorithm>
#include <random>

#include "infinity/failure.h"
#include "infinity/meeting/manager.h"
#include "infinity/meeting/peer.h"

namespace infinity::detail {
namespace {

// A peer sends its greeting as soon as it has a TCP connection; later messages take longer on a
// busy device.
constexpr std::chrono::seconds kGreetingTime(10);
constexpr std::chrono::seconds kOfferTime(90);

std::uint64_t random_ticket() {
  std::random_device random;
  return (std::uint64_t{random()} << 32) | random();
}

bool is_ipv4(const sockaddr_storage& address) {
  const in6_addr six = mapped(address);
  return IN6_IS_ADDR_V4MAPPED(&six);
}

Link link_of(const Device& device) {
  if (device.is_iwarp) return Link::iwarp;
  return device.is_ethernet ? Link::roce : Link::infiniband;
}

}  // namespace

void Meeting::accept(std::span<const std::byte> user_data) {
  socket_.limit(kGreetingTime);
  receive_greeting();
  send_greeting(user_data);
  if (!theirs_.has_offer) return activate_by_lid();

  prepare_offer(nullptr);
  std::unique_ptr<Manager> manager;
  if (ours_.link == Link::iwarp) {
    manager = Manager::listen(is_ipv4(socket_.local_address()) ? AF_INET : AF_INET6);
    ours_.port = manager->port();
    ours_.ticket = random_ticket();
  }
  socket_.send(encode(ours_));
  socket_.limit(kOfferTime);
  const Offer theirs = receive_offer();
  if (manager) {
    manager->accept(device_, queue_pair_.getQueuePairNumber(), ours_.ticket, socket_.get());
    queue_pair_.manager_ = std::move(manager);
  } else {
    activate(theirs);
  }
  be_ready();
}

void Meeting::connect(std::span<const std::byte> user_data) {
  send_greeting(user_data);
  receive_greeting();
  if (!theirs_.has_offer) return activate_by_lid();

  socket_.limit(kOfferTime);
  const Offer theirs = receive_offer();
  const SourceGid peer{.gid = theirs.gid, .type = theirs.gid_type};
  prepare_offer(&peer);
  socket_.send(encode(ours_));
  if (theirs.link == Link::iwarp) {
    sockaddr_storage address = socket_.peer_address();
    auto& port = address.ss_family == AF_INET ? reinterpret_cast<sockaddr_in&>(address).sin_port
                                              : reinterpret_cast<sockaddr_in6&>(address).sin6_port;
    port = htons(theirs.port);
    queue_pair_.manager_ =
        Manager::connect(device_, address, queue_pair_.getQueuePairNumber(), theirs.ticket);
  } else {
    activate(theirs);
  }
  be_ready();
}

void Meeting::send_greeting(std::span<const std::byte> user_data) const {
  Greeting ours{.lid = device_.port.lid,
                .has_offer = true,
                .queue_pair = queue_pair_.getQueuePairNumber(),
                .sequence_number = queue_pair_.getSequenceNumber(),
                .user_data = {user_data.begin(), user_data.end()}};
  socket_.send(encode(ours));
}

/// From here on messages may arrive, and the context finds the queue pair.
void Meeting::receive_greeting() {
  std::array<std::byte, Greeting::kBytes> bytes;
  socket_.receive(bytes);
  auto greeting = decode_greeting(bytes);
  if (!greeting) refuse("the other side of the TCP connection speaks something else");
  theirs_ = std::move(*greeting);
  queue_pair_.setRemoteUserData(theirs_.user_data.data(),
                                static_cast<std::uint32_t>(theirs_.user_data.size()));
  queue_pair_.enroll(&queue_pair_);
}

Offer Meeting::receive_offer() const {
  std::array<std::byte, Offer::kBytes> bytes;
  socket_.receive(bytes);
  const auto offer = decode_offer(bytes);
  if (!offer) refuse("the other side of the TCP connection is a version that is not known here");
  if (offer->link != link_of(device_)) {
    refuse("the other side's device is for ", name_of(offer->link), ", this one for ",
           name_of(link_of(device_)));
  }
  return *offer;
}

void Meeting::prepare_offer(const SourceGid* peer) {
  constexpr int kReads = 16;
  const ibv_device_attr& limits = device_.limits;
  ours_ = {.link = link_of(device_),
           .mtu = device_.port.active_mtu,
           .reads = static_cast<std::uint8_t>(
               std::clamp(std::min(limits.max_qp_rd_atom, limits.max_qp_init_rd_atom), 1, kReads))};
  if (ours_.link != Link::roce) return;
  const auto gid = device_.gid_for(mapped(socket_.local_address()), peer);
  if (!gid) {
    refuse("the device has no GID", peer == nullptr
                                        ? ": its interface has no address"
                                        : " of the RoCE version and IP family of the other side's");
  }
  own_gid_index_ = gid->index;
  ours_.gid = gid->gid;
  ours_.gid_type = gid->type;
}

void Meeting::activate(const Offer& theirs) {
  PeerAddress peer{.lid = theirs_.lid,
                   .mtu = std::min(ours_.mtu, theirs.mtu),
                   .queue_pair = theirs_.queue_pair,
                   .sequence_number = theirs_.sequence_number,
                   .reads = std::min(ours_.reads, theirs.reads)};
  if (theirs.link == Link::roce) {
    peer.gid = theirs.gid;
    peer.own_gid_index = own_gid_index_;
  }
  queue_pair_.activate(peer);
}

/// The other side is the original Infinity: it supports LIDs, and a message that comes too early is
/// sent again.
void Meeting::activate_by_lid() {
  if (link_of(device_) != Link::infiniband) {
    refuse(
        "the other side's library is Infinity itself, which connects over InfiniBand alone; over ",
        name_of(link_of(device_)), " both programs need this library");
  }
  queue_pair_.activate(theirs_.lid, theirs_.queue_pair, theirs_.sequence_number);
}

void Meeting::be_ready() const {
  std::byte ready = kReady;
  socket_.send({&ready, 1});
  socket_.receive({&ready, 1});
}

}  // namespace infinity::detail
