#pragma once

#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "sim/random.h"
#include "ulp/srp/bench_for_test.h"
#include "ulp/srp/initiator/initiator.h"

/// Our initiator and our target, joined by a connection that keeps its order, in virtual time.
namespace verbatim::ulp::srp {

/// One connection of both. Each `step` carries one thing further; what is done when is the
/// caller's choice.
class Pair {
 public:
  static constexpr MemoryKey kKey{7};  // Of all that the initiator lends.
  static constexpr storage::Channel kChannel{};

  explicit Pair(TargetBench& target, InitiatorSettings settings = usual())
      : target_(target), scratch_(storage::kScratchBytes) {
    initiator = std::make_unique<Initiator>(settings, memory_of(scratch_));
    initiator->begin(now, out_);
    const auto& request = out_.connect[0];
    Meeting meeting{.reads = {.initiator = 4, .responder = 0}};
    if (settings.form == LoginForm::rdma_cm) meeting.own = SocketAddress::ipv4({10, 0, 0, 1}, 4242);
    meeting.private_data = request.private_data;
    auto verdict = Service(*target.ports).on_meeting(meeting, now);
    out_.clear();
    if (auto* const refused = std::get_if<Rejection>(&verdict)) {
      const PrivateData& data = refused->private_data;
      rejected = initiator->on_rejected(kChannel, 28, {data.begin(), data.size()});
      return;
    }
    auto& accept = std::get<storage::Accept>(verdict);
    session_ = std::move(accept.session);
    store_ = std::make_unique<storage::StoreBench>(target.disk, *session_, 1500);
    const PrivateData& data = accept.private_data;
    initiator->on_established(kChannel, {data.begin(), data.size()}, now, out_);
    take_initiators();
  }
  ~Pair() { cut(); }
  Pair(const Pair&) = delete;
  Pair& operator=(const Pair&) = delete;

  static InitiatorSettings usual() { return {.initiator = port_id(3), .target = port_id(2)}; }
  static storage::PeerMemory memory_of(std::vector<std::byte>& memory) {
    return {{memory.data(), static_cast<std::uint32_t>(memory.size()), kKey}, kKey};
  }

  bool request(const storage::DiskRequest& wanted) {
    const bool taken = initiator->on_request(wanted, now, out_);
    take_initiators();
    return taken;
  }
  /// Of what can be carried further: by number. False: that is not.
  enum class Part : std::uint8_t { to_target, targets_work, to_initiator, store };
  bool step(Part part, std::uint64_t choice = 0) {
    switch (part) {
      case Part::to_target:
        return take_message();
      case Part::targets_work:
        return do_work();
      case Part::to_initiator:
        return take_response();
      case Part::store:
        if (store_ == nullptr || store_->waiting.empty()) return false;
        store_->answer(choice % store_->waiting.size(), now, target_out_);
        take_targets();
        return true;
    }
    return false;
  }
  /// Until nothing more happens. A store that is `deaf` answers nothing.
  void settle(bool is_deaf = false) {
    while (step(Part::to_target) || step(Part::targets_work) || step(Part::to_initiator) ||
           (!is_deaf && step(Part::store))) {
    }
  }
  void pass(TimeNs time) {
    now += time;
    if (initiator->deadline() > now) return;
    initiator->on_time(now, out_);
    take_initiators();
  }
  /// The connection is over: the target's work and loans come back.
  void cut() {
    if (session_ == nullptr) return;
    while (!work_.empty()) {
      const Tag tag = done_of(work_.front().work);
      work_.pop_front();
      if (tag == kNoTag) continue;
      session_->on_done(tag, CompletionStatus::flushed, now, target_out_);
      target_out_.work.clear();
      take_targets();
    }
    session_->on_end(now, target_out_);
    take_targets();
    work_.clear();
    while (!store_->waiting.empty()) {
      store_->answer(0, now, target_out_);
      take_targets();
    }
    EXPECT_TRUE(session_->is_idle());
    EXPECT_EQ(store_->loans(), 0u);
    EXPECT_EQ(session_->take_refusal(), "");
    session_.reset();
  }

  std::unique_ptr<Initiator> initiator;
  std::optional<storage::Failure> rejected;
  std::vector<storage::DiskAnswer> answers;  // All that have come.
  std::string initiators_end, targets_end;   // Reasons of `Disconnect`.
  bool has_ended = false;
  TimeNs now = 0;
  std::vector<std::string> sent;  // First bytes of the initiator's messages, as hexadecimal digits.

 private:
  struct Sent {
    std::vector<std::byte> bytes;
    Tag done{};
  };
  struct Job {
    Work work;
    std::vector<std::byte> header;
  };

  static Tag done_of(const Work& work) {
    return std::visit(
        Overloaded{[](const Send& one) { return one.done; },
                   [](const Read& one) { return one.done; },
                   [](const Write& one) { return one.done; }, [](const auto&) { return kNoTag; }},
        work);
  }
  void take_initiators() {
    for (;;) {
      for (const Work& work : out_.on(kChannel)) {
        if (const auto* const end = std::get_if<Disconnect>(&work)) {
          initiators_end = end->reason;
          has_ended = true;
          break;
        }
        const auto& send = std::get<Send>(work);
        Sent& made = to_target_.emplace_back();
        made.bytes.assign(send.header.begin(), send.header.end());
        for (const Slice& slice : send.payload)
          made.bytes.insert(made.bytes.end(), slice.data, slice.data + slice.bytes);
        made.done = send.done;
        std::string text;
        for (const std::size_t i : {0, 5, 32})
          text += fmt::format("{:02x}",
                              i < made.bytes.size() ? std::to_integer<unsigned>(made.bytes[i]) : 0);
        sent.push_back(text);
      }
      for (const auto& answer : out_.answers) answers.push_back(answer);
      const bool more = out_.more;
      out_.clear();
      if (!more) return;
      initiator->resume(now, out_);
    }
  }
  void take_targets() {
    for (;;) {
      for (const auto& request : target_out_.store) store_->take(request);
      for (const Work& work : target_out_.work) {
        Job& job = work_.emplace_back(work, std::vector<std::byte>{});
        if (const auto* const send = std::get_if<Send>(&work))
          job.header.assign(send->header.begin(), send->header.end());
      }
      const bool more = target_out_.more;
      target_out_.clear();
      if (!more) return;
      session_->resume(now, target_out_);
    }
  }
  bool take_message() {
    if (to_target_.empty() || session_ == nullptr) return false;
    Sent message = std::move(to_target_.front());
    to_target_.pop_front();
    if (message.done != kNoTag) {
      initiator->on_done(kChannel, message.done, CompletionStatus::success, now, out_);
      take_initiators();
    }
    auto& kept = receives_.emplace_back(std::move(message.bytes));
    session_->on_message({.receive = ReceiveId{static_cast<std::uint32_t>(receives_.size())},
                          .memory = {kept.data(), static_cast<std::uint32_t>(kept.size()), {}}},
                         now, target_out_);
    take_targets();
    return true;
  }
  bool do_work() {
    if (work_.empty()) return false;
    Job job = std::move(work_.front());
    work_.pop_front();
    std::visit(Overloaded{[&](const Send&) { to_initiator_.push_back(std::move(job.header)); },
                          [&](const Write& write) {
                            std::byte* at = peer_memory(write.to);
                            for (const Slice& slice : write.from) {
                              std::memcpy(at, slice.data, slice.bytes);
                              at += slice.bytes;
                            }
                          },
                          [&](const Read& read) {
                            const std::byte* at = peer_memory(read.from);
                            for (const Slice& slice : read.into) {
                              std::memcpy(slice.data, at, slice.bytes);
                              at += slice.bytes;
                            }
                          },
                          [](const PostAgain&) {},
                          [&](const Disconnect& end) {
                            targets_end = end.reason;
                            has_ended = true;
                          }},
               job.work);
    if (const Tag tag = done_of(job.work); tag != kNoTag) {
      session_->on_done(tag, CompletionStatus::success, now, target_out_);
      take_targets();
    }
    return true;
  }
  static std::byte* peer_memory(const RemoteRange& range) {
    EXPECT_EQ(range.remote_key, kKey);
    return reinterpret_cast<std::byte*>(range.address);
  }
  bool take_response() {
    if (to_initiator_.empty()) return false;
    std::vector<std::byte> bytes = std::move(to_initiator_.front());
    to_initiator_.pop_front();
    initiator->on_message(kChannel,
                          {.memory = {bytes.data(), static_cast<std::uint32_t>(bytes.size()), {}}},
                          now, out_);
    take_initiators();
    return true;
  }

  TargetBench& target_;
  std::vector<std::byte> scratch_;
  std::unique_ptr<storage::Session> session_;
  std::unique_ptr<storage::StoreBench> store_;
  storage::InitiatorOutput out_;
  storage::Output target_out_;
  std::deque<Sent> to_target_;
  std::deque<Job> work_;
  std::deque<std::vector<std::byte>> to_initiator_, receives_;
};

}  // namespace verbatim::ulp::srp
