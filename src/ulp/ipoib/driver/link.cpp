#include "ulp/ipoib/driver/link.h"

#include <algorithm>
#include <cerrno>
#include <utility>

#include <dlfcn.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <sys/epoll.h>

#include "base/log.h"
#include "base/overloaded.h"
#include "ulp/ipoib/snooping.h"
#include "ulp/ipoib/wire/ip.h"

namespace verbatim::ulp::ipoib {
namespace {

constexpr std::uint16_t kFullMemberBit = 0x8000;
constexpr int kPacketsOfATurn = 64;
constexpr TimeNs kJoinAgain = 2 * kSecond;
/// Datagrams that find a receive. A card fills them while this process is off its processor: the
/// window of a TCP connection (net.ipv4.tcp_rmem: 6 MiB) fits, for what finds none is lost. Where
/// this thread attends, they wait in the fabric instead, and few receives stay in the cache.
constexpr std::uint32_t kReceives = 4096, kReceivesAttended = 512;
constexpr std::uint32_t kSends = 128;  // That the adapter has.
/// As other cards' interfaces; a TUN's are 500.
constexpr std::uint32_t kQueueLength = 1000;
/// Cards with Enhanced IPoIB, by their PCI numbers.
constexpr std::uint32_t kMellanox = 0x02c9, kConnectX4 = 4115;

/// As a card's interface makes it: the port's GUID, with the universal bit set (RFC 4391, 8).
SocketAddress link_local(const Gid& gid) {
  Ipv6 address{0xfe, 0x80};
  std::ranges::copy(gid.bytes.begin() + 8, gid.bytes.end(), address.begin() + 8);
  address[8] |= 2;
  return SocketAddress::ipv6(address);
}

}  // namespace

Link::Link(const Options& options, service::Loop& loop, Interface interface)
    : options_(options),
      loop_(loop),
      interface_(std::move(interface)),
      kernel_(interface_.index(), interface_.take_questions(), interface_.take_changes()) {}

Result<std::unique_ptr<Link>> Link::create(const Options& options, service::Loop& loop) {
  auto interface = Interface::create(options.place);
  if (!interface) return std::unexpected(interface.error());
  interface->set_carrier(false);
  std::unique_ptr<Link> link(new Link(options, loop, std::move(*interface)));
  link->kernel_.set_queue_length(kQueueLength);
  if (auto opened = link->open_device(); !opened) return std::unexpected(opened.error());
  if (auto watched = link->watch(); !watched) return std::unexpected(watched.error());
  link->answer_programs();
  link->subnet_->begin(loop.now());
  return link;
}

Result<void> Link::open_device() {
  rdma::Driver::Options wanted{.connections_max = 2 * Arrivals::kMax + Connections::kConnectionsMax,
                               .receives = 16,
                               .receive_bytes = 64,
                               .headers = 16,
                               .header_bytes = 64,
                               .spin = 0};  // Packets come in bursts: it would spin between them.
  if (options_.is_connected) {
    wanted.receives = ConnectedPort::kReceives;
    wanted.receive_bytes = ConnectedPort::kReceiveBytes;
  }
  auto driver = rdma::Driver::create(*this, wanted);
  if (!driver) {
    return refuse(driver.error().code,
                  fmt::format("{}: a subnet manager brings the port up ('verbatim fabric up' with "
                              "'--manager opensm')",
                              driver.error().text));
  }
  driver_ = std::move(*driver);
  const rdma::PortFacts port = port_facts();
  if (!port.is_infiniband || port.gids.empty()) {
    return refuse(ENODEV, fmt::format("port {} of {} is none of InfiniBand: this node's IP network "
                                      "is there already",
                                      options_.port, driver_->device().name()));
  }
  own_.gid = port.gids.front();
  if (options_.is_connected) {
    if (auto may = check_connected_mode(); !may) return may;
    own_.flags = HardwareAddress::kConnected;
  }
  return open_subnet();
}

Result<void> Link::check_connected_mode() const {
  const rdma::Limits& has = driver_->device().limits();
  if (has.vendor == kMellanox && has.part >= kConnectX4) {
    return refuse(EOPNOTSUPP,
                  "cards from ConnectX-4 on have Enhanced IPoIB, which has no connected mode: use "
                  "'--mode datagram', or another device profile");
  }
  return {};
}

Result<void> Link::open_subnet() {
  if (auto index = pkey_index(); !index) return std::unexpected(index.error());
  auto management = rdma::Management::open(driver_->device().name(), options_.port);
  if (!management) return std::unexpected(management.error());
  management_ = std::move(*management);
  auto queue = DatagramQueue::create(driver_->device());
  if (!queue) return std::unexpected(queue.error());
  queue_ = std::move(*queue);
  subnet_ = std::make_unique<Subnet>(
      *management_, driver_->device(), options_.port, *queue_, options_.pkey, own_.gid,
      Subnet::Events{.on_path =
                         [this](const Gid& gid, std::optional<WayId> way) {
                           if (!sender_) return;
                           sender_->on_path(gid, way, loop_.now(), out_);
                           carry_out();
                         },
                     .on_group =
                         [this](const Gid& group, std::optional<WayId> way) {
                           if (!sender_) return;
                           sender_->on_group(group, way, loop_.now(), out_);
                           carry_out();
                         },
                     .on_broadcast = [this](const auto& record) { on_broadcast(record); }});
  return {};
}

Result<std::uint16_t> Link::pkey_index() const {
  const auto pkeys = port_facts().pkeys;
  const auto base = [](PKey pkey) { return raw(pkey) & ~kFullMemberBit; };
  for (std::size_t i = 0; i < pkeys.size(); ++i) {
    if (base(pkeys[i]) == base(options_.pkey) && base(pkeys[i]) != 0)
      return static_cast<std::uint16_t>(i);
  }
  std::vector<std::string> has;
  for (const PKey pkey : pkeys) {
    if (raw(pkey) != 0) has.push_back(fmt::format("{:#06x}", raw(pkey)));
  }
  return refuse(EINVAL,
                fmt::format("P_Key {:#06x} is not in the port's table, which has {}: opensm's "
                            "partitions.conf says who is in which partition",
                            raw(options_.pkey), fmt::join(has, ", ")));
}

/// Our libibverbs lets this thread attend to packets itself (dropin/ibverbs/data/attend.cpp).
Result<void> Link::attend() {
  auto* const attend = reinterpret_cast<int (*)()>(dlsym(RTLD_DEFAULT, "verbatim_attend"));
  packets_ = attend == nullptr ? -1 : attend();
  if (packets_ < 0) return {};
  return loop_.watch(packets_, EPOLLIN, [this](std::uint32_t, TimeNs) { looks_ = true; });
}

/// No event wakes the driver for what has come, nor for what posts of this thread have completed;
/// while it is awake it looks by itself. One that has found nothing stays asleep: what comes from
/// now on is to wake it again.
void Link::serve_packets(TimeNs now) {
  if (!std::exchange(looks_, false) || packets_ < 0 || is_driver_awake()) return;
  driver_->on_time(now);
  if (is_driver_awake()) return;
  (void)driver_->completions().arm();
  driver_->on_time(now);
}

Result<void> Link::watch() {
  if (auto attached = driver_->attach(loop_); !attached) return attached;
  if (auto attends = attend(); !attends) return attends;
  loop_.add(*management_);
  loop_.add(*this);
  auto watched = loop_.watch(management_->descriptor(), EPOLLIN,
                             [this](std::uint32_t, TimeNs now) { management_->receive(now); });
  if (watched) {
    watched = loop_.watch(kernel_.descriptor(), EPOLLIN,
                          [this](std::uint32_t, TimeNs) { on_kernel_changes(); });
  }
  if (watched) {
    watched = loop_.watch(interface_.descriptor(), EPOLLIN,
                          [this](std::uint32_t, TimeNs) { read_packets(); });
  }
  return watched;
}

Link::~Link() {
  if (driver_ == nullptr) return;
  address_answers_.reset();
  sender_.reset();
  loop_.unwatch(interface_.descriptor());
  loop_.unwatch(packets_);
  loop_.unwatch(kernel_.descriptor());
  if (management_ != nullptr) loop_.unwatch(management_->descriptor());
  loop_.remove(*this);
  if (management_ != nullptr) loop_.remove(*management_);
  driver_->detach(loop_);
}

/// Of a partition: the group's attributes, or why it is not there.
void Link::on_broadcast(const Result<wire::MulticastRecord>& record) {
  joins_again_ = kNever;
  if (record) {
    const auto used = use(*record);
    why_ = used ? "" : used.error().text;
    if (used && sender_) set_carrier(true);
    if (used && !sender_) begin_to_serve();
    return;
  }
  why_ = fmt::format("the partition's broadcast group {} cannot be joined: {}",
                     gid_text(subnet_->broadcast()), record.error().text);
  if (record.error().code == EINVAL)
    why_ += ". opensm makes it for partitions with the flag 'ipoib' in partitions.conf";
  log(LogLevel::warn, "{}", why_);
  set_carrier(false);
  if (!sender_) joins_again_ = loop_.now() + kJoinAgain;  // Later its groups do.
}

Result<void> Link::use(const wire::MulticastRecord& record) {
  if (record.mtu < raw(Mtu::k256) || record.mtu > raw(Mtu::k4096))
    return refuse(EPROTO, fmt::format("the broadcast group has MTU {}", record.mtu));
  queue_->set_qkey(QKey{record.qkey});
  datagram_mtu_ = bytes_of(Mtu{record.mtu}) - static_cast<std::uint32_t>(kEncapsulationBytes);
  if (sender_) sender_->set_datagram_mtu(datagram_mtu_);
  if (auto set = set_mtu(); !set) return set;
  lid_ = port_facts().lid;
  if (port_ != nullptr) return port_->set_qkey(QKey{record.qkey});
  auto made = make_port(record);
  return made && options_.is_connected ? take_connections() : made;
}

/// Datagram mode's follows the group's. Connected mode's is set once: people choose a smaller one.
Result<void> Link::set_mtu() {
  if (options_.is_connected && port_ != nullptr) return {};
  mtu_ = options_.is_connected ? kConnectedMtu : datagram_mtu_;
  return interface_.set_mtu(mtu_);
}

Result<void> Link::make_port(const wire::MulticastRecord& record) {
  const auto index = pkey_index();
  if (!index) return std::unexpected(index.error());
  auto port = rdma::DatagramPort::create(
      driver_->device(), driver_->completions(), 0,
      {.port = options_.port,
       .pkey_index = *index,
       .qkey = QKey{record.qkey},
       .sends = kSends,
       .receives = packets_ >= 0 ? kReceivesAttended : kReceives,
       .receive_bytes = bytes_of(std::max(Mtu{record.mtu}, port_facts().mtu))});
  if (!port) return std::unexpected(port.error());
  port_ = std::move(*port);
  own_.qpn = port_->number();
  queue_->use(port_.get());
  subnet_->use(*port_);
  return {};
}

Result<void> Link::take_connections() {
  auto connected = ConnectedPort::create(
      *driver_, *queue_, own_, options_.pkey,
      {.on_connected =
           [this](PeerId peer, ByteSpan private_data) {
             sender_->on_connected(peer, private_data, loop_.now(), out_);
             carry_out();
           },
       .on_sent = [this](PeerId peer) { sender_->on_sent(peer, loop_.now()); },
       .on_ended =
           [this](PeerId peer, bool is_refused) {
             sender_->on_ended(peer, is_refused, loop_.now(), out_);
             carry_out();
           }});
  if (!connected) return std::unexpected(connected.error());
  connected_ = std::move(*connected);
  return {};
}

void Link::begin_to_serve() {
  const TimeNs now = loop_.now();
  // A connection's packets are large already.
  is_merging_ = !options_.is_connected && interface_.take_large_packets();
  sender_.emplace(DatagramSender::Settings{.own = own_,
                                           .broadcast = subnet_->broadcast(),
                                           .pkey = options_.pkey,
                                           .datagram_mtu = datagram_mtu_},
                  now, out_);
  if (auto up = interface_.set_up(); !up) log(LogLevel::warn, "{}", up.error().text);
  set_carrier(true);
  kernel_.add_address(link_local(own_.gid));
  if (options_.is_connected) kernel_.limit_groups(datagram_mtu_);
  carry_out();
}

void Link::set_carrier(bool has_carrier) {
  if (std::exchange(has_carrier_, has_carrier) == has_carrier) return;
  interface_.set_carrier(has_carrier);
  log(LogLevel::info, "{} has {} carrier", interface_.name(), has_carrier ? "a" : "no");
}

/// What the kernel has said of its groups while there was no carrier is lost: asks again.
void Link::query_groups() {
  const GeneralQueries queries = general_queries();
  interface_.write({}, queries.ipv4);
  interface_.write({}, queries.ipv6);
}

void Link::on_kernel_changes() {
  const auto changes = kernel_.take_changes();
  if (!sender_) return;
  if (changes.routes) sender_->forget_routes();
  if (changes.link) query_groups();
  if (changes.link && options_.is_connected) kernel_.limit_groups(datagram_mtu_);
  if (!changes.addresses && !changes.link) return;
  sender_->set_own(kernel_.addresses(), loop_.now(), out_);
  carry_out();
}

void Link::read_packets() {
  OffloadHeader header;
  in_batch_ = true;
  for (int i = 0; i < kPacketsOfATurn; ++i) {
    const auto buffer = has_room() ? queue_->take() : std::nullopt;
    if (!buffer) {
      reads_ = false;  // Until completions make room.
      loop_.change(interface_.descriptor(), 0);
      break;
    }
    const auto packet = interface_.read(header, {buffer->data + DatagramQueue::kPacketAt,
                                                 buffer->bytes - DatagramQueue::kPacketAt});
    if (packet && !packet->empty()) on_packet(header, *packet);
    queue_->finish(*buffer);
    queue_->flush_chain();
    if (!packet) {
      log(LogLevel::error, "{}", packet.error().text);
      return loop_.stop();
    }
    if (packet->empty()) break;
  }
  in_batch_ = false;
  queue_->flush();
}

TimeNs Link::deadline() const {
  if (!merge_.is_empty() || looks_) return 0;  // At the end of this turn, after the driver's.
  const TimeNs engine = sender_ ? sender_->deadline() : kNever;
  return std::min({joins_again_, engine, connected_ ? connected_->deadline() : kNever});
}

void Link::on_time(TimeNs now) {
  serve_packets(now);
  if (!is_driver_awake()) flush_merge();  // While it is, more may follow.
  if (joins_again_ <= now) {
    joins_again_ = kNever;
    subnet_->begin(now);
  }
  if (connected_) connected_->on_time(now);
  if (!sender_) return;
  sender_->on_time(now, out_);
  carry_out();
  resume_reading();
}

}  // namespace verbatim::ulp::ipoib
