#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "base/bytes.h"
#include "base/error.h"
#include "base/os/unique_fd.h"
#include "ulp/ipoib/offload/offload_header.h"

namespace verbatim::ulp::ipoib {

/// Where an interface is to be.
struct InterfacePlace {
  std::string name = "ib0";
  /// A process in the namespace, by its number, or the namespace's file; empty: this one.
  std::string netns;
};

/// A TUN interface of type InfiniBand. It ends with its descriptor.
class Interface {
 public:
  /// Call it before the process has threads: a child makes the interface, in the namespace, and
  /// passes it here. EPERM, ENOENT, EEXIST in words that say what to do.
  static Result<Interface> create(const InterfacePlace& place);

  const std::string& name() const { return name_; }
  int index() const { return index_; }
  /// Readable while packets wait. Neither waits.
  int descriptor() const { return packets_.get(); }
  /// A packet of the kernel's; empty if there is none. An error: the interface has gone.
  Result<MutableByteSpan> read(OffloadHeader& header, MutableByteSpan into);
  /// False: the kernel takes no more, or it is down.
  bool write(const OffloadHeader& header, ByteSpan packet) { return write(header, {&packet, 1}); }
  static constexpr std::size_t kPartsMax = 128;
  bool write(const OffloadHeader& header, std::span<const ByteSpan> parts);

  /// From now on packets may be large ones, and have checksums that are only begun. False: this
  /// kernel has none of it.
  bool take_large_packets();
  Result<void> set_mtu(std::uint32_t bytes);
  Result<void> set_up();
  void set_carrier(bool has_carrier);

  /// Netlink sockets of the namespace: for questions, and with its changes. Taken once.
  UniqueFd take_questions() { return std::move(questions_); }
  UniqueFd take_changes() { return std::move(changes_); }

 private:
  std::string name_;
  int index_ = 0;
  UniqueFd packets_, questions_, changes_, control_;
};

}  // namespace verbatim::ulp::ipoib
