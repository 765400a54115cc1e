#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>

#include "base/bytes.h"
#include "base/error.h"
#include "base/os/unique_fd.h"
#include "offload/card/packet_memory.h"
#include "offload/card/ring_end.h"
#include "offload/ring/function_layout.h"
#include "wire/net/ethernet/roce_frame.h"

namespace verbatim::offload {

/// The card's side of what it shares with one client of a function. Nothing that is read from the
/// shared memory is believed; what is wrong is counted, and is that client's fault alone.
class FunctionMember {
 public:
  /// `socket`: the client's, borrowed: it is woken by it. EINVAL: it wants nothing that there is.
  static Result<std::unique_ptr<FunctionMember>> create(int socket, const vnic_join& join);
  ~FunctionMember();
  FunctionMember(const FunctionMember&) = delete;
  FunctionMember& operator=(const FunctionMember&) = delete;

  int socket() const { return socket_; }
  int region_file() const { return file_.get(); }
  /// ENOSPC: it has registered enough; else as PacketMemory.
  Result<void> add_memory(const vnic_memory& piece, int file);
  bool was_cut() const { return memory_.was_cut(); }
  std::uint64_t faults() const { return faults_; }

  bool wants(const wire::FrameOwner& owner) const;
  /// `rest`: of the frame, behind its `head`. Returns false if no buffer was there, or it was too
  /// small (counted).
  bool deliver(ByteSpan head, ByteSpan rest);
  /// Takes the next frame that the client sends; `frame` is empty if it was none. It lies in the
  /// client's memory until `publish`, and the client may change it: nothing is decided by bytes
  /// that were not copied. Returns false if nothing has been posted.
  bool take(ByteSpan& frame);
  /// What was taken and delivered is the client's.
  void publish();

  void say_asleep(bool asleep);
  bool has_work() const { return send_.has_work(); }
  void say_link(bool is_up);
  /// Publishes, and wakes the client if frames were delivered and it sleeps.
  void wake();

 private:
  FunctionMember(int socket, const vnic_join& join, UniqueFd file, vnic_function_region* region);

  const int socket_;
  const vnic_join join_;
  const UniqueFd file_;
  vnic_function_region* const region_;
  RingEnd receive_;
  RingEnd send_;
  PacketMemory memory_;
  std::uint32_t pieces_ = 0;
  bool has_news_ = false;  // Since it was looked at whether the client sleeps.
  std::uint64_t faults_ = 0;
};

}  // namespace verbatim::offload
