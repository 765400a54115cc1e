// Debian's rping's protocol over src/ulp/rdma, both sides:
//
//     rping_peer serve ADDRESS PORT              serves all who come, until SIGTERM
//     rping_peer ask ADDRESS PORT COUNT SIZE     checks what comes back
//
// The client's messages (16 bytes: address, key, size) name memory: first a source, which the
// server READs; then a sink, into which it WRITEs the same. The server answers each with a message.
#include <algorithm>
#include <array>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <memory>
#include <string>

#include "base/bytes.h"
#include "service/loop.h"
#include "ulp/rdma/driver.h"
#include "ulp/rdma/windows.h"

namespace verbatim::ulp::rdma {
namespace {

constexpr std::uint32_t kMessageBytes = 16;
constexpr std::uint32_t kBufferBytes = 64 << 10;
constexpr QueueSizes kSizes{.sends = 16, .receives = 2, .reads_in_flight = 1};
constexpr Tag kRead{1};

std::array<std::byte, kMessageBytes> message_of(const RemoteRange& range) {
  std::array<std::byte, kMessageBytes> message;
  store_be<std::uint64_t>(message.data(), range.address);
  store_be<std::uint32_t>(message.data() + 8, raw(range.remote_key));
  store_be<std::uint32_t>(message.data() + 12, range.bytes);
  return message;
}

RemoteRange range_of(ByteSpan message) {
  return {.address = load_be<std::uint64_t>(message.data()),
          .bytes = load_be<std::uint32_t>(message.data() + 12),
          .remote_key = MemoryKey{load_be<std::uint32_t>(message.data() + 8)}};
}

class Server final : public Handler {
 public:
  Result<void> open(Driver& driver, const SocketAddress& address) {
    driver_ = &driver;
    auto buffers = BufferPool::create(driver.device(), 8, kBufferBytes, IBV_ACCESS_LOCAL_WRITE);
    if (!buffers) return std::unexpected(buffers.error());
    buffers_ = std::make_unique<BufferPool>(std::move(*buffers));
    auto listener = driver.listen(IpService{address});
    if (!listener) return std::unexpected(listener.error());
    return {};
  }
  /// Before the driver is destroyed.
  void close() { buffers_.reset(); }

 private:
  struct Client {
    Slice buffer;
    Slice part;  // As much of it as the client's memory has.
    bool has_data = false;
  };
  void on_requested(const Requested& requested, TimeNs) override {
    Client client;
    if (!buffers_->take({&client.buffer, 1})) return driver_->reject(requested.connection);
    clients_[requested.connection] = client;
    static_cast<void>(driver_->accept(requested.connection, kSizes));
  }
  ReceiveUse on_message(ConnectionId id, const Message& message, TimeNs, WorkList& work) override {
    Client& client = clients_.at(id);
    const bool fits =
        message.bytes().size() == kMessageBytes && range_of(message.bytes()).bytes <= kBufferBytes;
    if (!fits) {
      work.push(Disconnect{"no message of rping"});
      return ReceiveUse::done;
    }
    const RemoteRange range = range_of(message.bytes());
    client.part = client.buffer;
    client.part.bytes = range.bytes;
    if (client.has_data) {
      work.push(Write{.from = {&client.part, 1}, .to = range});
      work.push(Send{.header = answer_});
    } else {
      work.push(Read{.into = {&client.part, 1}, .from = range, .done = kRead});
    }
    client.has_data = !client.has_data;
    return ReceiveUse::done;
  }
  void on_done(ConnectionId, Tag, CompletionStatus status, TimeNs, WorkList& work) override {
    if (status == CompletionStatus::success) work.push(Send{.header = answer_});
  }
  void on_end(ConnectionId id, const End& end, TimeNs) override {
    std::printf("ended: %s\n", end.words.c_str());
    std::fflush(stdout);
    if (const auto client = clients_.find(id); client != clients_.end()) {
      buffers_->give_back({&client->second.buffer, 1});
      clients_.erase(client);
    }
  }

  Driver* driver_ = nullptr;
  std::unique_ptr<BufferPool> buffers_;
  std::map<ConnectionId, Client> clients_;
  std::array<std::byte, kMessageBytes> answer_{};
};

class Client final : public Handler {
 public:
  Client(std::uint32_t count, std::uint32_t size) : left_(count), size_(size) {}

  Result<void> open(Driver& driver, const SocketAddress& server) {
    driver_ = &driver;
    constexpr int kRights = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ |
                            IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_MW_BIND;
    auto buffers = BufferPool::create(driver.device(), 2, size_, kRights);
    if (!buffers) return std::unexpected(buffers.error());
    buffers_ = std::make_unique<BufferPool>(std::move(*buffers));
    auto windows = Windows::create(driver.device(), buffers_->region(), 1);
    if (!windows) return std::unexpected(windows.error());
    windows_ = std::make_unique<Windows>(std::move(*windows));
    had_windows_ = windows_->exist();
    const auto connection = driver.connect(
        IpService{server}, {.reads = {.initiator = 1, .responder = 1}, .sizes = kSizes});
    if (!connection) return std::unexpected(connection.error());
    return {};
  }
  void close() {
    windows_.reset();
    buffers_.reset();
  }
  bool is_over() const { return is_over_; }
  bool is_right() const { return left_ == 0 && wrong_ == 0; }
  bool had_windows() const { return had_windows_; }

 private:
  void on_requested(const Requested&, TimeNs) override {}
  void on_established(const Established& established, TimeNs, WorkList& work) override {
    begin(established.connection, work);
  }
  void begin(ConnectionId id, WorkList& work) {
    const Slice source = buffers_->at(0);
    for (std::uint32_t i = 0; i < size_; ++i)
      source.data[i] = static_cast<std::byte>('A' + (left_ + i) % 26);
    source.data[size_ - 1] = std::byte{0};  // rping sends back text.
    name(id, source, false, work);
  }
  void name(ConnectionId id, const Slice& buffer, bool peer_writes, WorkList& work) {
    const auto bound = windows_->bind(*driver_->connection(id), buffer, peer_writes);
    if (!bound) return static_cast<void>(work.push(Disconnect{"no window"}));
    bound_ = *bound;
    message_ = message_of(bound_.range);
    work.push(Send{.header = message_});
  }
  ReceiveUse on_message(ConnectionId id, const Message&, TimeNs now, WorkList& work) override {
    windows_->unbind(*driver_->connection(id), bound_, false);
    sink_is_named_ = !sink_is_named_;
    if (sink_is_named_) {
      name(id, buffers_->at(1), true, work);
      return ReceiveUse::done;
    }
    if (!std::ranges::equal(bytes_of(0), bytes_of(1))) ++wrong_;
    std::ranges::fill(std::span(buffers_->at(1).data, size_), std::byte{0});
    if (--left_ > 0) {
      begin(id, work);
    } else {
      driver_->disconnect(id, "", now);
    }
    return ReceiveUse::done;
  }
  void on_end(ConnectionId, const End& end, TimeNs) override {
    std::printf("ended: %s\n", end.words.c_str());
    is_over_ = true;
  }
  ByteSpan bytes_of(std::uint32_t buffer) const { return {buffers_->at(buffer).data, size_}; }

  std::uint32_t left_;
  const std::uint32_t size_;
  Driver* driver_ = nullptr;
  std::unique_ptr<BufferPool> buffers_;
  std::unique_ptr<Windows> windows_;
  Windows::Bound bound_;
  std::array<std::byte, kMessageBytes> message_{};
  bool sink_is_named_ = false, is_over_ = false, had_windows_ = false;
  unsigned wrong_ = 0;
};

/// Returns the exit status.
template <typename Role, typename IsOver>
Result<int> run(Role& role, const SocketAddress& address, IsOver is_over) {
  auto loop = service::Loop::create();
  if (!loop) return std::unexpected(loop.error());
  if (auto watched = (*loop)->watch_signals(); !watched) return std::unexpected(watched.error());
  auto driver = Driver::create(role, {.receives = 64, .receive_bytes = kMessageBytes});
  if (!driver) return std::unexpected(driver.error());
  if (auto attached = (*driver)->attach(**loop); !attached)
    return std::unexpected(attached.error());
  if (auto opened = role.open(**driver, address); !opened) return std::unexpected(opened.error());
  while (!is_over() && !(*loop)->should_stop()) (*loop)->turn();
  (*driver)->disconnect_all((*loop)->now());
  while ((*driver)->connection_count() > 0) (*loop)->turn();
  role.close();
  return 0;
}

Result<int> run(const std::string& kind, const SocketAddress& address, std::uint32_t count,
                std::uint32_t size) {
  if (kind == "serve") {
    Server server;
    return run(server, address, [] { return false; });
  }
  Client client(count, size);
  auto ran = run(client, address, [&] { return client.is_over(); });
  if (!ran) return ran;
  std::printf("%s, %s windows\n", client.is_right() ? "right" : "WRONG",
              client.had_windows() ? "with" : "without");
  return client.is_right() ? 0 : 1;
}

}  // namespace
}  // namespace verbatim::ulp::rdma

int main(int argc, char** argv) {
  using namespace verbatim;
  const auto number = [&](int i) {
    return static_cast<std::uint32_t>(argc > i ? std::atoi(argv[i]) : 1);
  };
  if (argc < 4) return 2;
  const auto address = SocketAddress::parse(argv[2], static_cast<std::uint16_t>(number(3)));
  if (!address) return 2;
  const auto done = ulp::rdma::run(argv[1], *address, number(4), number(5));
  if (done) return *done;
  std::fprintf(stderr, "rping_peer: %s\n", done.error().text.c_str());
  return 1;
}
