#pragma once

#include <cstring>
#include <string>
#include <string_view>
#include <vector>

#include <gtest/gtest.h>

#include "ulp/scsi/task_set.h"
#include "ulp/scsi/text_for_test.h"

/// One initiator's commands, for tests: each input's output as text.
namespace verbatim::ulp::scsi {

inline UnitSettings task_settings() {
  UnitSettings settings;
  settings.blocks = 1000;
  settings.can_unmap = settings.can_unmap_by_write_same = true;
  settings.unmap_ranges_max = 4;
  settings.ports = {1};
  return settings;
}

/// Two initiators share one unit, 0.
class TaskTarget : public Units {
 public:
  LogicalUnit* find(Lun lun) override { return lun == 0 ? &unit : nullptr; }
  std::span<const Lun> luns() const override { return luns_; }

  LogicalUnit unit{storage::UnitId{7}, {}, task_settings()};

 private:
  std::vector<Lun> luns_ = {0};
};

class TaskBench {
 public:
  explicit TaskBench(TaskTarget& target, NexusId nexus = NexusId{0}, std::uint16_t tasks = 8)
      : tasks_(nexus, port_, target, tasks, pieces_) {
    target.unit.on_login(nexus, {.name = fmt::format("iqn.2026-01.test:{}", raw(nexus))});
  }

  std::string in(std::string_view cdb, std::uint32_t bytes, std::uint64_t request = 1) {
    return begin(cdb, 0, bytes, request, TaskAttribute::simple);
  }
  std::string out(std::string_view cdb, std::uint32_t bytes, std::uint64_t request = 1) {
    return begin(cdb, bytes, 0, request, TaskAttribute::simple);
  }
  std::string begin(std::string_view hex, std::uint32_t out, std::uint32_t in,
                    std::uint64_t request, TaskAttribute attribute, Lun lun = 0) {
    const auto cdb = bytes_of_hex(hex);
    if (!tasks_.begin({request, lun, cdb, attribute, out, in}, out_)) return "full";
    return printed();
  }
  std::string pages(storage::StoreStatus status = storage::StoreStatus::done) {
    return pages(tag, status);
  }
  std::string pages(Tag task, storage::StoreStatus status = storage::StoreStatus::done) {
    const bool lent = status == storage::StoreStatus::done;
    if (lent) lent_.data = disk.data() + offset_, lent_.bytes = bytes_;
    return tasks_.on_pages(task, status, {&lent_, lent ? 1u : 0u}, out_), printed();
  }
  /// `hex` is what the initiator sends.
  std::string fetched(std::string_view hex = "", bool whole = true) {
    const auto bytes = bytes_of_hex(hex);
    if (!bytes.empty()) std::memcpy(into_.data, bytes.data(), bytes.size());
    return tasks_.on_fetched(tag, whole, out_), printed();
  }
  std::string fetched(Tag task) { return tasks_.on_fetched(task, true, out_), printed(); }
  std::string stored(storage::StoreStatus status = storage::StoreStatus::done) {
    return tasks_.on_stored(tag, status, out_), printed();
  }
  std::string stored(Tag task) {
    return tasks_.on_stored(task, storage::StoreStatus::done, out_), printed();
  }
  std::string done() { return tasks_.on_done(tag, out_), printed(); }
  std::string done(Tag task) { return tasks_.on_done(task, out_), printed(); }
  std::string manage(Management what, std::uint64_t task = 0, Lun lun = 0) {
    return tasks_.manage(what, 99, lun, task, 0, out_), printed();
  }
  std::string time(TimeNs now) { return tasks_.on_time(now, out_), printed(); }
  std::string end() { return tasks_.on_end(out_), printed(); }
  TaskSet& tasks() { return tasks_; }

  Tag tag{};  // Of the last output that has one.
  std::vector<std::byte> disk = std::vector<std::byte>(1000 * 512);

 private:
  std::string printed() {
    std::vector<std::string> lines;
    for (const auto& request : out_.store)
      lines.push_back(std::visit([this](const auto& r) { return line(r); }, request));
    for (const auto& action : out_.actions)
      lines.push_back(std::visit([this](const auto& a) { return line(a); }, action));
    EXPECT_FALSE(out_.more);
    out_.clear();
    return fmt::format("{}", fmt::join(lines, ", "));
  }
  std::string line(const storage::Borrow& b) {
    tag = b.tag, offset_ = b.offset, bytes_ = b.bytes;
    return fmt::format("borrow +{} {}{}", b.offset, b.bytes,
                       b.access == storage::Access::write ? " to write" : "");
  }
  std::string line(const storage::Put& p) {
    tag = p.tag;
    std::size_t at = p.offset;
    for (const Slice& slice : p.from) {
      if (slice.data != disk.data() + at) std::memcpy(&disk[at], slice.data, slice.bytes);
      at += slice.bytes;
    }
    return fmt::format("put +{} {}{}", p.offset, ulp::bytes_of(p.from),
                       p.to_stable ? " stable" : "");
  }
  std::string line(const storage::GiveBack&) { return "give back"; }
  std::string line(const storage::Flush& f) { return tag = f.tag, "flush"; }
  std::string line(const storage::Clear& c) {
    tag = c.tag;
    return fmt::format("{} +{} {}", c.may_deallocate ? "unmap" : "zero", c.offset, c.bytes);
  }
  std::string line(const Fetch& f) {
    tag = f.task, into_ = f.into[0];
    return fmt::format("fetch {} from {}", ulp::bytes_of(f.into), f.data_offset);
  }
  std::string line(const Deliver& d) {
    return tag = d.task, fmt::format("deliver {}", ulp::bytes_of(d.from));
  }
  std::string line(const Respond& r) {
    tag = r.task;
    std::string text = fmt::format("respond {} {:02x}", r.request, raw(r.status));
    if (!r.sense.empty())
      text += fmt::format(" {:x}/{}", std::to_integer<unsigned>(r.sense[2]) & 0xf,
                          hex_of(r.sense.subspan(12, 2)));
    if (!r.sense.empty() && (r.sense[0] & std::byte{0x80}) != std::byte{0})
      text += fmt::format(" i{}", load_be<std::uint32_t>(&r.sense[3]));
    return text + scsi::text(r.residual);
  }
  std::string line(const Cancel&) { return "cancel"; }
  std::string line(const Drop& d) { return fmt::format("drop {}", d.request); }
  std::string line(const Managed& m) {
    constexpr const char* kNames[] = {"complete", "no task", "no unit", "rejected"};
    return fmt::format("managed {}", kNames[static_cast<std::size_t>(m.result)]);
  }

  Port port_{.device_name = "iqn.2026-01.test:t"};
  std::vector<std::byte> memory_ = std::vector<std::byte>(LogicalUnit::kMemoryBytes);
  std::vector<Slice> pieces_{{memory_.data(), LogicalUnit::kMemoryBytes, MemoryKey{3}}};
  Slice lent_{nullptr, 0, MemoryKey{1}};
  Slice into_;
  std::uint64_t offset_ = 0;
  std::uint32_t bytes_ = 0;
  TaskOutput out_;
  TaskSet tasks_;
};

}  // namespace verbatim::ulp::scsi
