#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>

#include <sys/epoll.h>

#include "service/loop.h"
#include "ulp/rdma/infiniband/datagram_port.h"
#include "ulp/rdma/infiniband/management.h"

/// The drivers of upper-layer protocols on a host of a fabric: management and datagrams.
///
///     datagram_peer receive                 joins a group, offers a service, answers device
///                                           management; prints what comes, until both kinds have
///     datagram_peer send GID QPN            finds the service and the path, joins the group, and
///                                           sends to both, until it is killed
namespace verbatim::ulp::rdma {
namespace {

constexpr QKey kQKey{0x0b1b};  // Of opensm's groups for IP over InfiniBand, of which this is one.
constexpr std::uint32_t kNumber = 1;  // Of the datagram port.
constexpr std::uint64_t kService = 0x1000'0000'0000'1234;
constexpr TimeNs kPace = 50 * kMillisecond;
constexpr std::string_view kText = "hello", kHeader = "head ";

template <typename T>
T must(Result<T> result) {
  if (!result) {
    std::printf("%s\n", result.error().text.c_str());
    std::exit(1);
  }
  if constexpr (!std::is_void_v<T>) return std::move(*result);
}

Gid gid_of(const char* text) { return Gid{SocketAddress::parse(text).value().ipv6_bytes()}; }

/// What both sides have.
class Peer : public service::Source {
 public:
  Peer() {
    must(loop->watch(management->descriptor(), EPOLLIN,
                     [this](std::uint32_t, TimeNs now) { management->receive(now); }));
    must(loop->watch(completions->descriptor(), EPOLLIN, [this](std::uint32_t, TimeNs) {
      completions->take_event();
      take_completions();
    }));
    loop->add(*management);
    loop->add(*this);
    take_completions();
  }

  /// Full member of the group, which the first member makes.
  void join() {
    using wire::MulticastRecord;
    MulticastRecord wanted{.group = group, .qkey = raw(kQKey), .join_state = wire::kFullMember};
    wanted.pkey = raw(kDefaultPKey);
    const std::uint64_t components = MulticastRecord::kGroup | MulticastRecord::kQKey |
                                     MulticastRecord::kPKey | MulticastRecord::kServiceLevel |
                                     MulticastRecord::kFlowLabel | MulticastRecord::kTrafficClass;
    must(management->join(
        wanted, components, [this](const auto& record) { on_group(must(record)); }, now()));
  }

  TimeNs deadline() const override { return due; }
  void on_time(TimeNs now) override {
    if (now >= due) due = now + kPace, act();
  }
  TimeNs now() const { return loop->now(); }

  virtual void on_group(const wire::MulticastRecord& record) = 0;
  virtual void on_arrived(const DatagramPort::Arrived&) {}
  virtual void act() {}

  void take_completions() {
    for (bool again = true; again;) {
      must(completions->arm());
      again = false;
      for (const Ended& ended : completions->poll()) {
        again = true;
        const auto arrived = port->on_ended(ended);
        if (!arrived) continue;
        on_arrived(*arrived);
        port->post_again({&arrived->buffer, 1});
      }
    }
  }

  const Gid group = gid_of("ff12:401b:ffff::1234");
  std::unique_ptr<service::Loop> loop = must(service::Loop::create());
  std::unique_ptr<Device> device = must(Device::open(""));
  std::unique_ptr<Completions> completions = must(Completions::create(*device, 16));
  std::unique_ptr<DatagramPort> port = must(DatagramPort::create(
      *device, *completions, kNumber, {.qkey = kQKey, .sends = 16, .receives = 16}));
  std::unique_ptr<Management> management = must(Management::open(device->name(), 1));
  TimeNs due = kNever;
};

class Receiver final : public Peer {
 public:
  Receiver() {
    join();
    must(management->offer({.id = kService}, [](const auto& service) { must(service); }, now()));
    must(management->serve(wire::MadClass::device_management, [](wire::MadSpan request, auto) {
      std::printf("asked for attribute %#x\n", load_be<std::uint16_t>(&request[16]));
      return true;
    }));
  }
  void on_group(const wire::MulticastRecord& record) override {
    must(port->attach({.gid = record.group, .lid = Lid{record.lid}}));
    std::printf("member as %#x\n", port->number().value());
  }
  void on_arrived(const DatagramPort::Arrived& arrived) override {
    bool& has_come = arrived.destination_gid == group ? has_multicast_ : has_unicast_;
    if (std::exchange(has_come, true)) return;
    std::printf("%s from LID %u: %.*s\n", arrived.destination_gid ? "multicast" : "unicast",
                unsigned{raw(arrived.source_lid)}, static_cast<int>(arrived.bytes.size()),
                reinterpret_cast<const char*>(arrived.bytes.data()));
    if (has_unicast_ && has_multicast_) std::puts("both");
  }

 private:
  bool has_unicast_ = false, has_multicast_ = false;
};

class Sender final : public Peer {
 public:
  Sender(const Gid& peer, Qpn qpn) : qpn_(qpn) {
    std::memcpy(buffer_.at(0).data, kText.data(), kText.size());
    must(management->find_service(
        {.id = kService}, wire::ServiceRecord::kId,
        [](const auto& found) {
          std::printf("service at %s\n", gid_text(must(found).gid).c_str());
        },
        now()));
    must(management->find_path(
        {.destination = peer, .source = device->port().gids.at(0), .pkey = raw(kDefaultPKey)},
        [this](const auto& found) { on_path(must(found)); }, now()));
    join();
  }
  void on_path(const wire::PathRecord& path) {
    std::printf("path to LID %u\n", path.destination_lid);
    send_to(must(port->open({.dlid = Lid{path.destination_lid},
                             .slid = Lid{path.source_lid},
                             .service_level = path.service_level,
                             .static_rate = path.rate})),
            qpn_);
  }
  void on_group(const wire::MulticastRecord& record) override {
    send_to(must(port->open({.dlid = Lid{record.lid},
                             .service_level = record.service_level,
                             .static_rate = record.rate,
                             .grh = GlobalRoute{.source = device->port().gids.at(0),
                                                .destination = record.group,
                                                .hop_limit = record.hop_limit}})),
            kMulticastQpn);
  }
  void send_to(DestinationId destination, Qpn qpn) {
    Slice payload = buffer_.at(0);
    payload.bytes = static_cast<std::uint32_t>(kText.size());
    // The header of the one is inline, that of the other is not.
    datagrams_.push_back({.to = destination,
                          .qpn = qpn,
                          .qkey = kQKey,
                          .header = std::as_bytes(std::span(kHeader)),
                          .payload = payload});
    due = now();
  }
  void act() override { port->send(datagrams_); }

 private:
  const Qpn qpn_;
  BufferPool buffer_ = must(BufferPool::create(*device, 1, 64, 0));
  std::vector<DatagramPort::Datagram> datagrams_;
};

}  // namespace
}  // namespace verbatim::ulp::rdma

int main(int argc, char** argv) {
  using namespace verbatim::ulp::rdma;
  std::setvbuf(stdout, nullptr, _IOLBF, 0);
  if (argc == 2) Receiver().loop->run();
  if (argc != 4) return 2;
  const auto qpn = static_cast<std::uint32_t>(std::strtoul(argv[3], nullptr, 0));
  Sender(gid_of(argv[2]), verbatim::Qpn(qpn)).loop->run();
}
