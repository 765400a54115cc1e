#pragma once

#include <cstring>
#include <deque>
#include <functional>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "base/overloaded.h"
#include "ulp/iscsi/connection.h"
#include "ulp/iscsi/sessions.h"
#include "ulp/scsi/text_for_test.h"
#include "ulp/storage/store_bench_for_test.h"

/// A target with one unit of 1,000 blocks, for tests: what a connection puts out is kept, and its
/// store answers when it is told to.
namespace verbatim::ulp::iscsi {

inline constexpr const char* kTargetName = "iqn.2026-01.test:t1";
inline constexpr const char* kInitiatorName = "iqn.2026-01.test:i1";

inline std::string text_of(std::initializer_list<std::string_view> keys) {
  std::string text;
  for (const std::string_view key : keys) text.append(key).push_back('\0');
  return text;
}
/// "a=b c=d"
inline std::string readable(ByteSpan bytes) {
  std::string text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  while (text.ends_with('\0')) text.pop_back();
  std::ranges::replace(text, '\0', ' ');
  return text;
}

class TargetBench {
 public:
  explicit TargetBench(Sessions::Limits limits = {.sessions = 4, .window = 8, .stashes = 8})
      : memory_(std::size_t{limits.sessions} * scsi::LogicalUnit::kMemoryBytes) {
    for (std::uint32_t i = 0; i < limits.sessions; ++i)
      pieces_.push_back({&memory_[std::size_t{i} * scsi::LogicalUnit::kMemoryBytes],
                         scsi::LogicalUnit::kMemoryBytes, MemoryKey{3}});
    sessions = std::make_unique<Sessions>(
        limits, pieces_, [](MutableByteSpan bytes) { std::ranges::fill(bytes, std::byte{0x2a}); });
    auto made = *Target::create(kTargetName);
    EXPECT_TRUE(made.add(0, unit));
    target = *sessions->add(std::move(made));
    target->admit_any();
  }
  static scsi::UnitSettings settings() {
    scsi::UnitSettings settings;
    settings.blocks = 1000;
    settings.can_unmap = true;
    settings.ports = {1};
    return settings;
  }

  scsi::LogicalUnit unit{storage::UnitId{7}, {}, settings()};
  std::unique_ptr<Sessions> sessions;
  Target* target = nullptr;
  std::vector<std::byte> disk = std::vector<std::byte>(1000 * 512);

 private:
  std::vector<std::byte> memory_;
  std::vector<Slice> pieces_;
};

}  // namespace verbatim::ulp::iscsi
