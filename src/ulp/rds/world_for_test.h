#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include "ulp/rds/broker.h"

namespace verbatim::ulp::rds {

/// Fragments on the heap, which counts them.
class HeapFragments final : public Fragments {
 public:
  static constexpr std::uint32_t kRoom = Header::kSize + kFragmentBytes;
  explicit HeapFragments(std::size_t count) : memory_(count * kRoom) {
    for (std::size_t i = 0; i < count; ++i) free_.push_back({&memory_[i * kRoom], kRoom, {}});
  }
  bool take(std::span<Slice> slices) override;
  void give_back(std::span<const Slice> slices) override;
  std::size_t free() const { return free_.size(); }

 private:
  std::vector<std::byte> memory_;
  std::vector<Slice> free_;
};

/// A message's bytes: its number, and what follows from it.
std::vector<std::byte> content_of(std::uint64_t number, std::size_t bytes);

/// Nodes with a broker each, in virtual time. Queue pairs deliver in order and late; `cut` ends
/// them anywhere. Bytes are read when they arrive, so memory that is used again too early shows.
class World {
 public:
  struct Options {
    std::uint64_t seed = 1;
    std::size_t nodes = 2;
    double cut = 0;  // Probability in each step, of each queue pair.
    std::size_t fragments = 4096;
    std::size_t peers_max = 256;
  };
  explicit World(const Options& options);
  ~World();

  struct Received {
    SocketAddress from;
    std::vector<std::byte> bytes{};
  };
  /// A program's socket and what it has read.
  struct Program {
    std::size_t node = 0;
    SocketId socket{};
    SocketAddress own;
    std::size_t room = 64;  // Messages that its socket holds.
    bool reads = true;
    bool is_paused = false;
    std::deque<Received> arrived{};  // Not read.
    std::vector<Received> read{};
    std::uint64_t news = 0;  // Of congestion.
    std::vector<Notice> notices{};
    std::vector<std::vector<std::byte>> read_memory{};  // What its READs and atomics have brought.
    std::vector<std::uint64_t> allowed{};
  };
  Program& open(std::size_t node, std::uint16_t port);
  Result<void> send(Program& from, const SocketAddress& to, std::span<const std::byte> bytes,
                    std::vector<Operation> operations = {});
  /// A node has granted this memory to all; its addresses begin at 0.
  static constexpr MemoryKey kGranted{77};
  std::vector<std::byte>& memory(std::size_t node) { return nodes_[node]->memory; }
  /// Memory of a node's broker for an operation.
  std::vector<Slice> take(std::size_t node, std::size_t bytes);

  void step();
  /// Until nothing happens any more, or `steps` are over.
  void run(std::size_t steps = 20'000);
  /// Ends all queue pairs.
  void cut_all();
  /// No queue pair comes into being.
  void set_apart(bool is_apart) { is_apart_ = is_apart; }
  void set_cut(double cut) { options_.cut = cut; }

  static SocketAddress address(std::size_t node, std::uint16_t port = 0) {
    return SocketAddress::ipv4({10, 0, 0, static_cast<std::uint8_t>(node + 1)}, port);
  }
  Broker& broker(std::size_t node) { return *nodes_[node]->broker; }
  const Peer* peer(std::size_t node, std::size_t of);
  HeapFragments& pool(std::size_t node) { return nodes_[node]->pool; }
  const std::vector<MemoryKey>& used(std::size_t node) { return nodes_[node]->used; }
  /// A node's process asks for a queue pair, with any private data.
  LinkId ask(std::size_t from, std::size_t to, const PrivateData& data);
  /// As if it came from the peer.
  void inject(std::size_t node, std::size_t from, ByteSpan fragment);
  /// A new broker in the place of a killed one. Its programs are gone.
  void restart(std::size_t node);
  TimeNs now() const { return now_; }
  std::uint32_t below(std::uint32_t end) { return static_cast<std::uint32_t>(random_() % end); }
  std::size_t links() const;

 private:
  struct Packet {
    std::vector<Slice> slices;
    Tag done{};
    TimeNs due = 0;
    std::optional<Operation> operation{};
  };
  /// One side of a queue pair.
  struct End {
    std::size_t node = 0;
    LinkId link{};
    bool is_there = false;  // Its broker waits for `on_end`.
    bool is_up = false;
    std::deque<Packet> sent{};  // To the other side.
    std::deque<std::pair<Tag, TimeNs>> done{};
    TimeNs ends_at = kNever;
    std::string words{};
  };
  struct Link {
    std::array<End, 2> ends;  // The first has asked.
    PrivateData request{}, answer{};
    TimeNs request_due = 0, answer_due = kNever;
    bool is_over = false;
  };
  struct Node final : Outside {
    Node(World& in, std::size_t number) : world(in), index(number), pool(in.options_.fragments) {}
    bool deliver(SocketId socket, const Delivery& delivery) override;
    void tell_congestion(SocketId socket, std::uint64_t ports) override;
    void let_send(std::uint64_t waiter) override;
    void pause(SocketId socket, bool is_paused) override;
    void show_congestion(bool is_any) override { congested = is_any; }
    bool is_own(const SocketAddress& address) override {
      return same_ip(address, World::address(index));
    }
    Result<LinkId> connect(const Pair& pair, const PrivateData& data) override;
    void accept(LinkId link, const PrivateData& data) override;
    void reject(LinkId link, const PrivateData& data) override;
    void disconnect(LinkId link, const char* words) override;
    void carry_out(LinkId link, std::span<const Work> work) override;
    void carry_out(LinkId link, const Atomic& atomic) override;
    void on_operation(SocketId socket, const Operation& operation, OperationStatus status) override;
    void on_finished(SocketId) override {}
    void on_used(SocketId, MemoryKey key) override { used.push_back(key); }

    World& world;
    std::size_t index;
    HeapFragments pool;
    std::unique_ptr<Broker> broker;
    bool congested = false;
    std::vector<std::byte> memory = std::vector<std::byte>(64 << 10);
    std::vector<MemoryKey> used;
    std::uint64_t restarts = 0;
  };
  End* find(std::size_t node, LinkId link, Link** whole = nullptr);
  Program* program(std::size_t node, SocketId socket);
  void make_broker(Node& node);
  void cut(Link& link, const std::string& words);
  void serve(Link& link);
  void serve(End& from, End& to);
  bool execute(const Operation& operation, Node& there);
  TimeNs later() { return now_ + kMicrosecond * (1 + random_() % 50); }

  Options options_;
  std::mt19937_64 random_;
  TimeNs now_ = kSecond;
  bool is_apart_ = false;
  std::uint32_t last_link_ = 0, last_socket_ = 0;
  std::vector<std::unique_ptr<Node>> nodes_;
  std::deque<Link> links_;
  std::deque<Program> programs_;
};

}  // namespace verbatim::ulp::rds
