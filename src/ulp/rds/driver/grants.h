#pragma once

#include <cstdint>
#include <map>
#include <utility>

#include "ulp/rdma/device.h"
#include "ulp/rds/local/protocol.h"
#include "ulp/rds/outside.h"

namespace verbatim::ulp::rds {

/// Memory of programs that peers may use by its key (RDS_GET_MR, RDS_CMSG_RDMA_MAP). A program has
/// moved the pages into a file that it has in place of them; here they are mapped and registered.
/// What is granted is a socket's, and ends with it.
class Grants {
 public:
  static constexpr std::size_t kOfASocketMax = 1024;
  static constexpr std::uint64_t kBytesMax = kMessageBytesMax;

  /// The device outlives it.
  explicit Grants(const rdma::Device& device) : device_(device) {}
  /// EAGAIN: too many; EINVAL, EMSGSIZE; EBUSY: the file cannot be used.
  Result<RemoteMemory> add(SocketId socket, int file, const local::Grant& grant);
  bool has(SocketId socket, MemoryKey key) const { return grants_.contains({socket, key}); }
  /// RDS_FREE_MR. EINVAL
  Result<void> end(SocketId socket, MemoryKey key);
  /// A peer has said that it has used it.
  void on_used(SocketId socket, MemoryKey key);
  void end_all(SocketId socket);

 private:
  class Mapping {
   public:
    Mapping(void* memory, std::size_t bytes) : memory_(memory), bytes_(bytes) {}
    Mapping(Mapping&& other) noexcept
        : memory_(std::exchange(other.memory_, nullptr)), bytes_(other.bytes_) {}
    Mapping& operator=(Mapping&&) = delete;
    ~Mapping();
    std::byte* data() const { return static_cast<std::byte*>(memory_); }

   private:
    void* memory_;
    std::size_t bytes_;
  };
  struct Granted {
    Mapping mapping;  // Outlives the region.
    rdma::Region region;
    bool is_once = false;
  };
  const rdma::Device& device_;
  std::map<std::pair<SocketId, MemoryKey>, Granted> grants_;
};

}  // namespace verbatim::ulp::rds
