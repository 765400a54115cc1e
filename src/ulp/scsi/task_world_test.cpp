#include <cstring>
#include <map>
#include <memory>

#include <gtest/gtest.h>

#include "sim/random.h"
#include "ulp/scsi/task_set.h"
#include "ulp/scsi/text_for_test.h"

/// Several initiators at one unit, by seed: any commands, a store that answers late, in any order
/// and with errors, transfers that fail, aborts, resets, connections that end.
namespace verbatim::ulp::scsi {
namespace {

using storage::StoreStatus;

using sim::Random;

constexpr std::uint32_t kBlocks = 64, kBlock = 512;
constexpr std::uint16_t kTasks = 12;

UnitSettings settings() {
  UnitSettings settings;
  settings.blocks = kBlocks;
  settings.has_write_cache = settings.can_unmap = settings.can_unmap_by_write_same = true;
  settings.unmap_ranges_max = 4;
  settings.ports = {1, 2};
  return settings;
}

struct World;

/// One initiator, its connection, and what it must see: each task ends once, and no later than its
/// management request says.
struct Initiator {
  Initiator(World& world, NexusId nexus);

  struct Moving {  // Fetches, and responses that are not yet done.
    Tag tag{};
    bool is_response = false;
    std::vector<Slice> into;
  };

  void take(TaskOutput& out);
  void act(const Fetch& fetch);
  void act(const Deliver& deliver);
  void act(const Respond& respond);
  void act(const Cancel&) {}
  void act(const Drop& drop);
  void act(const Managed& managed);

  World& world;
  NexusId nexus;
  Port port{.device_name = "iqn.2026-01.test:t"};
  std::vector<std::byte> memory = std::vector<std::byte>(2 * LogicalUnit::kMemoryBytes);
  std::vector<Slice> pieces{
      {memory.data(), LogicalUnit::kMemoryBytes, {}},
      {memory.data() + LogicalUnit::kMemoryBytes, LogicalUnit::kMemoryBytes, {}}};
  std::map<std::uint64_t, std::uint32_t> open;  // Requests without an end, and their data-in.
  std::vector<std::uint64_t> managing;
  std::vector<Moving> moving;
  std::uint32_t delivered = 0;
  std::unique_ptr<TaskSet> tasks;
  bool has_ended = false;
};

struct World : Units {
  explicit World(std::uint64_t seed) : random(seed) {
    for (std::uint32_t i = 0; i < 3; ++i)
      initiators.push_back(std::make_unique<Initiator>(*this, NexusId{i}));
  }
  LogicalUnit* find(Lun lun) override { return lun == 0 ? &unit : nullptr; }
  std::span<const Lun> luns() const override { return luns_; }

  struct Asked {
    Initiator* by = nullptr;
    storage::StoreRequest request;
  };
  void run(int steps);
  void step();
  void send(Initiator& initiator);
  void manage(Initiator& initiator);
  void answer_store();
  void move(Initiator& initiator);
  void drain();
  std::vector<std::byte> command();

  Random random;
  LogicalUnit unit{storage::UnitId{7}, {}, settings()};
  std::vector<std::unique_ptr<Initiator>> initiators;
  std::vector<std::byte> disk = std::vector<std::byte>(kBlocks * kBlock);
  std::vector<Asked> asked;
  std::map<std::pair<Initiator*, Tag>, std::unique_ptr<Slice>> loans;
  std::uint64_t last_request = 0, answered = 0, dropped = 0, managed = 0, good = 0;
  TimeNs now = 0;

 private:
  std::vector<Lun> luns_ = {0};
};

Initiator::Initiator(World& w, NexusId n) : world(w), nexus(n) {
  tasks = std::make_unique<TaskSet>(nexus, port, world, kTasks, pieces);
  world.unit.on_login(nexus, {.name = fmt::format("iqn.2026-01.test:{}", raw(nexus))});
}

void Initiator::take(TaskOutput& out) {
  do {
    for (const auto& request : out.store) {
      if (const auto* back = std::get_if<storage::GiveBack>(&request)) {
        ASSERT_EQ(world.loans.erase({this, back->tag}), 1u) << "a loan that is none";
      } else {
        world.asked.push_back({this, request});
      }
      if (const auto* put = std::get_if<storage::Put>(&request)) {
        std::size_t at = put->offset;
        for (const Slice& slice : put->from) {
          ASSERT_LE(at + slice.bytes, world.disk.size());
          std::memmove(&world.disk[at], slice.data, slice.bytes);
          at += slice.bytes;
        }
        world.loans.erase({this, put->tag});
      }
    }
    for (const auto& action : out.actions) std::visit([this](const auto& a) { act(a); }, action);
    const bool more = out.more;
    out.clear();
    if (!more) return;
    tasks->resume(out);
  } while (true);
}

void Initiator::act(const Fetch& fetch) {
  moving.push_back({fetch.task, false, {fetch.into.begin(), fetch.into.end()}});
}
void Initiator::act(const Deliver& deliver) {
  delivered = static_cast<std::uint32_t>(ulp::bytes_of(deliver.from));
  for (const Slice& slice : deliver.from) ASSERT_NE(slice.data, nullptr);
}
void Initiator::act(const Respond& respond) {
  const auto found = open.find(respond.request);
  ASSERT_NE(found, open.end()) << "answered twice, or never asked: " << respond.request;
  ASSERT_LE(delivered, found->second) << "more data than the initiator has room for";
  ASSERT_EQ(respond.sense.empty(), respond.status != Status::check_condition);
  if (respond.status == Status::good) {
    ++world.good;
    // What was delivered and what is said to be left are all that was described.
    ASSERT_EQ(delivered - std::min<std::int64_t>(respond.residual.in, 0), found->second);
  } else {
    ASSERT_EQ(delivered, 0u);
  }
  delivered = 0;
  ++world.answered;
  open.erase(found);
  moving.push_back({respond.task, true, {}});
}
void Initiator::act(const Drop& drop) {
  ASSERT_EQ(open.erase(drop.request), 1u);
  ++world.dropped;
}
void Initiator::act(const Managed& managed) {
  ASSERT_EQ(std::erase(managing, managed.request), 1u);
  ++world.managed;
}

/// Half of them are right, the rest is anything.
std::vector<std::byte> World::command() {
  static constexpr std::string_view kCommands[] = {
      "280000000000000004000000",     "2a0000000000000004000000",     "2a0800000000000003000000",
      "2e0000000000000002000000",     "2f0200000000000014000000",     "2f0000000000000004000000",
      "350000000000000000000000",     "420000000000000018000000",     "410000000000000009000000",
      "120000002400000000000000",     "1a003f00ff00000000000000",     "a00000000000000010000000",
      "000000000000000000000000",     "8900000000000000000000000001", "160000000000000000000000",
      "170000000000000000000000",     "5e0000000000000064000000",     "5f0000000000000018000000",
      "8300000000000000000000000064",
  };
  std::vector<std::byte> cdb = bytes_of_hex(kCommands[random.below(std::size(kCommands))]);
  cdb.resize(16);
  const auto block = static_cast<std::byte>(random.below(kBlocks + 2));
  if (cdb[0] == std::byte{0x89})
    cdb[9] = block;
  else if (cdb[0] >= std::byte{0x28} && cdb[0] < std::byte{0x42})
    cdb[5] = block;
  if ((random.below(8) == 0)) cdb[random.below(16)] = static_cast<std::byte>(random.next());
  if ((random.below(16) == 0))
    for (std::byte& byte : cdb) byte = static_cast<std::byte>(random.next());
  return cdb;
}

void World::send(Initiator& initiator) {
  const auto cdb = command();
  constexpr std::uint32_t kSizes[] = {0, 24, 100, 512, 1024, 2048, 10240};
  Request request{.tag = ++last_request, .lun = (random.below(20) == 0) ? 1u : 0u, .cdb = cdb};
  request.attribute = static_cast<TaskAttribute>((random.below(4) == 0) ? random.below(3) : 0);
  request.data_out_bytes = kSizes[random.below(std::size(kSizes))];
  request.data_in_bytes = (random.below(2) == 0) ? 0 : kSizes[random.below(std::size(kSizes))];
  initiator.open[request.tag] = request.data_in_bytes;
  TaskOutput out;
  if (!initiator.tasks->begin(request, out)) {
    ASSERT_EQ(initiator.tasks->size(), kTasks);
    initiator.open.erase(request.tag);
  }
  initiator.take(out);
}

void World::manage(Initiator& initiator) {
  TaskOutput out;
  std::uint64_t task = 0;
  if (!initiator.open.empty()) {
    auto found = initiator.open.begin();
    std::advance(found, static_cast<long>(random.below(initiator.open.size())));
    task = found->first;
  }
  const auto what =
      (random.below(3) == 0) ? static_cast<Management>(random.below(4)) : Management::abort_task;
  initiator.managing.push_back(++last_request);
  initiator.tasks->manage(what, last_request, 0, task, now, out);
  initiator.take(out);
}

void World::answer_store() {
  if (asked.empty()) return;
  const std::size_t which = random.below(asked.size());
  const Asked answer = asked[which];
  asked.erase(asked.begin() + static_cast<long>(which));
  const auto status = (random.below(20) == 0) ? StoreStatus::medium_error : StoreStatus::done;
  TaskOutput out;
  if (const auto* borrow = std::get_if<storage::Borrow>(&answer.request)) {
    ASSERT_LE(borrow->offset + borrow->bytes, disk.size());
    auto slice = std::make_unique<Slice>(Slice{&disk[borrow->offset], borrow->bytes, {}});
    std::span<const Slice> pages;
    if (status == StoreStatus::done) {
      const auto [loan, fresh] = loans.try_emplace({answer.by, borrow->tag}, std::move(slice));
      ASSERT_TRUE(fresh) << "two loans of one tag";
      pages = {loan->second.get(), 1};
    }
    answer.by->tasks->on_pages(borrow->tag, status, pages, out);
  } else {
    Tag tag{};
    if (const auto* put = std::get_if<storage::Put>(&answer.request)) tag = put->tag;
    if (const auto* flush = std::get_if<storage::Flush>(&answer.request)) tag = flush->tag;
    if (const auto* clear = std::get_if<storage::Clear>(&answer.request)) {
      tag = clear->tag;
      ASSERT_LE(clear->offset + clear->bytes, disk.size());
    }
    answer.by->tasks->on_stored(tag, status, out);
  }
  answer.by->take(out);
}

/// Data comes in any order, or not at all; so do the completions of responses.
void World::move(Initiator& initiator) {
  if (initiator.moving.empty()) return;
  const std::size_t which = random.below(initiator.moving.size());
  const auto move = initiator.moving[which];
  initiator.moving.erase(initiator.moving.begin() + static_cast<long>(which));
  TaskOutput out;
  if (move.is_response) {
    initiator.tasks->on_done(move.tag, out);
  } else {
    const bool whole = !(random.below(16) == 0);
    for (const Slice& slice : move.into) {
      const bool equal = (random.below(2) == 0);
      for (std::uint32_t i = 0; whole && i < slice.bytes; ++i)
        slice.data[i] = equal ? std::byte{0} : static_cast<std::byte>(random.next());
    }
    initiator.tasks->on_fetched(move.tag, whole, out);
  }
  initiator.take(out);
}

void World::step() {
  now += random.below(2'000'000);
  Initiator& initiator = *initiators[random.below(initiators.size())];
  if (initiator.has_ended) return answer_store();
  if (initiator.tasks->deadline() <= now) {
    TaskOutput out;
    initiator.tasks->on_time(now, out);
    initiator.take(out);
  }
  switch (random.below(8)) {
    case 0:
    case 1:
    case 2:
      return send(initiator);
    case 3:
      if ((random.below(8) == 0)) manage(initiator);
      return;
    case 4:
    case 5:
      return answer_store();
    default:
      return move(initiator);
  }
}

/// Everything that is under way ends: nothing may be left.
void World::drain() {
  for (int i = 0; i < 20'000; ++i) {
    now += 1'000'000;
    answer_store();
    for (const auto& initiator : initiators) {
      if (!initiator->has_ended) move(*initiator);
      TaskOutput out;
      initiator->tasks->on_time(now, out);
      initiator->take(out);
    }
  }
  for (const auto& initiator : initiators) {
    EXPECT_EQ(initiator->tasks->size(), 0u);
    if (initiator->has_ended) continue;
    EXPECT_TRUE(initiator->open.empty()) << initiator->open.size() << " without an end";
    EXPECT_TRUE(initiator->managing.empty());
  }
  EXPECT_TRUE(asked.empty());
  EXPECT_TRUE(loans.empty()) << loans.size() << " loans";
  EXPECT_EQ(unit.condemned(), 0u);
  EXPECT_TRUE(unit.lock({0, kBlocks * kBlock})) << "a lock is left";
}

void World::run(int steps) {
  for (int i = 0; i < steps && !testing::Test::HasFailure(); ++i) step();
  // One connection ends in the middle of it.
  Initiator& first = *initiators[0];
  first.moving.clear();
  first.has_ended = true;
  TaskOutput out;
  first.tasks->on_end(out);
  first.take(out);
  unit.on_gone(first.nexus);
  for (int i = 0; i < steps / 4 && !testing::Test::HasFailure(); ++i) step();
  if (!testing::Test::HasFailure()) drain();
}

TEST(ScsiTaskWorld, EachCommandEndsOnceAndNothingStaysLent) {
  std::uint64_t answered = 0, dropped = 0, managed = 0, good = 0;
  for (std::uint64_t seed = 0; seed < 200; ++seed) {
    World world(seed);
    world.run(1'000);
    ASSERT_FALSE(HasFailure()) << "seed " << seed;
    answered += world.answered, dropped += world.dropped;
    managed += world.managed, good += world.good;
  }
  // The world is not one in which nothing happens.
  EXPECT_GT(answered, 10'000u);
  EXPECT_GT(good, 3'000u);
  EXPECT_GT(dropped, 200u);
  EXPECT_GT(managed, 200u);
}

}  // namespace
}  // namespace verbatim::ulp::scsi
