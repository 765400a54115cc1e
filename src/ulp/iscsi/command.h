#pragma once

#include <algorithm>
#include <bit>
#include <cstdint>
#include <cstring>
#include <span>
#include <vector>

#include "ulp/engine/work.h"

namespace verbatim::ulp::iscsi {

/// Keys of iSER's header: where the initiator's memory is.
struct RemoteBuffers {
  RemoteRange reads{};   // Data-In goes there.
  RemoteRange writes{};  // Data-Out that is not sent unasked lies there.
};

/// A place in slices that are filled one after the other.
class SliceCursor {
 public:
  SliceCursor() = default;
  explicit SliceCursor(std::span<const Slice> slices) : slices_(slices) {}
  bool is_at_end() const { return slices_.empty(); }
  /// Bytes in one piece from here on, at most `bytes`; none at the end.
  Slice next(std::uint32_t bytes) const {
    if (slices_.empty()) return {};
    const Slice& slice = slices_.front();
    return {slice.data + offset_, std::min(bytes, slice.bytes - offset_), slice.local_key};
  }
  void advance(std::uint32_t bytes) {
    offset_ += bytes;
    while (!slices_.empty() && offset_ >= slices_.front().bytes) {
      offset_ -= slices_.front().bytes;
      slices_ = slices_.subspan(1);
    }
  }
  void fill(ByteSpan bytes) {
    while (!bytes.empty() && !slices_.empty()) {
      const Slice to = next(static_cast<std::uint32_t>(bytes.size()));
      std::memcpy(to.data, bytes.data(), to.bytes);
      bytes = bytes.subspan(to.bytes);
      advance(to.bytes);
    }
  }

 private:
  std::span<const Slice> slices_;
  std::uint32_t offset_ = 0;
};

/// A SCSI command of a session, from its request to the end of its response.
struct Command {
  std::uint32_t task_tag = 0;
  std::uint32_t cmd_sn = 0;
  std::uint64_t lun = 0;
  std::uint32_t expected_bytes = 0;
  bool reads_data = false;
  RemoteBuffers buffers;
  Tag task{};  // Of the task set, as soon as it has said it.

  // What comes unasked: with the command, and in Data-Out PDUs.
  std::uint32_t unsolicited_bytes = 0;
  std::uint32_t unsolicited_have = 0;
  bool is_unsolicited_over = true;
  std::byte* stash = nullptr;

  // What the task set wants: bytes from `fetch_offset` to `fetch_end` of the initiator's data.
  bool is_fetching = false, is_moving = false;
  std::uint32_t fetch_offset = 0, fetch_end = 0;
  SliceCursor into;
  std::vector<Slice> parts;  // Of READs, WRITEs or Data-In: they stay until those are done.

  // iSCSI over TCP: Data-In or R2T PDUs that were sent; the R2T that is out.
  std::uint32_t sent_sn = 0, data_sn = 0, transfer_tag = 0, r2t_end = 0;

  Command* next = nullptr;  // Of `TaskTags`.
};

/// Commands that have no response yet, by the initiator's task tags. Initiators number them from
/// some place on, so few have the same low bits.
class TaskTags {
 public:
  explicit TaskTags(std::uint32_t commands) : first_(std::bit_ceil(commands)) {}

  /// Null: there is none.
  Command* find(std::uint32_t tag) const {
    Command* command = first_[place_of(tag)];
    while (command != nullptr && command->task_tag != tag) command = command->next;
    return command;
  }
  void add(Command& command) {
    Command*& first = first_[place_of(command.task_tag)];
    command.next = first;
    first = &command;
  }
  /// Requires that it was added.
  void remove(const Command& command) {
    Command** at = &first_[place_of(command.task_tag)];
    while (*at != &command) at = &(*at)->next;
    *at = command.next;
  }

 private:
  std::size_t place_of(std::uint32_t tag) const { return tag & (first_.size() - 1); }

  std::vector<Command*> first_;  // By the tag's low bits.
};

}  // namespace verbatim::ulp::iscsi
