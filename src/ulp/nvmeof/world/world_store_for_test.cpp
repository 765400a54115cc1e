#include <algorithm>
#include <utility>

#include "base/overloaded.h"
#include "ulp/nvmeof/world/world_for_test.h"

/// The world's store, and how connections end.
namespace verbatim::ulp::nvmeof {

using storage::StoreStatus;

void World::answer_store() {
  if (asked_.empty()) return;
  if (options_.store_sleeps > 0 && random_.chance(options_.store_sleeps)) return;
  const std::size_t which = random_.below(asked_.size());
  Asked asked = std::move(asked_[which]);
  asked_.erase(asked_.begin() + static_cast<std::ptrdiff_t>(which));
  answer(std::move(asked));
}

void World::answer(Asked asked) {
  Connection& connection = *asked.connection;
  const bool fails = random_.chance(options_.store_error);
  if (const auto* const borrow = std::get_if<storage::Borrow>(&asked.request)) {
    if (!fails) return lend(connection, *borrow);
    connection.session->on_pages(borrow->tag, StoreStatus::medium_error, {}, now_, out_);
    return carry_out(connection);
  }
  const auto stored = [&](Tag tag) {
    connection.session->on_stored(tag, fails ? StoreStatus::medium_error : StoreStatus::done, now_,
                                  out_);
    carry_out(connection);
  };
  std::visit(Overloaded{[&](const storage::Put& put) {
                          auto at =
                              disk_of(put.unit).begin() + static_cast<std::ptrdiff_t>(put.offset);
                          for (const Slice& slice : put.from) {
                            if (!fails) std::copy_n(slice.data, slice.bytes, at);
                            at += slice.bytes;
                          }
                          loans_.erase({&connection, raw(put.tag)});
                          stored(put.tag);
                        },
                        [&](const storage::Flush& flush) { stored(flush.tag); },
                        [&](const storage::Clear& clear) {
                          auto& disk = disk_of(clear.unit);
                          if (clear.offset + clear.bytes > disk.size())
                            violation("beyond the disk");
                          std::fill_n(disk.begin() + static_cast<std::ptrdiff_t>(clear.offset),
                                      clear.bytes, std::byte{});
                          stored(clear.tag);
                        },
                        [](const auto&) {}},
             asked.request);
}

/// Buffers, in two pieces: what is read stands in them, what is written is put.
void World::lend(Connection& connection, const storage::Borrow& borrow) {
  Loan& loan = loans_[{&connection, raw(borrow.tag)}];
  if (!loan.slices.empty()) return violation("a tag has two loans");
  loan.bytes.resize(borrow.bytes);
  if (borrow.unit != kScratch) {
    auto& disk = disk_of(borrow.unit);
    if (borrow.offset + borrow.bytes > disk.size()) return violation("beyond the disk");
    std::copy_n(disk.begin() + static_cast<std::ptrdiff_t>(borrow.offset), borrow.bytes,
                loan.bytes.begin());
  }
  const std::uint32_t half = borrow.bytes / 2;
  loan.slices = {{loan.bytes.data(), half, MemoryKey{3}},
                 {loan.bytes.data() + half, borrow.bytes - half, MemoryKey{3}}};
  connection.session->on_pages(borrow.tag, StoreStatus::done, loan.slices, now_, out_);
  carry_out(connection);
}

void World::end_loan(const Connection& connection, Tag tag) {
  if (loans_.erase({&connection, raw(tag)}) == 0) violation("a loan is given back twice");
}

/// The connection is over: what is under way comes back, in order, and then the end.
void World::cut(Connection& connection) {
  if (connection.is_over) return;
  connection.is_over = true;
  if (connection.queue == 0) hosts_[connection.host].controller = 0;
  for (const Work& work : std::exchange(connection.works, {})) {
    const Tag tag = std::visit(Overloaded{[](const PostAgain&) { return kNoTag; },
                                          [](const Disconnect&) { return kNoTag; },
                                          [](const auto& one) { return one.done; }},
                               work);
    if (tag == kNoTag) continue;
    connection.session->on_done(tag, CompletionStatus::flushed, now_, out_);
    carry_out(connection);
  }
  connection.session->on_end(now_, out_);
  carry_out(connection);
  for (const storage::Session* const session : portal_.ends_with(*connection.session)) {
    for (const auto& other : connections_) {
      if (other->session.get() == session) cut(*other);
    }
  }
}

void World::bury() {
  std::erase_if(connections_, [this](const auto& one) {
    if (!one->is_over || !one->session->is_idle()) return false;
    const bool is_asked = std::ranges::any_of(
        asked_, [&](const Asked& asked) { return asked.connection == one.get(); });
    if (is_asked) violation("a session is idle while the store has requests of it");
    if (!one->kept.empty()) violation("receives are kept");
    portal_.on_gone(*one->session);
    return true;
  });
}

std::vector<std::string> World::finish() {
  // Hosts that say nothing lose their controllers; the others' connections end.
  for (Host& host : hosts_) host.is_gone = true;
  for (std::size_t i = 0; i < connections_.size(); ++i) {
    Connection& one = *connections_[i];
    while (!one.works.empty()) do_work(one);
    // First the time begins for one that has sent no Connect.
    for (int turn = 0; turn < 2 && !one.is_over && one.queue == 0; ++turn) {
      now_ += 200 * kSecond;
      one.session->on_time(now_, out_);
      carry_out(one);
      while (!one.works.empty()) do_work(one);
    }
    // A hostile host may say that it will be silent for a month.
    if (!one.is_over && one.queue == 0 && one.host != kHosts - 1)
      violation("a silent host is not disconnected");
  }
  for (const auto& one : connections_) cut(*one);
  while (!asked_.empty()) answer_store();
  bury();
  check_frozen();
  if (!connections_.empty()) violation("sessions are left");
  if (!loans_.empty()) violation("loans are left");
  if (!target_.controllers().empty()) violation("controllers are left");
  for (const auto& [at, pattern] : known_) {
    const auto bytes = std::span(disks_[0]).subspan(at, kSlotBytes);
    if (std::ranges::count(bytes, std::byte{pattern}) != kSlotBytes)
      violation("an acknowledged write is lost");
  }
  return violations_;
}

}  // namespace verbatim::ulp::nvmeof
