#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <variant>
#include <vector>

#include "base/inplace_vector.h"
#include "base/time.h"
#include "ulp/engine/slots.h"
#include "ulp/scsi/logical_unit.h"
#include "ulp/storage/session.h"

/// The commands of one initiator, from their beginning to their response. SRP's and iSER's sessions
/// have one each, and do what it puts out:
///
///     read    begin -> borrow, pages -> deliver, respond, done -> give back
///     write   begin -> borrow, pages -> fetch, fetched -> put, stored -> respond, done
///     report  begin -> deliver, respond, done
namespace verbatim::ulp::scsi {

enum class TaskAttribute : std::uint8_t { simple, ordered, head_of_queue };

struct Request {
  std::uint64_t tag = 0;  // The initiator's name of the task.
  Lun lun = 0;
  ByteSpan cdb{};
  TaskAttribute attribute = TaskAttribute::simple;
  std::uint32_t data_out_bytes = 0;
  std::uint32_t data_in_bytes = 0;
};

// What the session does, in order. Slices and sense stay until the response's `on_done`, or, those
// of a `Fetch`, until `on_fetched`.

/// Move the initiator's data from `data_offset` on into all slices. Answered by `on_fetched`.
struct Fetch {
  Tag task{};
  std::uint32_t data_offset = 0;
  std::span<const Slice> into{};
};
/// Move all slices to the start of the initiator's room. `Respond` follows.
struct Deliver {
  Tag task{};
  std::span<const Slice> from{};
};
/// Answered by `on_done`, when the response and what was delivered before it have left.
struct Respond {
  Tag task{};
  std::uint64_t request = 0;
  Status status = Status::good;
  ByteSpan sense{};
  Residual residual{};
};
/// The task was aborted while its `Fetch` is under way. `on_fetched` still follows, as soon as no
/// byte is moved any more.
struct Cancel {
  Tag task{};
};
/// The task is over without a response, and its tag with it.
struct Drop {
  Tag task{};
  std::uint64_t request = 0;
};

enum class Management : std::uint8_t { abort_task, abort_task_set, clear_task_set, unit_reset };
enum class ManagementResult : std::uint8_t { complete, no_task, no_unit, rejected };
/// Comes when no task that was to end changes the unit any more.
struct Managed {
  std::uint64_t request = 0;
  ManagementResult result{};
};
using Action = std::variant<Fetch, Deliver, Respond, Cancel, Drop, Managed>;

/// What one input causes. The session carries out `store` and `actions`, each in order, and calls
/// `resume` while `more` is set.
struct TaskOutput {
  InplaceVector<storage::StoreRequest, 64> store;
  InplaceVector<Action, 64> actions;
  bool more = false;

  void clear() { store.clear(), actions.clear(), more = false; }
  bool has_room() const {
    return store.size() + 8 <= store.capacity() && actions.size() + 8 <= actions.capacity();
  }
};

class TaskSet {
 public:
  /// `memory`: registered pieces of `LogicalUnit::kMemoryBytes` for parameters; commands that need
  /// one wait until one is free. All references outlive the task set.
  TaskSet(NexusId nexus, const Port& port, Units& units, std::uint16_t tasks,
          std::span<const Slice> memory);

  /// Returns false if all tasks are taken: the session answers TASK SET FULL.
  bool begin(const Request& request, TaskOutput& out);
  void on_pages(Tag task, storage::StoreStatus status, std::span<const Slice> pages,
                TaskOutput& out);
  void on_stored(Tag task, storage::StoreStatus status, TaskOutput& out);
  void on_fetched(Tag task, bool is_whole, TaskOutput& out);
  void on_done(Tag task, TaskOutput& out);

  /// `task`: for `abort_task`. Always ends with one `Managed`, at once or later.
  void manage(Management what, std::uint64_t request, Lun lun, std::uint64_t task, TimeNs now,
              TaskOutput& out);
  /// While a reset waits for other initiators' tasks, they are looked at once a millisecond.
  void on_time(TimeNs now, TaskOutput& out);
  TimeNs deadline() const { return waits_.empty() ? kNever : look_at_; }
  void resume(TaskOutput& out);

  /// The connection is over, and all its work has come back. Only the store's answers follow.
  void on_end(TaskOutput& out);
  bool is_idle() const { return has_ended_ && tasks_.size() == 0; }
  std::uint32_t size() const { return tasks_.size(); }
  /// The initiator's name of a task that is not over.
  std::optional<std::uint64_t> request_of(Tag task) {
    const Task* const found = tasks_.find(task);
    return found == nullptr ? std::nullopt : std::optional(found->request);
  }

 private:
  enum class State : std::uint8_t { waiting, borrowing, fetching, storing, answering };
  enum class Abort : std::uint8_t { no, silently, with_status };
  struct Task {
    std::uint64_t request = 0;
    Lun lun = 0;
    LogicalUnit* unit = nullptr;
    LogicalUnit::Begun begun{};
    std::array<std::byte, Cdb::kBytesMax> cdb{};
    std::uint8_t cdb_bytes = 0;
    TaskAttribute attribute{};
    State state = State::waiting;
    Abort abort = Abort::no;
    bool is_cancelled = false, has_lock = false, was_put = false;
    Status status{};
    std::uint32_t data_out_bytes = 0, data_in_bytes = 0;
    Plan plan{};
    std::span<const Slice> pages;   // Lent.
    const Slice* memory = nullptr;  // A piece, taken.
    Slice part;                     // Of the piece: what is moved now.
    std::uint64_t position = 0;     // What is done of the range, or of the ranges.
    SenseBytes sense;
  };
  /// A management request that waits for tasks to end.
  struct Wait {
    Management what{};
    std::uint64_t request = 0;
    LogicalUnit* unit = nullptr;
    Tag task{};
  };

  // Beginning and end (task_set.cpp).
  bool needs_memory(const Task& task) const;
  bool can_start(const Task& task) const;
  void start(Task& task, TaskOutput& out);
  void carry_out(Task& task, TaskOutput& out);
  void answer(Task& task, const Answer& answer, TaskOutput& out);
  void no_longer_runs(Task& task);
  void release(Task& task, TaskOutput& out);
  void drop(Task& task, TaskOutput& out);
  bool ends_early(Task& task, TaskOutput& out);
  void settle(TaskOutput& out);
  Command command_of(const Task& task) const;
  Tag tag_of(const Task& task) const { return tasks_.tag_of(task); }

  // Management (task_management.cpp).
  void sweep(TaskOutput& out);
  bool is_over(const Wait& wait);
  void settle_waits(TaskOutput& out);

  // Steps (task_steps.cpp).
  void borrow(Task& task, std::uint64_t offset, std::uint64_t bytes, storage::Access access,
              TaskOutput& out);
  void borrow_of(storage::UnitId unit, Task& task, std::uint64_t offset, std::uint64_t bytes,
                 storage::Access access, TaskOutput& out);
  void copy_next(Task& task, const CopyBlocks& step, TaskOutput& out);
  void fetch(Task& task, std::uint64_t data_offset, std::span<const Slice> into, TaskOutput& out);
  void fetch_part(Task& task, std::uint64_t data_offset, std::uint64_t bytes, TaskOutput& out);
  void put(Task& task, std::uint64_t offset, std::span<const Slice> from, bool to_stable,
           TaskOutput& out);
  void give_back(Task& task, TaskOutput& out);
  void clear_next(Task& task, TaskOutput& out);
  void verify_next(Task& task, const VerifyBlocks& step, TaskOutput& out);
  void repeat_next(Task& task, const RepeatBlock& step, TaskOutput& out);
  void with_pages(Task& task, TaskOutput& out);
  void with_data(Task& task, TaskOutput& out);
  void when_stored(Task& task, TaskOutput& out);
  void write_if_equal(Task& task, const CompareAndWrite& step, TaskOutput& out);

  const NexusId nexus_;
  const Port& port_;
  Units& units_;
  Slots<Task> tasks_;
  std::vector<const Slice*> free_memory_;
  std::vector<Tag> waiting_;  // In the order in which they start.
  std::uint32_t running_ = 0;
  bool runs_ordered_ = false;
  bool must_sweep_ = false;
  bool has_ended_ = false;
  InplaceVector<Wait, 8> waits_;
  TimeNs look_at_ = kNever;
};

}  // namespace verbatim::ulp::scsi
