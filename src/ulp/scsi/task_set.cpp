#include "ulp/scsi/task_set.h"

#include <algorithm>
#include <cstring>

#include "base/assert.h"
#include "base/overloaded.h"

namespace verbatim::ulp::scsi {

using storage::Access;

TaskSet::TaskSet(NexusId nexus, const Port& port, Units& units, std::uint16_t tasks,
                 std::span<const Slice> memory)
    : nexus_(nexus), port_(port), units_(units), tasks_(tasks) {
  VERBATIM_ASSERT(!memory.empty());
  for (const Slice& piece : memory) {
    VERBATIM_ASSERT(piece.bytes >= LogicalUnit::kMemoryBytes);
    free_memory_.push_back(&piece);
  }
  waiting_.reserve(tasks);
}

Command TaskSet::command_of(const Task& task) const {
  return {.nexus = nexus_,
          .port = &port_,
          .cdb = std::span(task.cdb).first(task.cdb_bytes),
          .luns = units_.luns(),
          .units = &units_,
          .data_out_bytes = task.data_out_bytes,
          .data_in_bytes = task.data_in_bytes};
}

bool TaskSet::begin(const Request& request, TaskOutput& out) {
  Task* const task = tasks_.take();
  if (task == nullptr) return false;
  task->request = request.tag;
  task->lun = request.lun;
  task->unit = units_.find(request.lun);
  if (task->unit != nullptr) task->begun = task->unit->on_begin(nexus_);
  // Longer ones are unknown commands anyway.
  task->cdb_bytes = static_cast<std::uint8_t>(std::min(request.cdb.size(), task->cdb.size()));
  std::memcpy(task->cdb.data(), request.cdb.data(), task->cdb_bytes);
  task->attribute = request.attribute;
  task->data_out_bytes = request.data_out_bytes;
  task->data_in_bytes = request.data_in_bytes;
  const bool is_head = request.attribute == TaskAttribute::head_of_queue;
  if ((is_head || waiting_.empty()) && can_start(*task)) {
    start(*task, out);
  } else {
    waiting_.insert(is_head ? waiting_.begin() : waiting_.end(), tag_of(*task));
  }
  return true;
}

bool TaskSet::needs_memory(const Task& task) const {
  return LogicalUnit::needs_memory(std::span(task.cdb).first(task.cdb_bytes));
}

/// An ordered task begins after all before it, and those behind it after it (SAM-5, 8.9).
bool TaskSet::can_start(const Task& task) const {
  if (free_memory_.empty() && needs_memory(task)) return false;
  if (task.attribute == TaskAttribute::head_of_queue) return true;
  return !runs_ordered_ && (task.attribute == TaskAttribute::simple || running_ == 0);
}

void TaskSet::start(Task& task, TaskOutput& out) {
  ++running_;
  if (task.attribute == TaskAttribute::ordered) runs_ordered_ = true;
  task.state = State::borrowing;  // Of what follows: it runs.
  if (ends_early(task, out)) return;
  if (needs_memory(task)) {
    task.memory = free_memory_.back();
    free_memory_.pop_back();
  }
  const MutableByteSpan reply = task.memory == nullptr
                                    ? MutableByteSpan()
                                    : MutableByteSpan(task.memory->data, task.memory->bytes);
  const Command command = command_of(task);
  task.plan =
      task.unit == nullptr ? plan_without_unit(command, reply) : task.unit->plan(command, reply);
  carry_out(task, out);
}

void TaskSet::carry_out(Task& task, TaskOutput& out) {
  // A copy: a step may put another one into its place.
  const Step step = task.plan.step;
  std::visit(Overloaded{
                 [&](const Answer& s) { answer(task, s, out); },
                 [&](const ReadBlocks& s) { borrow(task, s.offset, s.bytes, Access::read, out); },
                 [&](const WriteBlocks& s) { borrow(task, s.offset, s.bytes, Access::write, out); },
                 [&](const VerifyBlocks& s) { verify_next(task, s, out); },
                 [&](const SyncBlocks&) {
                   task.state = State::storing;
                   out.store.push(storage::Flush{tag_of(task), task.unit->id()});
                 },
                 [&](const ClearBlocks&) { clear_next(task, out); },
                 [&](const RepeatBlock& s) { fetch_part(task, 0, s.block_bytes, out); },
                 [&](const CompareAndWrite& s) { fetch_part(task, 0, 2ull * s.bytes, out); },
                 [&](const CopyBlocks& s) { copy_next(task, s, out); },
                 [&](const NeedsParameters& s) { fetch_part(task, 0, s.bytes, out); },
             },
             step);
}

/// Pages that are delivered stay lent until `on_done`.
void TaskSet::answer(Task& task, const Answer& answer, TaskOutput& out) {
  const Tag tag = tag_of(task);
  const bool delivers_pages = answer.status == Status::good && !task.pages.empty();
  if (!delivers_pages) give_back(task, out);
  no_longer_runs(task);
  task.status = answer.status;
  task.sense.clear();
  if (answer.sense) {
    const auto format = task.unit == nullptr ? SenseFormat::fixed : task.unit->sense_format();
    task.sense = encode(*answer.sense, format);
  }
  if (delivers_pages) {
    out.actions.push(Deliver{tag, task.pages});
  } else if (!answer.data.empty()) {
    task.part = {task.memory->data, static_cast<std::uint32_t>(answer.data.size()),
                 task.memory->local_key};
    out.actions.push(Deliver{tag, {&task.part, 1}});
  }
  out.actions.push(Respond{tag, task.request, task.status,
                           ByteSpan(task.sense.begin(), task.sense.size()), task.plan.residual});
}

/// The unit and the tasks that wait need not wait for this one any more.
void TaskSet::no_longer_runs(Task& task) {
  if (task.state == State::answering) return;
  if (task.state != State::waiting) {
    --running_;
    if (task.attribute == TaskAttribute::ordered) runs_ordered_ = false;
  }
  if (task.has_lock) {
    const auto& step = std::get<CompareAndWrite>(task.plan.step);
    task.unit->unlock({step.offset, step.bytes});
    task.has_lock = false;
  }
  if (task.unit != nullptr) task.unit->on_end(task.begun);
  task.state = State::answering;
}

void TaskSet::release(Task& task, TaskOutput& out) {
  give_back(task, out);
  no_longer_runs(task);
  if (task.memory != nullptr) free_memory_.push_back(task.memory);
  tasks_.give_back(task);
}

void TaskSet::drop(Task& task, TaskOutput& out) {
  if (!has_ended_) out.actions.push(Drop{tag_of(task), task.request});
  release(task, out);
}

/// For each input of a task: whether it was aborted, or the connection is over.
bool TaskSet::ends_early(Task& task, TaskOutput& out) {
  if (task.abort == Abort::no && task.unit != nullptr &&
      task.unit->is_condemned(nexus_, task.begun))
    task.abort = task.unit->settings().tells_aborted ? Abort::with_status : Abort::silently;
  if (!has_ended_ && task.abort == Abort::no) return false;
  if (has_ended_ || task.abort == Abort::silently) {
    drop(task, out);
  } else {
    task.plan.residual = {};
    answer(task, {Status::task_aborted, {}, {}}, out);
  }
  return true;
}

void TaskSet::on_done(Tag tag, TaskOutput& out) {
  Task* const task = tasks_.find(tag);
  if (task == nullptr || task->state != State::answering) return;
  release(*task, out);
  settle(out);
}

/// What an end makes possible: tasks that wait begin, management requests are answered.
void TaskSet::settle(TaskOutput& out) {
  if (must_sweep_) sweep(out);
  while (!has_ended_ && !waiting_.empty()) {
    Task* const task = tasks_.find(waiting_.front());
    VERBATIM_ASSERT(task != nullptr && task->state == State::waiting);
    if (!can_start(*task)) break;
    if (!out.has_room()) return static_cast<void>(out.more = true);
    waiting_.erase(waiting_.begin());
    start(*task, out);
  }
  if (!waits_.empty()) settle_waits(out);
}

void TaskSet::resume(TaskOutput& out) { settle(out); }

void TaskSet::on_end(TaskOutput& out) {
  has_ended_ = true;
  must_sweep_ = true;
  waiting_.clear();
  waits_.clear();
  settle(out);
}

}  // namespace verbatim::ulp::scsi
