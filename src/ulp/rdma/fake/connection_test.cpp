#include "ulp/rdma/connection.h"

#include <array>
#include <memory>
#include <vector>

#include <fmt/ranges.h>
#include <gtest/gtest.h>

#include "ulp/rdma/fake/fake_adapter_for_test.h"
#include "ulp/rdma/windows.h"

namespace verbatim::ulp::rdma {
namespace {

/// A connection on a queue pair whose requests end when the test says so.
class Bench {
 public:
  explicit Bench(std::uint32_t depth = 8, bool is_iwarp = false, bool has_windows = true) {
    fake.has_windows = has_windows;
    device = *Device::open("");
    completions = *Completions::create(*device, 64);
    headers = std::make_unique<BufferPool>(*BufferPool::create(*device, 2, 128, 0));
    ibv_qp_init_attr wanted{
        .send_cq = completions->queue(), .cap = {.max_send_wr = depth + 1}, .qp_type = IBV_QPT_RC};
    queue_pair = fake.make_queue_pair(device->domain(), wanted);
    queue_pair->at = IBV_QPS_RTS;
    connection = std::make_unique<Connection>(Connection::Setup{.queue_pair = queue_pair,
                                                                .number = 3,
                                                                .count = 1,
                                                                .depth = depth,
                                                                .slices = 2,
                                                                .inline_bytes = 16,
                                                                .reads_of_one_slice = is_iwarp,
                                                                .headers = headers.get()});
  }
  ~Bench() {
    connection->finish([](Tag) {});
    fake.destroy(queue_pair);
  }

  /// The requests that are posted, as text: "SEND s" is signaled.
  std::string posted() const {
    std::string text;
    for (const auto& one : queue_pair->posted) {
      constexpr const char* kNames[] = {"WRITE", "WRITE imm", "SEND", "SEND imm", "READ"};
      const auto kind = static_cast<std::size_t>(one.opcode);
      const char* name = kind < 5 ? kNames[kind] : one.invalidates ? "SEND inv" : "other";
      if (one.opcode == IBV_WR_BIND_MW) name = "BIND";
      if (one.opcode == IBV_WR_LOCAL_INV) name = "INV";
      if (!text.empty()) text += ", ";
      text += name;
      if (!one.inline_bytes.empty()) text += fmt::format(" inline {}", one.inline_bytes.size());
      for (const ibv_sge& slice : one.slices) text += fmt::format(" {}", slice.length);
      if (one.signaled) text += " s";
    }
    return text;
  }
  /// The first request ends. Returns the tags that come back.
  std::vector<std::uint32_t> end(ibv_wc_status status = IBV_WC_SUCCESS) {
    fake.complete(*queue_pair, status);
    std::vector<std::uint32_t> tags;
    for (const Ended& ended : completions->poll())
      connection->on_ended(ended, [&](Tag tag) { tags.push_back(raw(tag)); });
    EXPECT_FALSE(connection->resume());
    return tags;
  }
  Slice slice(std::uint32_t bytes) { return {memory.data(), bytes, MemoryKey{1}}; }

  FakeAdapter fake{1, {}};
  std::unique_ptr<Device> device;
  std::unique_ptr<Completions> completions;
  std::unique_ptr<BufferPool> headers;
  FakeQueuePair* queue_pair = nullptr;
  std::unique_ptr<Connection> connection;
  std::array<std::byte, 4096> memory{};
};

using Tags = std::vector<std::uint32_t>;

TEST(Connection, PostsOneChainForAnInput) {
  Bench bench;
  const std::array<Slice, 1> page{bench.slice(4096)};
  const std::array<Work, 2> work{
      Write{.from = page, .to = {.address = 0x1000, .bytes = 4096}},
      Send{.header = ByteSpan(bench.memory).first(16), .invalidate = MemoryKey{9}, .done = Tag{7}}};
  EXPECT_FALSE(bench.connection->carry_out(work));
  EXPECT_EQ(bench.posted(), "WRITE 4096, SEND inv inline 16 s");
  EXPECT_EQ(bench.fake.post_calls, 1);
  EXPECT_EQ(bench.end(), Tags{});
  EXPECT_EQ(bench.end(), Tags{7});
  EXPECT_FALSE(bench.connection->has_work_in_flight());
}

TEST(Connection, KeepsWhatDoesNotFitInOrder) {
  Bench bench(4);
  std::vector<Work> work;
  for (std::uint32_t i = 1; i <= 6; ++i)
    work.push_back(Send{.header = ByteSpan(bench.memory).first(i), .done = Tag{i}});
  EXPECT_FALSE(bench.connection->carry_out(work));
  EXPECT_EQ(bench.posted(), "SEND inline 1 s, SEND inline 2 s, SEND inline 3 s, SEND inline 4 s");
  EXPECT_EQ(bench.end(), Tags{1});
  EXPECT_EQ(bench.posted(), "SEND inline 2 s, SEND inline 3 s, SEND inline 4 s, SEND inline 5 s");
  for (const std::uint32_t tag : {2, 3, 4, 5, 6}) EXPECT_EQ(bench.end(), Tags{tag});
}

TEST(Connection, SignalsAQuarterOfTheQueueWithoutTags) {
  Bench bench(8);
  const std::vector<Work> work(5, Send{.header = ByteSpan(bench.memory).first(4)});
  EXPECT_FALSE(bench.connection->carry_out(work));
  EXPECT_EQ(bench.posted(),
            "SEND inline 4, SEND inline 4 s, SEND inline 4, SEND inline 4 s, SEND inline 4");
}

TEST(Connection, CutsWhatHasTooManySlices) {
  for (const bool is_iwarp : {false, true}) {
    Bench bench(8, is_iwarp);
    const std::array<Slice, 3> pages{bench.slice(10), bench.slice(20), bench.slice(30)};
    const std::array<Work, 2> work{
        Write{.from = pages, .to = {.address = 0x1000}, .done = Tag{1}},
        Read{.into = pages, .from = {.address = 0x2000}, .done = Tag{2}}};
    EXPECT_FALSE(bench.connection->carry_out(work));
    EXPECT_EQ(bench.posted(), is_iwarp ? "WRITE 10 20, WRITE 30 s, READ 10, READ 20 s, READ 30 s"
                                       : "WRITE 10 20, WRITE 30 s, READ 10 20, READ 30 s");
    EXPECT_EQ(bench.queue_pair->posted[1].remote, 0x1000u + 30);
    EXPECT_EQ(bench.queue_pair->posted.back().remote, 0x2000u + 30);
  }
}

TEST(Connection, AMessageOfTooManySlicesEndsIt) {
  Bench bench;
  const std::array<Slice, 3> pages{bench.slice(1), bench.slice(1), bench.slice(1)};
  const std::array<Work, 1> work{Send{.payload = pages}};
  EXPECT_TRUE(bench.connection->carry_out(work));
}

TEST(Connection, LongHeadersTakeBuffersAndWaitForThem) {
  Bench bench;
  const std::vector<Work> work(3, Send{.header = ByteSpan(bench.memory).first(100)});
  EXPECT_FALSE(bench.connection->carry_out(work));
  EXPECT_EQ(bench.posted(), "SEND 100 s, SEND 100 s");
  EXPECT_TRUE(bench.connection->waits_for_header());
  EXPECT_EQ(bench.headers->free_count(), 0u);
  bench.end();
  EXPECT_EQ(bench.posted(), "SEND 100 s, SEND 100 s");
  EXPECT_FALSE(bench.connection->waits_for_header());
  bench.end(), bench.end();
  EXPECT_EQ(bench.headers->free_count(), 2u);
}

TEST(Connection, TheLastRequestEndsWhatWasNotSignaled) {
  Bench bench;
  const std::array<Work, 1> work{Send{.header = ByteSpan(bench.memory).first(4)}};
  EXPECT_FALSE(bench.connection->carry_out(work));
  bench.end();  // No completion: the program does not know.
  EXPECT_TRUE(bench.connection->has_work_in_flight());
  bench.connection->close();
  bench.connection->close();
  EXPECT_EQ(bench.posted(), "SEND s");
  bench.end(IBV_WC_WR_FLUSH_ERR);
  EXPECT_FALSE(bench.connection->has_work_in_flight());
}

TEST(Connection, WhatTheAdapterRefusesComesBackAtTheEnd) {
  Bench bench;
  std::vector<Work> work;
  for (std::uint32_t i = 1; i <= 3; ++i) work.push_back(Send{.done = Tag{i}});
  bench.fake.faults.post_refused = 1000;
  EXPECT_TRUE(bench.connection->carry_out(work));
  EXPECT_EQ(bench.posted(), "");
  Tags tags;
  bench.connection->finish([&](Tag tag) { tags.push_back(raw(tag)); });
  EXPECT_EQ(tags, (Tags{1, 2, 3}));
}

TEST(Connection, CompletionsOfAnEarlierUserOfItsNumberAreIgnored) {
  Bench bench;
  const std::array<Work, 1> work{Send{.done = Tag{5}}};
  EXPECT_FALSE(bench.connection->carry_out(work));
  for (const WorkId& id : {WorkId{.connection = 3, .count = 0, .value = 0},
                           WorkId{.connection = 3, .count = 1, .value = 1},
                           WorkId{.connection = 3, .count = 1, .value = ~0u}})
    bench.connection->on_ended({.id = id}, [](Tag) { ADD_FAILURE(); });
  EXPECT_EQ(bench.end(), Tags{5});
}

TEST(Windows, EachBindingHasAnotherKeyAndEndsOnce) {
  Bench bench;
  const BufferPool pool = *BufferPool::create(*bench.device, 1, 4096, 0);
  auto windows = *Windows::create(*bench.device, pool.region(), 1);
  const auto first = *windows.bind(*bench.connection, pool.at(0), true);
  EXPECT_TRUE(first.invalidatable);
  EXPECT_EQ(windows.bind(*bench.connection, pool.at(0), true).error().code, ENOBUFS);
  windows.unbind(*bench.connection, first, false);
  const auto second = *windows.bind(*bench.connection, pool.at(0), true);
  EXPECT_NE(first.range.remote_key, second.range.remote_key);
  windows.unbind(*bench.connection, second, true);
  EXPECT_EQ(bench.posted(), "BIND, INV s, BIND");
  EXPECT_EQ(windows.free_count(), 1u);
}

TEST(Windows, WithoutThemThePoolsKeyServes) {
  Bench bench(8, true, false);
  const BufferPool pool = *BufferPool::create(*bench.device, 1, 4096, 0);
  auto windows = *Windows::create(*bench.device, pool.region(), 1);
  EXPECT_FALSE(windows.exist());
  const auto bound = *windows.bind(*bench.connection, pool.at(0), true);
  EXPECT_FALSE(bound.invalidatable);
  EXPECT_EQ(bound.range.remote_key, pool.region().remote_key());
  windows.unbind(*bench.connection, bound, false);
  EXPECT_EQ(bench.posted(), "");
}

TEST(BufferPool, LendsAllOrNone) {
  Bench bench;
  BufferPool pool = *BufferPool::create(*bench.device, 3, 100, 0);
  std::array<Slice, 2> two;
  EXPECT_TRUE(pool.take(two));
  EXPECT_NE(pool.index_of(two[0]), pool.index_of(two[1]));
  std::array<Slice, 2> more;
  EXPECT_FALSE(pool.take(more));
  EXPECT_EQ(pool.free_count(), 1u);
  pool.give_back(two);
  EXPECT_TRUE(pool.take(more));
}

}  // namespace
}  // namespace verbatim::ulp::rdma
