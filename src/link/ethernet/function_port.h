#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "base/bytes.h"
#include "base/error.h"
#include "base/net/address.h"
#include "base/os/mutex.h"
#include "base/os/timer_fd.h"
#include "base/os/unique_fd.h"
#include "base/time.h"
#include "offload/ring/function_client.h"

namespace verbatim::link {

/// Which function of which card: "SOCKET/vf2", with the absolute path of the card's socket.
struct FunctionName {
  std::string socket;
  std::uint16_t function = 0;
};
/// EINVAL.
Result<FunctionName> parse_function(std::string_view text);

/// A program's way to a function that is rings of memory. Outlives the card: when that ends, frames
/// are lost, as with a cable that is out, until the next card is there.
class FunctionPort {
 public:
  using Wish = offload::FunctionClient::Wish;

  /// As FunctionClient::join.
  static Result<std::unique_ptr<FunctionPort>> open(const Wish& wish);

  MacAddress mac() const { return mac_; }
  std::uint32_t mtu() const { return mtu_; }
  bool link_is_up() const { return is_joined_.load(std::memory_order_relaxed); }

  /// Sends `count` frames. `write(i, room)` writes frame `i` and returns its size, which is not 0.
  /// Waits a moment where the ring is full; then the rest counts as lost: EAGAIN. ENETDOWN: there
  /// is no card. Any thread.
  template <typename Write>
  int send(std::size_t count, Write write) noexcept;

  /// Calls `on_frame(MutableByteSpan)` for what has come. One thread at a time.
  template <typename OnFrame>
  std::size_t receive(OnFrame on_frame);

  /// Readable when something has come, for a thread that has said that it sleeps.
  int descriptor() const { return events_.get(); }
  bool begin_sleep();

 private:
  explicit FunctionPort(const Wish& wish) : wish_(wish) {}
  Result<void> watch(int fd);
  void adopt(std::unique_ptr<offload::FunctionClient> client);
  /// Before frames are taken: whether there is a card still, or again. Requires no lock. What the
  /// card says to a sleeper is left to that one: who polls meanwhile would take it away.
  void keep_card();
  void rejoin();
  /// Requires the lock. An empty room: none was freed in time.
  MutableByteSpan room_in_time();

  const Wish wish_;
  UniqueFd events_;  // An epoll: of the card's socket, or of the timer.
  TimerFd again_;    // When a next card is looked for.
  MacAddress mac_{};
  std::uint32_t mtu_ = 0;
  std::atomic<bool> is_joined_{false};
  static constexpr std::uint32_t kIdleLooks = 1 << 14;
  std::uint32_t idle_looks_ = 0;  // The receiving thread's, as the next one.
  bool look_for_card_ = false;    // It may have ended.
  Mutex mutex_;  // Guards sending, and `client_`, which the receiving thread replaces.
  std::unique_ptr<offload::FunctionClient> client_;
};

template <typename Write>
int FunctionPort::send(std::size_t count, Write write) noexcept {
  mutex_.lock();
  int error = client_ == nullptr ? ENETDOWN : 0;
  for (std::size_t i = 0; i < count && error == 0; ++i) {
    const MutableByteSpan room = room_in_time();
    if (room.empty()) {
      error = EAGAIN;
    } else {
      client_->post(write(i, room));
    }
  }
  if (client_ != nullptr) client_->ring();
  mutex_.unlock();
  return error;
}

template <typename OnFrame>
std::size_t FunctionPort::receive(OnFrame on_frame) {
  keep_card();
  const std::size_t count = client_ == nullptr ? 0 : client_->receive(on_frame);
  // A thread that polls looks now and then whether there still is a card.
  if (count == 0 && ++idle_looks_ % kIdleLooks == 0) look_for_card_ = true;
  return count;
}

}  // namespace verbatim::link
