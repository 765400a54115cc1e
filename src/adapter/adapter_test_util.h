#pragma once

#include <algorithm>
#include <array>
#include <cerrno>
#include <concepts>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include <gtest/gtest.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include "adapter/adapter.h"

/// Adapters for tests: two in one process, over sockets on separate loopback addresses, without an
/// agent.
namespace verbatim::adapter {

using transport::Operation;
using transport::Status;

/// A node with one program.
struct TestNode {
  /// With `direct` it also finds other nodes of this process with `direct` on the direct path, with
  /// `only_direct` it takes no other.
  enum class Path : std::uint8_t { wire, direct, only_direct };
  enum class Protocol : std::uint8_t { roce, iwarp };

  explicit TestNode(std::uint8_t last_byte, std::uint32_t first_qpn, Path path = Path::wire,
                    TimeNs rnr_grace = kRnrGrace, Protocol protocol = Protocol::roce) {
    const auto address = own_address(last_byte);
    socket = socket_at(address);
    Membership membership;
    membership.node = {
        .name = "test",
        .guid = 1,
        .interface = "lo",
        .interface_index = 1,
        .addresses = {address},
        .gids = {{link_local_gid(synthetic_mac(address)), address}, {gid_of(address), address}},
        .protocol =
            protocol == Protocol::iwarp ? config::WireProtocol::iwarp : config::WireProtocol::roce};
    membership.first_qpn = Qpn(first_qpn);
    membership.receive_sockets = {socket.get(), socket.get()};
    membership.rnr_grace = rnr_grace;
    membership.locks = NameLocks(locks_path());
    membership.only_direct = path == Path::only_direct;
    auto arena = std::move(*Arena::create());
    if (path != Path::wire) open_to_others(membership, arena->fd());
    adapter = std::move(*Adapter::create(std::move(arena), std::move(membership)));
    pd = *adapter->memory().allocate_pd();
  }
  /// With InfiniBand ports.
  template <std::same_as<InfinibandEnd>... Ends>
  explicit TestNode(std::uint32_t first_qpn, Ends... ends)
      : TestNode(Path::wire, first_qpn, std::move(ends)...) {}
  template <std::same_as<InfinibandEnd>... Ends>
  TestNode(Path path, std::uint32_t first_qpn, Ends... ends) {
    Membership membership;
    (membership.infiniband.push_back(std::move(ends)), ...);
    membership.node = {.name = "test",
                       .guid = 1,
                       .gids = {{membership.infiniband.front().gid, {}}},
                       .protocol = config::WireProtocol::infiniband};
    membership.first_qpn = Qpn(first_qpn);
    membership.locks = NameLocks(locks_path());
    auto arena = std::move(*Arena::create());
    if (path == Path::direct) open_to_others(membership, arena->fd());
    adapter = std::move(*Adapter::create(std::move(arena), std::move(membership)));
    pd = *adapter->memory().allocate_pd();
  }
  void add_gid(std::uint8_t last_byte) {
    const auto address = own_address(last_byte);
    second_socket = socket_at(address);
    EXPECT_TRUE(adapter->add_gid({gid_of(address), address}, second_socket.get()));
  }

  /// The lock file; created when a lock is taken.
  static std::string locks_path() {
    return testing::TempDir() + "verbatim-adapter-locks-" + std::to_string(getpid());
  }
  static SocketAddress own_address(std::uint8_t last_byte) {
    const auto pid = static_cast<std::uint32_t>(getpid());
    return SocketAddress::ipv4({127, static_cast<std::uint8_t>(100 + pid / 256 % 100),
                                static_cast<std::uint8_t>(pid), last_byte},
                               kRocePort);
  }
  static UniqueFd socket_at(const SocketAddress& address) {
    UniqueFd fd(::socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0));
    EXPECT_TRUE(fd && bind(fd.get(), address.data(), address.size()) == 0) << address.text();
    return fd;
  }

  /// Lets the nodes find each other, as an agent does.
  void open_to_others(Membership& membership, int arena) {
    EXPECT_TRUE(prepare_direct_path(membership));
    membership.doorbell.reset(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
    const std::uint32_t slot = membership.first_qpn.value() / kProgramQueuePairsMax;
    known()[slot] = {arena, membership.memory->fd(), membership.doorbell.get()};
    membership.ask_for_peer = [this](const SocketAddress&, Qpn qpn) -> Result<PeerDescriptors> {
      ++questions;
      const auto found = known().find(qpn.value() / kProgramQueuePairsMax);
      if (found == known().end()) return refuse(ENOENT, "no such program");
      const auto& [arena_fd, memory, doorbell] = found->second;
      return PeerDescriptors{UniqueFd(dup(arena_fd)), UniqueFd(dup(memory)),
                             UniqueFd(dup(doorbell))};
    };
  }
  /// Descriptors of arena, memory and doorbell, by the upper bits of a program's queue pair
  /// numbers.
  static std::map<std::uint32_t, std::array<int, 3>>& known() {
    static std::map<std::uint32_t, std::array<int, 3>> programs;
    return programs;
  }

  int questions = 0;  // Number of calls of `ask_for_peer`.
  UniqueFd socket, second_socket;
  std::unique_ptr<Adapter> adapter;
  PdNumber pd{};
};

/// A queue pair with its completion queue, its events and registered memory.
struct Side {
  static constexpr std::size_t kBytes = 1 << 20;

  Side(TestNode& owner, QpType type, std::uint32_t depth = 64, SharedReceiveQueue* shared = nullptr)
      : node(owner),
        events(std::move(*Semaphore::create())),
        channel(std::move(*Semaphore::create())) {
    cq = std::move(*node.adapter->create_completion_queue({.capacity = 1024, .channel = &channel}));
    memory.resize(kBytes);
    key = *node.adapter->memory().register_memory(
        {.address = address(),
         .length = memory.size(),
         .iova = address(),
         .access = region::kLocalWrite | region::kRemoteWrite | region::kRemoteRead |
                   region::kRemoteAtomic,
         .pd = node.pd});
    QueuePairOptions options;
    options.type = type;
    options.pd = node.pd;
    options.send_cq = options.receive_cq = cq.get();
    options.events = &events;
    options.capacity = {depth, depth, 4, 4, 64};
    options.shared_receive = shared;
    qp = *node.adapter->create_queue_pair(options);
  }
  ~Side() {
    node.adapter->destroy_queue_pair(qp);
    EXPECT_TRUE(node.adapter->memory().deregister_memory(key));
  }

  std::uint64_t address(std::size_t offset = 0) const {
    return reinterpret_cast<std::uint64_t>(memory.data()) + offset;
  }
  Segment segment(std::size_t offset, std::uint32_t length) const {
    return {address(offset), length, raw(key)};
  }

  port::AddressVector vector_to(const Side& peer, std::uint8_t gid_index) const {
    Adapter& there = *peer.node.adapter;
    return {.dest_gid = there.port(peer.port).gids()[gid_index].gid,
            .dlid = there.port(peer.port).lids().base,
            .source_gid_index = gid_index,
            .static_rate = static_rate,
            .port = port,
            .is_global = has_grh};
  }

  void connect(const Side& peer, Mtu mtu = Mtu::k4096, std::uint8_t gid_index = 1) {
    constexpr std::uint32_t kAccess =
        region::kRemoteWrite | region::kRemoteRead | region::kRemoteAtomic;
    QueuePairAttributes attributes;
    attributes.state = QpState::init;
    attributes.access = kAccess;
    attributes.pkey_index = pkey_index;
    attributes.port = port;
    const bool rc = qp->type() == QpType::rc;
    ASSERT_TRUE(qp->modify(attributes, kState | kPKeyIndex | kPort | kAccessFlags));
    attributes.state = QpState::rtr;
    attributes.path_mtu = mtu;
    attributes.receive_psn = Psn(0xfffff0);
    attributes.dest_qpn = peer.qp->number();
    attributes.max_dest_rd_atomic = 4;
    attributes.min_rnr_timer = 1;
    attributes.address = vector_to(peer, gid_index);
    const auto moved =
        qp->modify(attributes, kState | kAddressVector | kPathMtu | kDestQpn | kReceivePsn |
                                   (rc ? kMaxDestRdAtomic | kMinRnrTimer : 0u));
    ASSERT_TRUE(moved) << moved.error().text;
    attributes.state = QpState::rts;
    attributes.send_psn = Psn(0xfffff0);
    attributes.timeout = timeout;
    attributes.retry_count = 7;
    attributes.rnr_retry = rnr_retry;
    attributes.max_rd_atomic = 4;
    ASSERT_TRUE(qp->modify(
        attributes,
        kState | kSendPsn | (rc ? kTimeout | kRetryCount | kRnrRetry | kMaxRdAtomic : 0u)));
  }

  int post(Operation operation, Segment local, const Side* peer = nullptr,
           std::size_t remote_offset = 0, std::uint64_t compare_add = 0, std::uint64_t swap = 0) {
    SendWork work;
    work.wr_id = ++posted;
    work.request.operation = operation;
    work.request.immediate = 0x11223344;
    work.request.length = local.length;
    work.request.remote_address = peer != nullptr ? peer->address(remote_offset) : 0;
    work.request.remote_key = peer != nullptr ? peer->key : MemoryKey{};
    work.request.compare_add = compare_add;
    work.request.swap = swap;
    work.segments = std::span(&local, 1);
    work.flags = kPostSignaled;
    return qp->post_send(work);
  }

  /// Polls until there is an entry; returns a default one after five seconds.
  Completion next() {
    Completion entry{.status = Status::local_qp_operation_error};
    for (const TimeNs end = monotonic_now() + 5 * kSecond; monotonic_now() < end;) {
      if (node.adapter->poll(*cq, std::span(&entry, 1)) == 1) break;
    }
    return entry;
  }

  TestNode& node;
  AsyncEvents events;
  CompletionChannel channel;
  std::unique_ptr<CompletionQueue> cq;
  std::vector<std::byte> memory;
  MemoryKey key{};
  QueuePair* qp = nullptr;
  std::uint64_t posted = 0;
  std::uint8_t timeout = 14;  // Of `connect`, as are the next five.
  std::uint8_t rnr_retry = 7;
  std::uint16_t pkey_index = 0;
  std::uint8_t port = 1;
  std::uint8_t static_rate = 0;  // InfiniBand, as is the next one: an `ibv_rate`.
  bool has_grh = true;           // Packets begin with LRH and GRH.
};

struct AdapterPair : testing::Test {
  explicit AdapterPair(TestNode::Path path = TestNode::Path::wire, TimeNs rnr_grace = kRnrGrace,
                       TestNode::Protocol protocol = TestNode::Protocol::roce)
      : a(1, 1 << 14, path, rnr_grace, protocol), b(2, 2 << 14, path, rnr_grace, protocol) {}

  TestNode a, b;

  static void fill(Side& side, std::size_t offset, std::size_t length, unsigned seed) {
    for (std::size_t i = 0; i < length; ++i) {
      side.memory[offset + i] = static_cast<std::byte>(seed + i * 7 + i / 251);
    }
  }
};

}  // namespace verbatim::adapter
