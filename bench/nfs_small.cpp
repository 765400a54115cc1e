// NFS v3 READs without TCP: our client's and server's engines of RPC-over-RDMA on an adapter each,
// and behind the server's a responder that answers from memory. What bench/nfs.py measures.
//
//   bench_nfs_small serve ADDRESS PORT
//   bench_nfs_small load ADDRESS PORT CONNECTIONS DEPTH BYTES SECONDS
//   bench_nfs_small idle ADDRESS PORT CONNECTIONS

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <random>
#include <string>
#include <unordered_map>
#include <vector>

#include <fmt/format.h>
#include <sys/resource.h>

#include "bench/expect.h"
#include "service/loop.h"
#include "ulp/rdma/driver.h"
#include "ulp/rpcrdma/client_connection.h"
#include "ulp/rpcrdma/gateway/piece_memory.h"
#include "ulp/rpcrdma/server_connection.h"

namespace verbatim::ulp::rpcrdma {
namespace {

using bench::expect;
using bench::fail;
using rdma::ConnectionId;

constexpr std::size_t kFileBytes = 256 << 20;
constexpr std::uint32_t kCredits = 64, kReceives = kCredits + 16;
constexpr std::uint32_t kNfs = 100003, kRead = 6;
constexpr std::uint32_t kHandleBytes = 32;

void put(std::vector<std::byte>& out, std::initializer_list<std::uint32_t> words) {
  for (const std::uint32_t word : words) {
    out.resize(out.size() + 4);
    store_be(out.data() + out.size() - 4, word);
  }
}

/// Engines of one side on an adapter; whoever is behind them takes and gives whole records.
class Side : public rdma::Handler {
 public:
  explicit Side(std::uint32_t connections) {
    loop_ = expect(service::Loop::create());
    driver_ = expect(rdma::Driver::create(*this, {.connections_max = connections,
                                                  .receives = connections * kReceives,
                                                  .receive_bytes = kInlineBytes,
                                                  .headers = 1024,
                                                  .header_bytes = kInlineBytes,
                                                  .spin = kNever}));
    const int rights = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_WRITE;
    expect(records_.open(driver_->device(), rights));
    expect(chunks_.open(driver_->device(), rights));
    expect(driver_->attach(*loop_));
  }
  void turn() { loop_->turn(); }
  TimeNs now() const { return loop_->now(); }

 protected:
  using Bytes = std::vector<std::byte>;
  static QueueSizes sizes() {
    return {.sends = 512, .receives = kReceives, .receive_bytes = kInlineBytes};
  }
  static PrivateData facts() {
    return to_private_data(
        encode(ConnectionFacts{.send_bytes = kInlineBytes, .receive_bytes = kInlineBytes}));
  }
  static InlineLimits limits() { return {.send = kInlineBytes, .receive = kInlineBytes}; }
  Pools pools() { return {records_.pool(), chunks_.pool()}; }

  /// A record that an engine gives: its first bytes, and the bytes of all of it.
  virtual void on_record(ConnectionId id, Connection& engine, ByteSpan begin,
                         std::size_t bytes) = 0;

  Lent lend(ByteSpan head, std::uint32_t bytes) {
    Lent lent;
    if (!records_.pool().take(bytes, lent)) fail("no memory for a record");
    std::ranges::copy(head, lent.slices[0].data);
    return lent;
  }
  /// What the engine's last input has caused.
  void carry_out(ConnectionId id, Connection& engine) {
    for (bool more = true; more;) {
      if (!out_.refusal.empty()) fail(out_.refusal);
      begin_.clear();
      std::size_t bytes = 0;
      std::vector<Tag> written;
      for (const Work& one : out_.records) {
        const auto& send = std::get<Send>(one);
        bytes += send.header.size() + bytes_of(send.payload);
        if (begin_.size() < kBegin)
          begin_.insert(begin_.end(), send.header.begin(), send.header.end());
        if (send.done != kNoTag) written.push_back(send.done);
      }
      driver_->carry_out(id, {out_.rdma.begin(), out_.rdma.size()}, now());
      out_.clear();
      for (const Tag tag : written) engine.on_written(tag, out_);
      if (bytes > 0) on_record(id, engine, begin_, bytes);
      more = engine.resume(out_) || !out_.rdma.empty() || !out_.records.empty();
    }
  }

  ReceiveUse on_message(ConnectionId id, const Message& message, TimeNs, WorkList&) override {
    Connection& engine = *engines_.at(id);
    const ReceiveUse use = engine.on_message(message, out_);
    carry_out(id, engine);
    return use;
  }
  void on_done(ConnectionId id, Tag tag, CompletionStatus status, TimeNs, WorkList&) override {
    const auto found = engines_.find(id);
    if (found == engines_.end()) return;
    found->second->on_done(tag, status, out_);
    carry_out(id, *found->second);
  }
  void on_end(ConnectionId id, const rdma::End&, TimeNs) override {
    const auto found = engines_.find(id);
    if (found == engines_.end()) return;
    std::vector<ReceiveId> kept;
    found->second->on_end(kept);
    for (const ReceiveId receive : kept) driver_->post_again(receive);
    engines_.erase(found);
  }

  static constexpr std::size_t kBegin = 256;
  std::unique_ptr<service::Loop> loop_;
  std::unique_ptr<rdma::Driver> driver_;
  PieceMemory records_, chunks_;
  std::unordered_map<ConnectionId, std::unique_ptr<Connection>> engines_;
  Output out_;
  Bytes begin_;
};

/// Answers READs from memory.
class Server final : public Side {
 public:
  Server(const SocketAddress& place, std::uint32_t connections) : Side(connections) {
    std::mt19937_64 random(1);
    for (std::size_t i = 0; i < file_.size(); i += 4096) store_be(file_.data() + i, random());
    expect(driver_->listen(rdma::IpService{place}));
  }

 private:
  void on_requested(const rdma::Requested& requested, TimeNs) override {
    engines_[requested.connection] = std::make_unique<ServerConnection>(
        ServerConnection::Options{.limits = limits(), .credits = kCredits}, pools());
    const PrivateData data = facts();
    expect(driver_->accept(requested.connection, sizes(), {data.begin(), data.size()}));
  }
  void on_record(ConnectionId, Connection& engine, ByteSpan begin, std::size_t) override {
    // Mark, head of 40 bytes, the handle with its length, offset, count.
    const auto* const arguments = begin.data() + 4 + 40 + 4 + kHandleBytes;
    const std::size_t offset = load_be<std::uint64_t>(arguments) % kFileBytes;
    const auto bytes = load_be<std::uint32_t>(arguments + 8);
    reply_.clear();
    put(reply_, {load_be<std::uint32_t>(begin.data() + 4), 1, 0, 0, 0, 0});  // Accepted, success.
    put(reply_, {0, 0, bytes, 0, bytes});  // NFS3_OK, no attributes, count, no end, the data.
    const auto head = static_cast<std::uint32_t>(reply_.size());
    Lent record = lend(reply_, head + bytes);
    std::size_t done = 0;
    cut(record.span(), head, bytes, [&](const Slice& part) {
      std::memcpy(part.data, file_.data() + offset + done, part.bytes);
      done += part.bytes;
    });
    engine.on_record(record, out_);
  }

  Bytes file_ = Bytes(kFileBytes);
  Bytes reply_;
};

/// READs of random places, so many at a time on each connection.
class Client final : public Side {
 public:
  Client(const SocketAddress& server, std::uint32_t connections, std::uint32_t depth,
         std::uint32_t bytes)
      : Side(connections), depth_(depth), bytes_(bytes) {
    for (std::uint32_t i = 0; i < connections; ++i) {
      expect(driver_->connect(
          rdma::IpService{server},
          {.reads = {.initiator = 0, .responder = 16}, .sizes = sizes(), .private_data = facts()}));
    }
    while (engines_.size() < connections) turn();
  }
  std::uint64_t done() const { return done_; }

 private:
  void on_requested(const rdma::Requested&, TimeNs) override {}
  void on_established(const rdma::Established& one, TimeNs, WorkList&) override {
    auto& engine = engines_[one.connection] = std::make_unique<ClientConnection>(
        ClientConnection::Options{.limits = limits(), .calls_max = kCredits}, pools());
    for (std::uint32_t i = 0; i < depth_; ++i) {
      ask(*engine);
      carry_out(one.connection, *engine);
    }
  }
  void on_end(ConnectionId, const rdma::End& end, TimeNs) override { fail(end.words); }
  void ask(Connection& engine) {
    call_.clear();
    put(call_, {++xid_, 0, 2, kNfs, 3, kRead, 0, 0, 0, 0, kHandleBytes});
    call_.resize(call_.size() + kHandleBytes);
    const std::uint64_t offset = random_() % (kFileBytes / bytes_) * bytes_;
    put(call_,
        {static_cast<std::uint32_t>(offset >> 32), static_cast<std::uint32_t>(offset), bytes_});
    engine.on_record(lend(call_, static_cast<std::uint32_t>(call_.size())), out_);
  }
  void on_record(ConnectionId, Connection& engine, ByteSpan, std::size_t bytes) override {
    if (bytes < bytes_) fail("a reply that is too short");
    ++done_;
    ask(engine);
  }

  const std::uint32_t depth_, bytes_;
  std::uint32_t xid_ = 0;
  std::uint64_t done_ = 0;
  std::mt19937_64 random_{1};
  Bytes call_;
};

double processor_seconds() {
  rusage used{};
  getrusage(RUSAGE_SELF, &used);
  const auto seconds = [](const timeval& at) {
    return static_cast<double>(at.tv_sec) + 1e-6 * static_cast<double>(at.tv_usec);
  };
  return seconds(used.ru_utime) + seconds(used.ru_stime);
}

void say(const std::string& words) {
  fmt::print("{}\n", words);
  std::fflush(stdout);
}

/// Prints READs, seconds, and this side's processor seconds.
void load(Client& client, double seconds) {
  const auto run_until = [&](TimeNs until) {
    while (client.now() < until) client.turn();
  };
  run_until(client.now() + 200 * kMillisecond);
  say("measuring");
  const std::uint64_t before = client.done();
  const TimeNs begin = client.now();
  const double used = processor_seconds();
  run_until(begin + static_cast<TimeNs>(seconds * 1e9));
  say(fmt::format("reads {} seconds {:.6f} processor {:.6f}", client.done() - before,
                  1e-9 * static_cast<double>(client.now() - begin), processor_seconds() - used));
}

std::uint32_t number(const char* text) {
  return static_cast<std::uint32_t>(std::strtoul(text, nullptr, 10));
}

int run(int argc, char** argv) {
  const std::string what = argc > 1 ? argv[1] : "";
  const bool is_known = (what == "serve" && argc == 4) || (what == "load" && argc == 8) ||
                        (what == "idle" && argc == 5);
  if (!is_known) {
    fmt::print(stderr, "see the first lines of bench/nfs_small.cpp\n");
    return 2;
  }
  const auto place =
      expect(rdma::parse_place(argv[2], static_cast<std::uint16_t>(number(argv[3]))));
  if (what == "serve") {
    Server server(place, 64);
    say("serves");
    for (;;) server.turn();
  }
  if (what == "load") {
    Client client(place, number(argv[4]), number(argv[5]), number(argv[6]));
    load(client, std::atof(argv[7]));
  } else {
    Client client(place, number(argv[4]), 0, 1);
    say("idle");
    for (;;) client.turn();
  }
  std::_Exit(0);  // What is under way is the server's to end.
}

}  // namespace
}  // namespace verbatim::ulp::rpcrdma

int main(int argc, char** argv) { return verbatim::ulp::rpcrdma::run(argc, argv); }
