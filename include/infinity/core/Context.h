#pragma once

#include <memory>
#include <unordered_map>

#include <infiniband/verbs.h>
#include <stdint.h>
#include <stdlib.h>

namespace infinity {
namespace memory {
class Atomic;
class Buffer;
class Region;
class RegisteredMemory;
}  // namespace memory
namespace queues {
class QueuePair;
class QueuePairFactory;
}  // namespace queues
namespace requests {
class RequestToken;
}
namespace detail {
struct Device;
}

namespace core {

/// A message that has arrived. `buffer` belongs to the program again; NULL if the peer wrote with
/// an immediate value, for such a message uses no buffer. `queuePair` is NULL if it has been
/// deleted.
typedef struct {
  infinity::memory::Buffer* buffer;
  uint32_t bytesWritten;
  uint32_t immediateValue;
  bool immediateValueValid;
  infinity::queues::QueuePair* queuePair;
} receive_element_t;

/// A device, a protection domain, and the queues that all its queue pairs share. Thread-safe. It
/// must outlive the objects that are made from it.
class Context {
  friend class infinity::memory::Region;
  friend class infinity::memory::Buffer;
  friend class infinity::memory::Atomic;
  friend class infinity::memory::RegisteredMemory;
  friend class infinity::queues::QueuePair;
  friend class infinity::queues::QueuePairFactory;
  friend class infinity::requests::RequestToken;

 public:
  /// Opens the device with that index, as ibv_get_device_list counts. Throws `Error` if there is
  /// none.
  Context(uint16_t device = 0, uint16_t devicePort = 1);
  ~Context();
  Context(const Context&) = delete;
  Context& operator=(const Context&) = delete;

  /// Returns true if a message has arrived; never waits. If a receive failed (the message is longer
  /// than the buffer, or its connection ended), its buffer is posted again and a line is written to
  /// standard error.
  bool receive(receive_element_t* receiveElement);
  bool receive(infinity::memory::Buffer** buffer, uint32_t* bytesWritten, uint32_t* immediateValue,
               bool* immediateValueValid, infinity::queues::QueuePair** queuePair = nullptr);

  /// Posts the buffer for the next message of any queue pair. Throws `Error` if the shared receive
  /// queue is full (Configuration::SHARED_RECV_QUEUE_LENGTH).
  void postReceiveBuffer(infinity::memory::Buffer* buffer);

  infinity::requests::RequestToken* defaultRequestToken;
  infinity::memory::Atomic* defaultAtomic;

 protected:
  ibv_context* getInfiniBandContext();
  uint16_t getLocalDeviceId();
  uint16_t getDevicePort();
  ibv_pd* getProtectionDomain();

  /// Takes one completion of a request; returns false if there was none.
  bool pollSendCompletionQueue();
  ibv_cq* getSendCompletionQueue();
  ibv_cq* getReceiveCompletionQueue();
  ibv_srq* getSharedReceiveQueue();

  ibv_context* ibvContext;
  ibv_pd* ibvProtectionDomain;
  ibv_device* ibvDevice;
  uint16_t ibvLocalDeviceId;
  uint16_t ibvDevicePort;
  ibv_cq* ibvSendCompletionQueue;
  ibv_cq* ibvReceiveCompletionQueue;
  ibv_srq* ibvSharedReceiveQueue;

  void registerQueuePair(infinity::queues::QueuePair* queuePair);
  std::unordered_map<uint32_t, infinity::queues::QueuePair*> queuePairMap;

 private:
  void enroll(uint32_t number, infinity::queues::QueuePair* queuePair);
  void forget(infinity::queues::QueuePair* queuePair);
  infinity::queues::QueuePair* find(uint32_t number);
  void report(const ibv_wc& completion);
  bool isIwarp();

  std::unique_ptr<detail::Device> device_;
};

}  // namespace core
}  // namespace infinity
