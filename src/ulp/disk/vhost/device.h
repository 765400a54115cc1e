#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <optional>
#include <string>

#include "base/os/unique_fd.h"
#include "ulp/disk/vhost/block.h"
#include "ulp/disk/vhost/guest_memory.h"
#include "ulp/disk/vhost/protocol.h"
#include "ulp/disk/vhost/ring.h"

namespace verbatim::ulp::disk::vhost {

/// What a device asks of whatever carries its messages and has the disk.
class Outside {
 public:
  /// Answered by `Device::on_answered`, at once or later.
  virtual void ask(Ask& ask) = 0;
  virtual Result<void> watch_kick(int fd) = 0;
  virtual void unwatch_kick(int fd) = 0;
  virtual void tell(const std::string& line) = 0;

 protected:
  ~Outside() = default;
};

/// A block device with one queue, for one frontend after the other. Requests are answered in the
/// order in which they were made: then the ring alone says what is not done, and a frontend whose
/// backend was killed has it done by the next one.
class Device final : public Ask::User {
 public:
  Device(const storage::DiskFacts& facts, Outside& outside) : facts_(facts), outside_(outside) {}

  /// Carries out a message, with the descriptors beside it. Returns the reply, if there is one. A
  /// refusal: the frontend breaks the rules, and is given up.
  Result<Bytes> on_message(const Message& message, std::span<UniqueFd> descriptors);
  void on_kick();
  void on_answered() override { has_answers_ = true; }
  /// Gives answers to the guest, and takes its requests.
  void pump();
  bool wants_pump() const { return has_answers_; }
  /// The reply to GET_VRING_BASE, which comes when all that was asked is answered. Until then no
  /// further message is taken.
  bool is_stopping() const { return is_stopping_; }
  std::optional<Bytes> take_late_reply();

  /// The frontend is gone. What it has asked for still ends at the disk.
  void forget_frontend();
  /// Nothing is under way: another frontend may come.
  bool is_idle() const { return jobs_.empty(); }

 private:
  Result<Bytes> carry_out(const Message& message, std::span<UniqueFd> descriptors);
  Result<void> set(const Message& message, std::span<UniqueFd> descriptors);
  Result<void> set_ring(const Message& message);
  Result<void> set_descriptor(Request request, std::uint64_t value,
                              std::span<UniqueFd> descriptors);
  Result<void> set_kick(UniqueFd fd);
  void begin_ring();
  void break_ring(const std::string& why);
  bool is_running() const {
    return ring_.has_begun() && is_enabled_ && !is_stopping_ && !is_broken_ && !!kick_;
  }
  Bytes config(const ConfigAccess& access) const;
  void take_requests();
  bool give_answers();

  const storage::DiskFacts& facts_;
  Outside& outside_;
  std::uint64_t features_ = 0, protocol_features_ = 0;
  GuestMemory memory_;
  Ring ring_;
  UniqueFd kick_, call_, error_;
  std::deque<Job> jobs_;     // In the order of the ring.
  std::uint64_t bytes_ = 0;  // Theirs.
  bool is_enabled_ = false, is_stopping_ = false, is_broken_ = false, is_started_ = false;
  bool has_frontend_ = false, has_answers_ = false;
};

}  // namespace verbatim::ulp::disk::vhost
