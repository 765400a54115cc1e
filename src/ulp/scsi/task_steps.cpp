#include <algorithm>
#include <cstring>

#include "base/overloaded.h"
#include "ulp/scsi/task_set.h"

/// What a task does when its pages, its data or the store's answer have come.
namespace verbatim::ulp::scsi {

using storage::Access;
using storage::StoreStatus;

namespace {

/// Of a WRITE SAME: pages that are lent at a time.
constexpr std::uint64_t kRepeatBytes = 64 << 10;

Answer miscompare(std::uint64_t at) {
  return refusal({SenseKey::miscompare, SenseCode::miscompare_during_verify, at, {}});
}

/// Returns the first byte in which the pages differ from `data`; its size if they are equal.
std::size_t first_difference(std::span<const Slice> pages, ByteSpan data) {
  std::size_t at = 0;
  for (const Slice& page : pages) {
    const std::size_t bytes = std::min<std::size_t>(page.bytes, data.size() - at);
    if (std::memcmp(page.data, data.data() + at, bytes) != 0) {
      const auto found =
          std::ranges::mismatch(std::span(page.data, bytes), data.subspan(at, bytes));
      return at + static_cast<std::size_t>(found.in2 - (data.begin() + static_cast<long>(at)));
    }
    at += bytes;
  }
  return data.size();
}

bool is_zero(ByteSpan data) {
  return data[0] == std::byte{0} && std::memcmp(data.data(), data.data() + 1, data.size() - 1) == 0;
}

/// Fills all pages with one block after the other, whatever the pages' sizes are.
void repeat(ByteSpan block, std::span<const Slice> pages) {
  std::size_t at = 0;
  for (const Slice& page : pages) {
    for (std::uint32_t done = 0; done < page.bytes;) {
      const std::size_t bytes = std::min<std::size_t>(page.bytes - done, block.size() - at);
      std::memcpy(page.data + done, block.data() + at, bytes);
      done += static_cast<std::uint32_t>(bytes);
      at = (at + bytes) % block.size();
    }
  }
}

ByteSpan bytes_in(const Slice& slice) { return {slice.data, slice.bytes}; }

}  // namespace

void TaskSet::borrow_of(storage::UnitId unit, Task& task, std::uint64_t offset, std::uint64_t bytes,
                        Access access, TaskOutput& out) {
  task.state = State::borrowing;
  out.store.push(
      storage::Borrow{tag_of(task), unit, offset, static_cast<std::uint32_t>(bytes), access});
}

void TaskSet::borrow(Task& task, std::uint64_t offset, std::uint64_t bytes, Access access,
                     TaskOutput& out) {
  borrow_of(task.unit->id(), task, offset, bytes, access, out);
}

void TaskSet::fetch(Task& task, std::uint64_t data_offset, std::span<const Slice> into,
                    TaskOutput& out) {
  task.state = State::fetching;
  out.actions.push(Fetch{tag_of(task), static_cast<std::uint32_t>(data_offset), into});
}

void TaskSet::fetch_part(Task& task, std::uint64_t data_offset, std::uint64_t bytes,
                         TaskOutput& out) {
  task.part = {task.memory->data, static_cast<std::uint32_t>(bytes), task.memory->local_key};
  fetch(task, data_offset, {&task.part, 1}, out);
}

/// Ends the loan, if there is one.
void TaskSet::put(Task& task, std::uint64_t offset, std::span<const Slice> from, bool to_stable,
                  TaskOutput& out) {
  task.state = State::storing;
  out.store.push(storage::Put{tag_of(task), task.unit->id(), offset, from, to_stable});
  task.pages = {};
}

void TaskSet::give_back(Task& task, TaskOutput& out) {
  if (!task.pages.empty()) out.store.push(storage::GiveBack{tag_of(task)});
  task.pages = {};
}

void TaskSet::clear_next(Task& task, TaskOutput& out) {
  const auto& step = std::get<ClearBlocks>(task.plan.step);
  for (; task.position < step.ranges.size(); ++task.position) {
    const ByteRange range = step.ranges[task.position];
    if (range.bytes == 0) continue;
    ++task.position;
    task.state = State::storing;
    out.store.push(storage::Clear{tag_of(task), task.unit->id(), range.offset, range.bytes,
                                  step.may_deallocate});
    return;
  }
  answer(task, {}, out);
}

void TaskSet::verify_next(Task& task, const VerifyBlocks& step, TaskOutput& out) {
  if (!step.compares && task.position == 0)
    return borrow(task, step.offset, step.bytes, Access::read, out);
  if (!step.compares || task.position == step.bytes) return answer(task, {}, out);
  const auto bytes = std::min<std::uint64_t>(step.bytes - task.position, LogicalUnit::kMemoryBytes);
  fetch_part(task, task.position, bytes, out);
}

void TaskSet::repeat_next(Task& task, const RepeatBlock& step, TaskOutput& out) {
  if (task.position == step.range.bytes) return answer(task, {}, out);
  const std::uint64_t bytes = std::min(step.range.bytes - task.position, kRepeatBytes);
  borrow(task, step.range.offset + task.position, bytes, Access::write, out);
}

void TaskSet::write_if_equal(Task& task, const CompareAndWrite& step, TaskOutput& out) {
  const ByteSpan expected = bytes_in(task.part).first(step.bytes);
  const std::size_t equal = first_difference(task.pages, expected);
  give_back(task, out);
  if (equal < step.bytes) return answer(task, miscompare(equal), out);
  task.part = {task.memory->data + step.bytes, step.bytes, task.memory->local_key};
  put(task, step.offset, {&task.part, 1}, step.to_stable, out);
}

/// By the task's memory: a task has one loan at a time, and pages belong to one unit's store.
void TaskSet::copy_next(Task& task, const CopyBlocks& step, TaskOutput& out) {
  if (task.position == step.bytes) return answer(task, {}, out);
  const auto bytes = std::min<std::uint64_t>(step.bytes - task.position, LogicalUnit::kMemoryBytes);
  borrow_of(step.from, task, step.from_offset + task.position, bytes, Access::read, out);
}

void TaskSet::with_pages(Task& task, TaskOutput& out) {
  std::visit(Overloaded{
                 [&](const ReadBlocks&) { answer(task, {}, out); },
                 [&](const WriteBlocks&) {
                   if (!task.was_put) return fetch(task, 0, task.pages, out);
                   give_back(task, out);
                   answer(task, {}, out);
                 },
                 [&](const VerifyBlocks& s) {
                   const std::size_t bytes = s.compares ? task.part.bytes : s.bytes;
                   const std::size_t equal =
                       s.compares ? first_difference(task.pages, bytes_in(task.part)) : bytes;
                   give_back(task, out);
                   if (equal < bytes) return answer(task, miscompare(task.position + equal), out);
                   task.position += bytes;
                   verify_next(task, s, out);
                 },
                 [&](const RepeatBlock& s) {
                   repeat(bytes_in(task.part), task.pages);
                   const std::uint64_t offset = s.range.offset + task.position;
                   task.position += ulp::bytes_of(task.pages);
                   put(task, offset, task.pages, false, out);
                 },
                 [&](const CompareAndWrite& s) { write_if_equal(task, s, out); },
                 [&](const CopyBlocks& s) {
                   task.part = {task.memory->data, 0, task.memory->local_key};
                   for (const Slice& page : task.pages) {
                     std::memcpy(task.part.data + task.part.bytes, page.data, page.bytes);
                     task.part.bytes += page.bytes;
                   }
                   give_back(task, out);
                   task.state = State::storing;
                   out.store.push(storage::Put{
                       tag_of(task), s.to, s.to_offset + task.position, {&task.part, 1}, false});
                 },
                 [](const auto&) {},
             },
             Step(task.plan.step));
}

void TaskSet::with_data(Task& task, TaskOutput& out) {
  std::visit(Overloaded{
                 [&](const WriteBlocks& s) { put(task, s.offset, task.pages, s.to_stable, out); },
                 [&](const VerifyBlocks& s) {
                   borrow(task, s.offset + task.position, task.part.bytes, Access::read, out);
                 },
                 [&](const RepeatBlock& s) {
                   if (!is_zero(bytes_in(task.part))) return repeat_next(task, s, out);
                   task.plan.step = ClearBlocks{Ranges(s.range), s.may_deallocate};
                   clear_next(task, out);
                 },
                 [&](const CompareAndWrite& s) {
                   task.has_lock = task.unit->lock({s.offset, s.bytes});
                   if (!task.has_lock) return answer(task, {Status::busy, {}, {}}, out);
                   borrow(task, s.offset, s.bytes, Access::read, out);
                 },
                 [&](const NeedsParameters&) {
                   task.plan = task.unit->with_parameters(command_of(task), bytes_in(task.part));
                   carry_out(task, out);
                 },
                 [](const auto&) {},
             },
             Step(task.plan.step));
}

void TaskSet::when_stored(Task& task, TaskOutput& out) {
  std::visit(Overloaded{
                 [&](const WriteBlocks& s) {
                   if (!s.verify_after) return answer(task, {}, out);
                   task.was_put = true;
                   borrow(task, s.offset, s.bytes, Access::read, out);
                 },
                 [&](const ClearBlocks&) { clear_next(task, out); },
                 [&](const RepeatBlock& s) { repeat_next(task, s, out); },
                 [&](const CopyBlocks& s) {
                   task.position += task.part.bytes;
                   copy_next(task, s, out);
                 },
                 [&](const auto&) { answer(task, {}, out); },
             },
             Step(task.plan.step));
}

void TaskSet::on_pages(Tag tag, StoreStatus status, std::span<const Slice> pages, TaskOutput& out) {
  Task* const task = tasks_.find(tag);
  if (task == nullptr || task->state != State::borrowing) return;
  if (status == StoreStatus::done) task->pages = pages;
  if (!ends_early(*task, out)) {
    if (status == StoreStatus::done)
      with_pages(*task, out);
    else
      answer(*task, LogicalUnit::outcome(task->plan.step, status), out);
  }
  settle(out);
}

void TaskSet::on_fetched(Tag tag, bool is_whole, TaskOutput& out) {
  Task* const task = tasks_.find(tag);
  if (task == nullptr || task->state != State::fetching) return;
  if (!ends_early(*task, out)) {
    if (is_whole)
      with_data(*task, out);
    else
      answer(*task, refusal({SenseKey::aborted_command, SenseCode::data_phase_error, {}, {}}), out);
  }
  settle(out);
}

void TaskSet::on_stored(Tag tag, StoreStatus status, TaskOutput& out) {
  Task* const task = tasks_.find(tag);
  if (task == nullptr || task->state != State::storing) return;
  if (!ends_early(*task, out)) {
    if (status == StoreStatus::done)
      when_stored(*task, out);
    else
      answer(*task, LogicalUnit::outcome(task->plan.step, status), out);
  }
  settle(out);
}

}  // namespace verbatim::ulp::scsi
