// A client of the echo daemon with many connections in one thread:
//
//     rdma_load ADDRESS PORT CONNECTIONS ROUNDS BYTES [hold]
//
// Each connection sends ROUNDS messages, one after the other, and checks what comes back. The last
// line is JSON: what was done, descriptors and memory. `hold`: begins again until SIGTERM, or until
// the server has ended all connections.
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <memory>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>
#include <rdma/rdma_cma.h>
#include <unistd.h>

#include "base/log.h"
#include "service/loop.h"
#include "ulp/rdma/driver.h"

namespace verbatim::ulp::rdma {
namespace {

struct Options {
  SocketAddress server;
  std::uint32_t connections = 0, rounds = 0, bytes = 0;
  bool hold = false;
};

std::size_t descriptors() {
  const std::filesystem::directory_iterator all("/proc/self/fd");
  return static_cast<std::size_t>(std::distance(begin(all), end(all)));
}

std::uint64_t resident_bytes() {
  std::uint64_t size = 0, resident = 0;
  std::ifstream("/proc/self/statm") >> size >> resident;
  return resident * static_cast<std::uint64_t>(sysconf(_SC_PAGESIZE));
}

/// The byte at `offset` of a connection's message.
std::byte content(std::uint32_t connection, std::uint32_t round, std::uint32_t offset) {
  return static_cast<std::byte>(connection * 7 + round * 13 + offset * 31 + (offset >> 8));
}

class Load final : public Handler {
 public:
  explicit Load(const Options& options) : options_(options) {}

  Result<void> open(service::Loop& loop) {
    auto driver = Driver::create(
        *this, {.receives = std::max(options_.connections, 16u), .receive_bytes = options_.bytes});
    if (!driver) return std::unexpected(driver.error());
    driver_ = std::move(*driver);
    auto buffers = BufferPool::create(driver_->device(), options_.connections, options_.bytes, 0);
    if (!buffers) return std::unexpected(buffers.error());
    buffers_ = std::make_unique<BufferPool>(std::move(*buffers));
    slices_.resize(options_.connections);
    rounds_.resize(options_.connections);
    return driver_->attach(loop);
  }
  /// A few at a time, as a program does whose peers have a backlog.
  void connect_more() {
    while (begun_ < options_.connections && begun_ - established_ - failed_ < 64) {
      auto connection =
          driver_->connect(IpService{options_.server}, {.sizes = {.sends = 4, .send_slices = 1}});
      if (!connection) fail(connection.error().text);
      ++begun_;
    }
  }
  bool is_connected() const { return established_ + failed_ == options_.connections; }
  bool is_done() const { return done_ == options_.connections || ended_ == begun_; }
  bool is_over() const { return driver_->connection_count() == 0; }
  void start_rounds(TimeNs now) {
    for (const ConnectionId id : connections_) {
      WorkList work;
      next(id, work);
      driver_->carry_out(id, work, now);
    }
  }
  void disconnect(TimeNs now) {
    is_ending_ = true;
    driver_->disconnect_all(now);
  }
  nlohmann::json report() const {
    return {{"established", established_},
            {"failed", failed_},
            {"done", done_},
            {"messages", messages_},
            {"wrong", wrong_},
            {"lent", driver_->receives().lent()},
            {"ended", ended_},
            {"words", words_}};
  }

 private:
  void on_requested(const Requested& requested, TimeNs) override {
    driver_->reject(requested.connection);
  }
  void on_established(const Established& established, TimeNs, WorkList&) override {
    ++established_;
    connections_.push_back(established.connection);
    connect_more();
  }
  ReceiveUse on_message(ConnectionId id, const Message& message, TimeNs, WorkList& work) override {
    ++messages_;
    const std::uint32_t number = number_of(id);
    const ByteSpan bytes = message.bytes();
    bool is_right = bytes.size() == options_.bytes;
    for (std::uint32_t i = 0; is_right && i < bytes.size(); ++i)
      is_right = bytes[i] == content(number, rounds_[number], i);
    if (!is_right) ++wrong_;
    ++rounds_[number];
    next(id, work);
    return ReceiveUse::done;
  }
  void on_end(ConnectionId id, const End& end, TimeNs) override {
    ++ended_;
    if (std::erase(connections_, id) == 0) return fail(end.words);
    if (!is_ending_ && words_.size() < 8) words_.push_back(end.words);
  }
  void fail(const std::string& words) {
    ++failed_;
    if (words_.size() < 8) words_.push_back(words);
  }
  void next(ConnectionId id, WorkList& work) {
    const std::uint32_t number = number_of(id);
    if (rounds_[number] == options_.rounds && !options_.hold) {
      ++done_;
      return;
    }
    Slice& slice = slices_[number] = buffers_->at(number);
    for (std::uint32_t i = 0; i < options_.bytes; ++i)
      slice.data[i] = content(number, rounds_[number], i);
    work.push(Send{.payload = {&slice, 1}});
  }

  const Options options_;
  std::unique_ptr<Driver> driver_;
  std::unique_ptr<BufferPool> buffers_;
  std::vector<ConnectionId> connections_;
  std::vector<Slice> slices_;
  std::vector<std::uint32_t> rounds_;
  std::uint32_t begun_ = 0, established_ = 0, failed_ = 0, done_ = 0, ended_ = 0;
  std::uint64_t messages_ = 0, wrong_ = 0;
  bool is_ending_ = false;
  std::vector<std::string> words_;
};

Result<int> run(const Options& options) {
  int count = 0;
  rdma_free_devices(rdma_get_devices(&count));
  const std::size_t library = descriptors();
  auto loop = service::Loop::create();
  if (!loop) return std::unexpected(loop.error());
  if (auto watched = (*loop)->watch_signals(); !watched) return std::unexpected(watched.error());
  Load load(options);
  if (auto opened = load.open(**loop); !opened) return std::unexpected(opened.error());
  const std::size_t open = descriptors();
  const std::uint64_t before = resident_bytes();
  load.connect_more();
  while (!load.is_connected() && !(*loop)->should_stop()) (*loop)->turn();
  const std::uint64_t after = resident_bytes();
  const std::size_t connected = descriptors();
  std::puts("connected");
  std::fflush(stdout);
  load.start_rounds((*loop)->now());
  while (!load.is_done() && !(*loop)->should_stop()) (*loop)->turn();
  nlohmann::json report = load.report();
  load.disconnect((*loop)->now());
  while (!load.is_over()) (*loop)->turn();
  report.update({{"own_descriptors", open - library},
                 {"more_descriptors", connected - open},
                 {"bytes_each", (after - before) / std::max(options.connections, 1u)},
                 {"lent_at_end", load.report().at("lent")},
                 {"ended_at_end", load.report().at("ended")}});
  std::printf("%s\n", report.dump().c_str());
  const bool is_whole = report.at("ended") == 0 && report.at("failed") == 0;
  return is_whole && report.at("wrong") == 0 && report.at("lent_at_end") == 0 ? 0 : 1;
}

}  // namespace
}  // namespace verbatim::ulp::rdma

int main(int argc, char** argv) {
  using namespace verbatim;
  if (argc < 6) return 2;
  const auto number = [&](int i) { return static_cast<std::uint32_t>(std::atoi(argv[i])); };
  const auto server = SocketAddress::parse(argv[1], static_cast<std::uint16_t>(number(2)));
  if (!server) return 2;
  const auto done = ulp::rdma::run({.server = *server,
                                    .connections = number(3),
                                    .rounds = number(4),
                                    .bytes = number(5),
                                    .hold = argc > 6});
  if (done) return *done;
  std::fprintf(stderr, "rdma_load: %s\n", done.error().text.c_str());
  return 1;
}
