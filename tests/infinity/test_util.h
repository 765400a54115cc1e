#pragma once

#include <cstring>
#include <memory>
#include <stdexcept>
#include <string>
#include <string_view>
#include <thread>

#include <infinity/infinity.h>
#include <netinet/in.h>
#include <sys/socket.h>

/// Helpers of the tests of Infinity's interface.
namespace kit {

using infinity::core::Context;
using infinity::core::receive_element_t;
using infinity::memory::Atomic;
using infinity::memory::Buffer;
using infinity::memory::RegionToken;
using infinity::memory::RegisteredMemory;
using infinity::queues::OperationFlags;
using infinity::queues::QueuePair;
using infinity::queues::QueuePairFactory;
using infinity::requests::RequestToken;
using infinity::utils::Error;

bool is_iwarp();

/// Returns an address of this node.
const char* own_address();

/// A factory that listens at a free port.
class Listening : public QueuePairFactory {
 public:
  explicit Listening(Context& of) : QueuePairFactory(&of) { bindToPort(0); }
  uint16_t port() const;
};

/// Two contexts of this process, each with a queue pair, connected.
struct Pair {
  explicit Pair(std::string_view data_of_a = {}, std::string_view data_of_b = {});

  Context context_a;
  Context context_b;
  QueuePairFactory factory{&context_a};
  Listening listening{context_b};
  std::unique_ptr<QueuePair> a;
  std::unique_ptr<QueuePair> b;
};

/// Memory of each side of a Pair, and the token of b's.
struct Connected : Pair {
  static constexpr uint64_t kBytes = 8192;
  Buffer here{&context_a, kBytes};
  Buffer there{&context_b, kBytes};
  std::unique_ptr<RegionToken> token{there.createRegionToken()};
  RequestToken request{&context_a};
};

inline void put(Buffer& buffer, std::string_view text, uint64_t offset = 0) {
  std::memcpy(static_cast<char*>(buffer.getData()) + offset, text.data(), text.size());
}
inline std::string text(Buffer& buffer, size_t size, uint64_t offset = 0) {
  return {static_cast<char*>(buffer.getData()) + offset, size};
}

/// Waits for the request; returns true if it succeeded.
bool done(RequestToken& request);

/// Returns the context's next message; throws after some seconds.
receive_element_t next_message(Context& context);

/// Returns the text of the error that the call throws; empty if it throws none.
template <class Call>
std::string error_of(Call&& call) {
  try {
    call();
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

}  // namespace kit
