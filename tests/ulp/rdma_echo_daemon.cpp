// A newcomer's service over RDMA: it sends each message back. All that is not its own is in
// src/ulp/rdma/ and src/service/.
#include <memory>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "service/daemon.h"
#include "ulp/rdma/driver.h"

namespace verbatim::ulp::rdma {
namespace {

constexpr std::uint32_t kMessageBytes = 4096;
constexpr QueueSizes kSizes{.sends = 16, .send_slices = 1};

class Echo final : public Handler {
 public:
  Result<void> open(const std::string& address, std::uint16_t port) {
    const auto at = SocketAddress::parse(address, port);
    if (!at) return std::unexpected(at.error());
    auto driver = Driver::create(*this, {.receives = 4096, .receive_bytes = kMessageBytes});
    if (!driver) return std::unexpected(driver.error());
    driver_ = std::move(*driver);
    answers_.resize(driver_->receives().count());
    if (auto listener = driver_->listen(IpService{*at}); !listener)
      return std::unexpected(listener.error());
    return {};
  }
  Driver& driver() { return *driver_; }
  nlohmann::json status() const {
    return {{"connections", driver_->connection_count()},
            {"messages", messages_},
            {"lent", driver_->receives().lent()}};
  }

 private:
  void on_requested(const Requested& requested, TimeNs) override {
    static_cast<void>(driver_->accept(requested.connection, kSizes));
  }
  /// The answer is sent from the receive, which is posted again when it has left.
  ReceiveUse on_message(ConnectionId, const Message& message, TimeNs, WorkList& work) override {
    ++messages_;
    Slice& slice = answers_[raw(message.receive)] = message.memory;
    work.push(Send{.payload = {&slice, 1}, .done = Tag{raw(message.receive) + 1}});
    return ReceiveUse::kept;
  }
  void on_done(ConnectionId, Tag tag, CompletionStatus, TimeNs, WorkList& work) override {
    work.push(PostAgain{ReceiveId{raw(tag) - 1}});
  }
  void on_end(ConnectionId, const End&, TimeNs) override {}

  std::vector<Slice> answers_;  // By receive.
  std::uint64_t messages_ = 0;
  std::unique_ptr<Driver> driver_;
};

int run(int argc, char** argv) {
  std::string address, port = "7471";
  const service::Setting settings[] = {
      {.name = "address", .value_name = "ADDRESS", .help = "where it listens", .value = &address},
      {.name = "port", .value_name = "PORT", .help = "the port", .value = &port}};
  Echo echo;
  return service::run_daemon(
      {.program = "rdma_echo_daemon", .kind = "rdma-echo", .summary = "", .settings = settings},
      argc, argv, [&](service::Daemon& daemon) -> Result<void> {
        auto opened = echo.open(address, static_cast<std::uint16_t>(std::stoi(port)));
        if (opened) opened = echo.driver().attach(daemon.loop());
        daemon.on_status([&] { return echo.status(); });
        daemon.on_stop([&] { echo.driver().disconnect_all(daemon.loop().now()); },
                       [&] { return echo.driver().connection_count() == 0; });
        return opened;
      });
}

}  // namespace
}  // namespace verbatim::ulp::rdma

int main(int argc, char** argv) { return verbatim::ulp::rdma::run(argc, argv); }
