#include <algorithm>

#include "ulp/scsi/task_set.h"

/// Task management (SAM-5, 7): which tasks end, and when that is said.
namespace verbatim::ulp::scsi {

namespace {

constexpr TimeNs kLookInterval = 1'000'000;

}  // namespace

void TaskSet::manage(Management what, std::uint64_t request, Lun lun, std::uint64_t task_tag,
                     TimeNs now, TaskOutput& out) {
  const auto say = [&](ManagementResult result) { out.actions.push(Managed{request, result}); };
  LogicalUnit* const unit = units_.find(lun);
  if (unit == nullptr) return say(ManagementResult::no_unit);
  if (waits_.full()) return say(ManagementResult::rejected);
  Wait wait{what, request, unit, kNoTag};
  tasks_.for_each([&](Task& task) {
    if (task.unit != unit || task.state == State::answering) return;
    if (what == Management::abort_task && task.request != task_tag) return;
    task.abort = Abort::silently;  // The initiator that asks waits for no status.
    wait.task = tag_of(task);
  });
  if (what == Management::abort_task && wait.task == kNoTag) return say(ManagementResult::no_task);
  if (what == Management::unit_reset) unit->reset(nexus_);
  if (what == Management::clear_task_set) unit->clear_tasks(nexus_);
  waits_.push(wait);
  look_at_ = now + kLookInterval;
  must_sweep_ = true;
  settle(out);
}

/// Ends aborted tasks that nothing is under way for; after the connection's end, all tasks but
/// those that the store still has.
void TaskSet::sweep(TaskOutput& out) {
  must_sweep_ = false;
  tasks_.for_each([&](Task& task) {
    const bool is_in_store = task.state == State::borrowing || task.state == State::storing;
    if (is_in_store || (!has_ended_ && task.abort == Abort::no)) return;
    if (!has_ended_ && (task.state == State::answering || task.is_cancelled)) return;
    if (!out.has_room()) {
      must_sweep_ = out.more = true;
      return;
    }
    if (!has_ended_ && task.state == State::fetching) {
      task.is_cancelled = true;
      out.actions.push(Cancel{tag_of(task)});
      return;
    }
    std::erase(waiting_, tag_of(task));
    drop(task, out);
  });
}

bool TaskSet::is_over(const Wait& wait) {
  if (must_sweep_) return false;
  switch (wait.what) {
    case Management::abort_task: {
      const Task* const task = tasks_.find(wait.task);
      return task == nullptr || task->state == State::answering;
    }
    case Management::abort_task_set: {
      bool ended = true;
      tasks_.for_each([&](Task& task) {
        if (task.unit == wait.unit && task.abort != Abort::no && task.state != State::answering)
          ended = false;
      });
      return ended;
    }
    case Management::clear_task_set:
    case Management::unit_reset:
      break;
  }
  return wait.unit->condemned() == 0;
}

void TaskSet::settle_waits(TaskOutput& out) {
  const auto left = waits_;
  waits_.clear();
  for (const Wait& wait : left) {
    if (!out.has_room()) out.more = true;
    if (out.has_room() && is_over(wait))
      out.actions.push(Managed{wait.request, ManagementResult::complete});
    else
      waits_.push(wait);
  }
}

void TaskSet::on_time(TimeNs now, TaskOutput& out) {
  if (now < look_at_ || waits_.empty()) return;
  look_at_ = now + kLookInterval;
  settle(out);
}

}  // namespace verbatim::ulp::scsi
