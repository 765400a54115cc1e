#pragma once

#include <cstdint>
#include <string>
#include <variant>
#include <vector>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "ulp/storage/initiator.h"

namespace verbatim::ulp::storage {

/// An initiator whose target is the test: each input's output as text. A protocol's bench has the
/// engine, and says what a message of it is.
class InitiatorBench {
 public:
  virtual ~InitiatorBench() = default;
  std::string ask(DiskRequest::Kind kind, std::uint64_t offset, std::uint32_t bytes) {
    const PeerMemory data{{memory_.data() + kScratchBytes, bytes, MemoryKey{1}}, MemoryKey{0x78}};
    const DiskRequest request{
        .kind = kind, .offset = offset, .bytes = bytes, .memory = data, .user = Tag{5}};
    EXPECT_TRUE(initiator().on_request(request, now, out_));
    return printed();
  }
  std::string on_time(TimeNs time) {
    now = time;
    initiator().on_time(now, out_);
    return printed();
  }

  TimeNs now = 0;

 protected:
  virtual Initiator& initiator() = 0;
  virtual std::string line(const Send& send) = 0;
  /// What an engine begins with: what it reads and writes for itself.
  PeerMemory scratch() { return {{memory_.data(), kScratchBytes, MemoryKey{1}}, MemoryKey{0x77}}; }
  std::string printed() {
    std::string text;
    const auto add = [&text](const std::string& one) { text += (text.empty() ? "" : ", ") + one; };
    for (const auto& one : out_.connect)
      add(fmt::format("connect {}", static_cast<unsigned>(one.channel)));
    for (const WorkList& list : out_.work) {
      for (const Work& work : list) {
        if (const auto* const send = std::get_if<Send>(&work)) add(line(*send));
        if (std::holds_alternative<Disconnect>(work))
          add(initiator().failure() == nullptr ? "end" : initiator().failure()->words);
      }
    }
    for (const DiskAnswer& one : out_.answers)
      add(fmt::format("answer {} error {}", raw(one.user), one.error));
    out_.clear();
    return text;
  }

  std::vector<std::byte> memory_ = std::vector<std::byte>(kScratchBytes + 65536);
  InitiatorOutput out_;
};

}  // namespace verbatim::ulp::storage
