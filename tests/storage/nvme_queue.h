#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include <infiniband/verbs.h>
#include <rdma/rdma_cma.h>

#include "ulp/nvmeof/wire/connect.h"

/// A host's side of NVMe over Fabrics for tests, on the C interfaces: it waits in each call.
namespace verbatim::ulp::nvmeof {

/// What has gone wrong; the program ends with it.
[[noreturn]] void give_up(const std::string& what);

struct Where {
  std::string address;
  std::uint16_t port = 4420;
  std::string subsystem;
  std::string host;
  std::array<std::byte, 16> host_id{};
  std::uint32_t slot_bytes = 128 * 1024;  // Memory for the data of each command.
  std::uint8_t retries = 7;               // Fewer: it notices sooner that the target is gone.
};

/// A queue that is connected: one queue pair, and registered memory for the data of its commands.
class HostQueue {
 public:
  /// Null, and `why`: the target has refused.
  static std::unique_ptr<HostQueue> connect(const Where& where, std::uint16_t queue,
                                            std::uint32_t entries, std::uint16_t controller,
                                            std::string& why);
  ~HostQueue();

  std::uint16_t controller() const { return controller_; }
  std::span<std::byte> slot(std::uint32_t number) {
    return std::span(data_).subspan(std::size_t{number} * slot_bytes_, slot_bytes_);
  }
  /// Describes the first bytes of a slot for a command.
  DataDescriptor describe(std::uint32_t slot, std::uint32_t bytes);

  /// Sends a command, with `data` behind it.
  void send(ByteSpan command, ByteSpan data = {});
  /// The next response. Nothing: the connection is over.
  std::optional<Completion> next();
  /// Both, for commands that are sent one at a time.
  Completion ask(AdminCommand command);
  std::uint64_t get(Property property);
  void set(Property property, std::uint64_t value);

 private:
  HostQueue(std::uint32_t entries, std::uint32_t slot_bytes);
  bool open(const Where& where, std::uint16_t queue, std::string& why);
  void make_queue_pair();
  void post_receive(std::uint32_t number);
  bool say_connect(const Where& where, std::uint16_t queue, std::uint16_t controller,
                   std::string& why);

  const std::uint32_t entries_, slot_bytes_;
  rdma_event_channel* channel_ = nullptr;
  rdma_cm_id* id_ = nullptr;
  ibv_cq* completions_ = nullptr;
  std::vector<std::byte> data_, capsules_, responses_;
  ibv_mr *data_region_ = nullptr, *capsule_region_ = nullptr, *response_region_ = nullptr;
  std::vector<std::uint32_t> arrived_;
  std::uint32_t next_capsule_ = 0;
  std::uint16_t controller_ = 0;
};

}  // namespace verbatim::ulp::nvmeof
