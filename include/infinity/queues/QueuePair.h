#pragma once

#include <atomic>
#include <memory>

#include <infiniband/verbs.h>
#include <infinity/core/Context.h>
#include <infinity/memory/Atomic.h>
#include <infinity/memory/Buffer.h>
#include <infinity/memory/RegionToken.h>
#include <infinity/requests/RequestToken.h>
#include <stdint.h>

namespace infinity {
namespace detail {
struct Device;
class Manager;
struct Loopback;
class Meeting;
struct PeerAddress;
}  // namespace detail

namespace queues {

class OperationFlags {
 public:
  bool fenced;    ///< Starts after all earlier READs and atomics have completed.
  bool signaled;  ///< Implied by a request token.
  bool inlined;   ///< The bytes are copied at once, so the buffer may change afterwards. For few
                  ///< bytes.

  OperationFlags() : fenced(false), signaled(false), inlined(false) {}

  /// Returns the IBV_SEND_... flags.
  int ibvFlags();
};

/// A connection. Its calls post a request and return; the request's token tells when it has
/// completed. If the send queue is full, a call waits for room. Any thread may post requests.
///
/// Each call throws `infinity::utils::Error` if the request cannot be posted: bytes outside the
/// buffer or the token, too many elements, a size beyond the device's limit.
class QueuePair {
  friend class infinity::queues::QueuePairFactory;
  friend class infinity::core::Context;
  friend class infinity::detail::Meeting;
  friend struct infinity::detail::Loopback;

 public:
  QueuePair(infinity::core::Context* context);
  ~QueuePair();
  QueuePair(const QueuePair&) = delete;
  QueuePair& operator=(const QueuePair&) = delete;

 protected:
  /// Connects over an InfiniBand link, by LID.
  void activate(uint16_t remoteDeviceId, uint32_t remoteQueuePairNumber,
                uint32_t remoteSequenceNumber);
  void setRemoteUserData(void* userData, uint32_t userDataSize);

 public:
  /// The data that the peer gave when it connected or accepted; valid as long as the queue pair.
  bool hasUserData();
  uint32_t getUserDataSize();
  void* getUserData();

  uint16_t getLocalDeviceId();
  uint32_t getQueuePairNumber();
  uint32_t getSequenceNumber();

  void send(infinity::memory::Buffer* buffer,
            infinity::requests::RequestToken* requestToken = nullptr);
  void send(infinity::memory::Buffer* buffer, uint32_t sizeInBytes,
            infinity::requests::RequestToken* requestToken = nullptr);
  void send(infinity::memory::Buffer* buffer, uint64_t localOffset, uint32_t sizeInBytes,
            OperationFlags flags, infinity::requests::RequestToken* requestToken = nullptr);

  void write(infinity::memory::Buffer* buffer, infinity::memory::RegionToken* destination,
             infinity::requests::RequestToken* requestToken = nullptr);
  void write(infinity::memory::Buffer* buffer, infinity::memory::RegionToken* destination,
             uint32_t sizeInBytes, infinity::requests::RequestToken* requestToken = nullptr);
  void write(infinity::memory::Buffer* buffer, uint64_t localOffset,
             infinity::memory::RegionToken* destination, uint64_t remoteOffset,
             uint32_t sizeInBytes, OperationFlags flags,
             infinity::requests::RequestToken* requestToken = nullptr);

  void read(infinity::memory::Buffer* buffer, infinity::memory::RegionToken* source,
            infinity::requests::RequestToken* requestToken = nullptr);
  void read(infinity::memory::Buffer* buffer, infinity::memory::RegionToken* source,
            uint32_t sizeInBytes, infinity::requests::RequestToken* requestToken = nullptr);
  void read(infinity::memory::Buffer* buffer, uint64_t localOffset,
            infinity::memory::RegionToken* source, uint64_t remoteOffset, uint32_t sizeInBytes,
            OperationFlags flags, infinity::requests::RequestToken* requestToken = nullptr);

  /// Writes several buffers to one place. `sizesInBytes` and `localOffsets` may be NULL: whole
  /// buffers, from their starts.
  void multiWrite(infinity::memory::Buffer** buffers, uint32_t* sizesInBytes,
                  uint64_t* localOffsets, uint32_t numberOfElements,
                  infinity::memory::RegionToken* destination, uint64_t remoteOffset,
                  OperationFlags flags, infinity::requests::RequestToken* requestToken = nullptr);

  /// Not available over iWARP, whose SEND has no immediate data.
  void sendWithImmediate(infinity::memory::Buffer* buffer, uint64_t localOffset,
                         uint32_t sizeInBytes, uint32_t immediateValue, OperationFlags flags,
                         infinity::requests::RequestToken* requestToken = nullptr);
  void writeWithImmediate(infinity::memory::Buffer* buffer, uint64_t localOffset,
                          infinity::memory::RegionToken* destination, uint64_t remoteOffset,
                          uint32_t sizeInBytes, uint32_t immediateValue, OperationFlags flags,
                          infinity::requests::RequestToken* requestToken = nullptr);
  void multiWriteWithImmediate(infinity::memory::Buffer** buffers, uint32_t* sizesInBytes,
                               uint64_t* localOffsets, uint32_t numberOfElements,
                               infinity::memory::RegionToken* destination, uint64_t remoteOffset,
                               uint32_t immediateValue, OperationFlags flags,
                               infinity::requests::RequestToken* requestToken = nullptr);

  /// Changes an `Atomic` of the peer. The old value is stored in `previousValue`, or in the
  /// context's `defaultAtomic`.
  void compareAndSwap(infinity::memory::RegionToken* destination, uint64_t compare, uint64_t swap,
                      infinity::requests::RequestToken* requestToken = nullptr);
  void compareAndSwap(infinity::memory::RegionToken* destination,
                      infinity::memory::Atomic* previousValue, uint64_t compare, uint64_t swap,
                      OperationFlags flags,
                      infinity::requests::RequestToken* requestToken = nullptr);
  void fetchAndAdd(infinity::memory::RegionToken* destination, uint64_t add,
                   infinity::requests::RequestToken* requestToken = nullptr);
  void fetchAndAdd(infinity::memory::RegionToken* destination,
                   infinity::memory::Atomic* previousValue, uint64_t add, OperationFlags flags,
                   infinity::requests::RequestToken* requestToken = nullptr);

 protected:
  infinity::core::Context* const context;

  ibv_qp* ibvQueuePair;
  uint32_t sequenceNumber;

  void* userData;
  uint32_t userDataSize;

 private:
  struct Request;
  void create();
  void enroll(QueuePair* as);
  void activate(const detail::PeerAddress& peer);
  void writeElements(const Request& wanted, infinity::memory::Buffer** buffers,
                     const uint32_t* sizesInBytes, const uint64_t* localOffsets,
                     uint32_t numberOfElements);
  void transfer(const Request& wanted, infinity::memory::Buffer* buffer, uint64_t localOffset,
                uint64_t sizeInBytes);
  void atomic(const Request& wanted, infinity::memory::Atomic* previousValue);
  void post(const Request& wanted, ibv_sge* elements, uint32_t numberOfElements);
  void postWithRoom(const Request& wanted, ibv_send_wr* request);

  uint32_t sendRequests_ = 0;  // Granted by the device.
  uint32_t sendElements_ = 0;
  uint32_t inlineBytes_ = 0;
  std::atomic<uint32_t> unsignaled_;  // Requests since the last one that requested a completion.
  std::atomic<bool> isReported_;      // Its first failure was reported.
  std::unique_ptr<detail::Manager> manager_;  // Over iWARP: keeps the connection.
  std::unique_ptr<QueuePair> twin_;           // Over iWARP: the other end of a loopback.
};

}  // namespace queues
}  // namespace infinity
