#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "base/os/unique_fd.h"
#include "ulp/sockets/source.h"

namespace verbatim::rspreload {

/// Carries bytes, ends and resets between a stream and the owner's end of its shadow. It neither
/// waits nor locks.
class Relay {
 public:
  /// `stream`: an rsocket's number, which the relay closes at last.
  Relay(int stream, std::shared_ptr<ulp::sockets::Source> source, UniqueFd shadow);
  ~Relay();
  Relay(const Relay&) = delete;

  /// Moves what can be moved. Returns true if something was.
  bool turn();
  /// What `turn` waits for at the stream, as poll's events.
  short awaited() const;
  /// Nothing will be moved any more: the connection has been reset, or everybody has closed it.
  bool is_over() const { return is_over_; }
  ulp::sockets::Source& source() { return *source_; }
  const ulp::sockets::Source& source() const { return *source_; }
  int shadow() const { return shadow_.get(); }

 private:
  bool to_programs();
  bool to_peer();
  bool end_with_programs();
  bool reset();

  const int stream_;
  const std::shared_ptr<ulp::sockets::Source> source_;
  UniqueFd shadow_;
  std::vector<std::byte> coming_;  // From the stream, from `begin_` to `end_`.
  std::size_t begin_ = 0;
  std::size_t end_ = 0;
  std::vector<std::byte> going_;
  bool peer_has_ended_ = false;
  bool programs_have_ended_ = false;
  bool wants_room_ = false;  // At the stream.
  bool is_over_ = false;
};

}  // namespace verbatim::rspreload
