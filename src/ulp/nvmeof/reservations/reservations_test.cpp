#include "ulp/nvmeof/reservations/reservations.h"

#include <string>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "base/types.h"

/// Three hosts and one namespace: each line is a command of one, and what comes of it.
namespace verbatim::ulp::nvmeof {
namespace {

HostId host(unsigned number) { return {std::byte(number)}; }

class Bench {
 public:
  /// "0x0", and what others are told.
  std::string enroll(unsigned who, std::uint64_t old_key, std::uint64_t new_key,
                     RegisterAction action = RegisterAction::enroll,
                     Persistence persistence = Persistence::as_it_is, bool ignores_key = false) {
    return change(who, {.opcode = Opcode::reservation_register,
                        .action = raw(action),
                        .ignores_key = ignores_key,
                        .persistence = persistence,
                        .key = old_key,
                        .second_key = new_key});
  }
  std::string acquire(unsigned who, std::uint64_t key, unsigned type,
                      AcquireAction action = AcquireAction::acquire, std::uint64_t other = 0) {
    return change(who, {.opcode = Opcode::reservation_acquire,
                        .action = raw(action),
                        .type = ReservationType(type),
                        .key = key,
                        .second_key = other});
  }
  std::string preempt(unsigned who, std::uint64_t key, unsigned type, std::uint64_t other) {
    return acquire(who, key, type, AcquireAction::preempt, other);
  }
  std::string release(unsigned who, std::uint64_t key, unsigned type,
                      ReleaseAction action = ReleaseAction::release) {
    return change(who, {.opcode = Opcode::reservation_release,
                        .action = raw(action),
                        .type = ReservationType(type),
                        .key = key});
  }
  std::string change(unsigned who, const ReservationChange& change) {
    std::vector<ReservationNotice> notices;
    std::string text = fmt::format("{:#x}", raw(all.change(host(who), change, notices)));
    for (const auto& [id, event] : notices)
      text += fmt::format(" {}:{}", std::to_integer<int>(id[0]), raw(event));
    return text;
  }
  /// "type 1: 1=11*, 2=22": the holders have a star.
  std::string state() const {
    const ReservationReport report = all.report();
    std::string text = fmt::format("{} type {}:", report.generation, raw(report.type));
    for (const auto& entry : report.entries)
      text += fmt::format(" {}={}{}", std::to_integer<int>(entry.host[0]), entry.key,
                          entry.holds ? "*" : "");
    return text;
  }
  /// Who may read and write: "rw", "r-", "--", for hosts 1 to 3.
  std::string access() const {
    std::string text;
    for (unsigned who = 1; who <= 3; ++who) {
      text += all.conflicts(host(who), Opcode::read) ? '-' : 'r';
      text += all.conflicts(host(who), Opcode::write) ? '-' : 'w';
      text += ' ';
      EXPECT_EQ(all.conflicts(host(who), Opcode::flush), all.conflicts(host(who), Opcode::write));
      EXPECT_FALSE(all.conflicts(host(who), Opcode::reservation_report));
    }
    return text;
  }
  void enroll_two() { enroll(1, 0, 11), enroll(2, 0, 22); }

  Reservations all;
};

TEST(NvmeReservations, HostsRegisterReplaceAndWithdraw) {
  Bench b;
  EXPECT_EQ(b.enroll(1, 0, 11), "0x0");
  EXPECT_EQ(b.enroll(1, 0, 11), "0x0") << "the same key again";
  EXPECT_EQ(b.enroll(1, 11, 12), "0x83") << "another one is a replacement";
  EXPECT_EQ(b.enroll(1, 10, 12, RegisterAction::replace), "0x83");
  EXPECT_EQ(b.enroll(1, 11, 12, RegisterAction::replace), "0x0");
  EXPECT_EQ(b.enroll(1, 0, 13, RegisterAction::replace, Persistence::as_it_is, true), "0x0");
  EXPECT_EQ(b.enroll(2, 0, 13, RegisterAction::replace, Persistence::as_it_is, true), "0x83");
  EXPECT_EQ(b.state(), "4 type 0: 1=13");
  EXPECT_EQ(b.enroll(1, 12, 0, RegisterAction::withdraw), "0x83");
  EXPECT_EQ(b.enroll(1, 13, 0, RegisterAction::withdraw), "0x0");
  EXPECT_EQ(b.enroll(1, 0, 0, RegisterAction{3}), "0x1");
  EXPECT_EQ(b.state(), "5 type 0:");
}

/// Figure 396: host 1 holds it, host 2 is registered, host 3 is not.
TEST(NvmeReservations, TypesSayWhoMayReadAndWrite) {
  constexpr const char* kAccess[] = {"rw rw rw ",  // None.
                                     "rw r- r- ",  // Write exclusive.
                                     "rw -- -- ",  // Exclusive access.
                                     "rw rw r- ",  // ... registrants only.
                                     "rw rw -- ",  //
                                     "rw rw r- ",  // ... all registrants.
                                     "rw rw -- "};
  for (unsigned type = 1; type <= 6; ++type) {
    Bench b;
    b.enroll_two();
    EXPECT_EQ(b.access(), kAccess[0]);
    EXPECT_EQ(b.acquire(3, 33, type), "0x83") << "not registered";
    EXPECT_EQ(b.acquire(1, 22, type), "0x83") << "another's key";
    EXPECT_EQ(b.acquire(1, 11, type), "0x0");
    EXPECT_EQ(b.access(), kAccess[type]) << type;
    EXPECT_EQ(b.acquire(1, 11, type), "0x0") << "it has it";
    EXPECT_EQ(b.acquire(1, 11, type % 6 + 1), "0x83") << "of another type";
    EXPECT_EQ(b.acquire(2, 22, type), type >= 5 ? "0x0" : "0x83");
    EXPECT_EQ(b.release(2, 22, type), type >= 5 ? "0x0 1:2" : "0x0");
    if (type >= 5) continue;
    EXPECT_EQ(b.release(1, 11, type % 6 + 1), "0x83") << "of another type";
    EXPECT_EQ(b.release(1, 11, type), type >= 3 ? "0x0 2:2" : "0x0");
    EXPECT_EQ(b.access(), kAccess[0]);
  }
  Bench b;
  b.enroll_two();
  EXPECT_EQ(b.acquire(1, 11, 0), "0x2");
  EXPECT_EQ(b.acquire(1, 11, 7), "0x2");
}

TEST(NvmeReservations, AWithdrawalEndsWhatTheHostAloneHolds) {
  for (unsigned type = 1; type <= 6; ++type) {
    Bench b;
    b.enroll_two();
    b.acquire(1, 11, type);
    const bool is_told = type == 3 || type == 4;
    EXPECT_EQ(b.enroll(1, 11, 0, RegisterAction::withdraw), is_told ? "0x0 2:2" : "0x0");
    EXPECT_EQ(b.state(), type >= 5 ? fmt::format("3 type {}: 2=22*", type) : "3 type 0: 2=22");
    EXPECT_EQ(b.enroll(2, 22, 0, RegisterAction::withdraw), "0x0");
    EXPECT_EQ(b.state(), "4 type 0:") << "with the last registrant";
  }
}

TEST(NvmeReservations, WhoRemovesTheHolderTakesOver) {
  Bench b;
  b.enroll_two();
  b.enroll(3, 0, 33);
  b.acquire(1, 11, 1);
  EXPECT_EQ(b.preempt(2, 22, 1, 11), "0x0 1:1");
  EXPECT_EQ(b.state(), "4 type 1: 2=22* 3=33");
  EXPECT_EQ(b.preempt(3, 33, 3, 22), "0x0 2:1") << "nobody is left to tell of the new type";
  EXPECT_EQ(b.state(), "5 type 3: 3=33*");
}

TEST(NvmeReservations, OthersAreRemovedByTheirKeys) {
  Bench b;
  b.enroll_two();
  b.enroll(3, 0, 22);
  EXPECT_EQ(b.preempt(1, 11, 1, 99), "0x83") << "nobody's key";
  b.acquire(1, 11, 1);
  EXPECT_EQ(b.preempt(1, 11, 1, 99), "0x83");
  EXPECT_EQ(b.preempt(1, 11, 1, 0), "0x2");
  EXPECT_EQ(b.preempt(1, 11, 1, 22), "0x0 3:1 2:1") << "the holder removes hosts, too";
  EXPECT_EQ(b.state(), "4 type 1: 1=11*");
  b.enroll(2, 0, 22);
  EXPECT_EQ(b.preempt(1, 11, 3, 11), "0x0 2:2") << "it changes the type";
  EXPECT_EQ(b.state(), "6 type 3: 1=11* 2=22");
  EXPECT_EQ(b.preempt(2, 22, 3, 22), "0x0") << "its own registration";
  EXPECT_EQ(b.state(), "7 type 3: 1=11*");
}

TEST(NvmeReservations, AKeyOfZeroNamesAllOthersIfAllHoldIt) {
  Bench b;
  b.enroll_two();
  b.enroll(3, 0, 33);
  b.acquire(1, 11, 6);
  EXPECT_EQ(b.preempt(2, 22, 1, 0), "0x0 3:1 1:1");
  EXPECT_EQ(b.state(), "4 type 1: 2=22*");
}

TEST(NvmeReservations, ClearRemovesAll) {
  Bench b;
  b.enroll_two();
  b.acquire(1, 11, 2);
  EXPECT_EQ(b.release(2, 22, 0, ReleaseAction::clear), "0x0 1:3");
  EXPECT_EQ(b.state(), "3 type 0:");
  EXPECT_EQ(b.release(2, 22, 0, ReleaseAction::clear), "0x83");
}

TEST(NvmeReservations, RegistrantsAreBounded) {
  Bench b;
  for (unsigned i = 0; i < Reservations::kRegistrantsMax; ++i) {
    std::vector<ReservationNotice> notices;
    const HostId id{std::byte(i), std::byte(i >> 8), std::byte{7}};
    EXPECT_EQ(b.all.change(id, {.opcode = Opcode::reservation_register, .second_key = 5}, notices),
              Status::success);
  }
  EXPECT_EQ(b.enroll(1, 0, 11), "0x6");
}

struct Kept {
  int writes = 0, ends = 0;
  std::size_t registrants = 0;
};
class CountingKeeper final : public Reservations::Keeper {
 public:
  explicit CountingKeeper(Kept& kept) : kept_(kept) {}
  bool keep(const Reservations::State* state) override {
    if (state == nullptr) return ++kept_.ends, true;
    kept_.registrants = state->registrants.size();
    return ++kept_.writes, true;
  }

 private:
  Kept& kept_;
};

TEST(NvmeReservations, AreKeptWhenAHostHasAskedSo) {
  Bench b;
  EXPECT_EQ(b.enroll(1, 0, 11, RegisterAction::enroll, Persistence::lasts), "0x2") << "nowhere";
  Kept kept;
  b.all.use(std::make_unique<CountingKeeper>(kept));
  b.enroll(1, 0, 11);
  EXPECT_EQ(kept.writes, 0);
  b.enroll(2, 0, 22, RegisterAction::enroll, Persistence::lasts);
  EXPECT_TRUE(b.all.lasts());
  EXPECT_EQ(kept.registrants, 2u);
  const int before = kept.writes;
  b.acquire(1, 11, 1);
  EXPECT_EQ(kept.writes, before + 1);
  b.enroll(2, 22, 0, RegisterAction::withdraw, Persistence::ends);
  EXPECT_EQ(kept.ends, 1);
  EXPECT_FALSE(b.all.lasts());
}

TEST(NvmeReservations, ABarrierWaitsForWhatBeganBefore) {
  Reservations all;
  EXPECT_TRUE(all.is_past(all.barrier())) << "nothing is under way";
  const auto first = all.begin_write(), second = all.begin_write();
  const auto barrier = all.barrier();
  const auto later = all.begin_write();
  const auto next = all.barrier();
  EXPECT_FALSE(all.end_write(second));
  EXPECT_FALSE(all.end_write(later));
  EXPECT_FALSE(all.is_past(barrier));
  EXPECT_TRUE(all.end_write(first));
  EXPECT_TRUE(all.is_past(barrier));
  EXPECT_TRUE(all.is_past(next)) << "its writes ended before";
  EXPECT_TRUE(all.is_past(all.barrier()));
}

}  // namespace
}  // namespace verbatim::ulp::nvmeof
