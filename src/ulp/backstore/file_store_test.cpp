#include "ulp/backstore/file_store.h"

#include <cstdlib>
#include <cstring>
#include <string>
#include <utility>
#include <vector>

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include "ulp/backstore/answered_for_test.h"

namespace verbatim::ulp::backstore {
namespace {

using storage::StoreStatus;

using Make = std::unique_ptr<DiskQueue> (*)();

/// Pools without an adapter lend nothing, so these tests put from memory of their own, and look at
/// the file.
class FileStoreTest : public testing::TestWithParam<Make> {
 protected:
  FileStoreTest() {
    const int made = mkstemp(path.data());
    EXPECT_GE(made, 0);
    close(made);
    EXPECT_EQ(truncate(path.c_str(), 1 << 20), 0);
    auto queue = GetParam()();
    can_run = queue != nullptr;
    buffers =
        std::make_unique<FileBuffers>(rdma::BufferPool{}, rdma::BufferPool{},
                                      can_run ? std::move(queue) : DiskQueue::create_threads());
  }
  ~FileStoreTest() override { unlink(path.c_str()); }

  /// Until it is answered.
  StoreStatus ended() {
    for (const int before = answered.count; answered.count == before;) {
      buffers->queue().wait();
      FileStore::reap_all(*buffers);
    }
    return answered.last;
  }
  StoreStatus put(FileStore& store, std::uint64_t offset, char fill, std::uint32_t bytes) {
    std::vector<std::byte> memory(bytes, static_cast<std::byte>(fill));
    const Slice halves[] = {{memory.data(), bytes / 2},
                            {memory.data() + bytes / 2, bytes - bytes / 2}};
    const int before = answered.count;
    store.put({.tag = Tag{1}, .offset = offset, .from = halves, .to_stable = true}, answered);
    return answered.count > before ? answered.last : ended();
  }
  StoreStatus clear(FileStore& store, std::uint64_t offset, std::uint64_t bytes, bool deallocates) {
    const int before = answered.count;
    store.clear({.tag = Tag{1}, .offset = offset, .bytes = bytes, .may_deallocate = deallocates},
                answered);
    return answered.count > before ? answered.last : ended();
  }
  std::string content(std::uint64_t offset, std::size_t bytes) {
    std::string text(bytes, '?');
    const UniqueFd file(open(path.c_str(), O_RDONLY | O_CLOEXEC));
    text.resize(static_cast<std::size_t>(
        pread(file.get(), text.data(), bytes, static_cast<off_t>(offset))));
    return text;
  }

  std::string path = "/tmp/verbatim-file-store.XXXXXX";
  std::unique_ptr<FileBuffers> buffers;
  Answered answered;
  bool can_run = false;
};

TEST_P(FileStoreTest, WritesWhatIsPut) {
  if (!can_run) GTEST_SKIP() << "no io_uring here";
  const auto store = FileStore::open(*buffers, path, {});
  ASSERT_TRUE(store);
  EXPECT_EQ((*store)->geometry().bytes, 1u << 20);
  EXPECT_EQ(put(**store, 4096, 'a', 1000), StoreStatus::done);
  EXPECT_EQ(content(4096, 1000), std::string(1000, 'a'));
  (*store)->flush({.tag = Tag{1}}, answered);
  EXPECT_EQ(ended(), StoreStatus::done);
}

TEST_P(FileStoreTest, ClearsWithAndWithoutHoles) {
  if (!can_run) GTEST_SKIP() << "no io_uring here";
  const auto store = FileStore::open(*buffers, path, {});
  ASSERT_TRUE(store);
  for (const bool may_deallocate : {false, true}) {
    put(**store, 0, 'a', 8192);
    EXPECT_EQ(clear(**store, 512, 4096, may_deallocate), StoreStatus::done);
    EXPECT_EQ(content(0, 8192),
              std::string(512, 'a') + std::string(4096, '\0') + std::string(3584, 'a'));
  }
}

TEST_P(FileStoreTest, ManyAtATimeEndOnceEach) {
  if (!can_run) GTEST_SKIP() << "no io_uring here";
  const auto store = FileStore::open(*buffers, path, {});
  ASSERT_TRUE(store);
  std::vector<std::byte> memory(512, std::byte{'x'});
  const Slice slice{memory.data(), 512};
  constexpr int kCount = 1000;  // More than the ring has entries.
  for (int i = 0; i < kCount; ++i)
    (*store)->put({.tag = Tag{static_cast<std::uint32_t>(i + 1)},
                   .offset = 512u * static_cast<unsigned>(i),
                   .from = {&slice, 1}},
                  answered);
  while (answered.count < kCount) ended();
  EXPECT_EQ(answered.count, kCount);
  EXPECT_EQ(content(0, 512u * kCount), std::string(512u * kCount, 'x'));
}

TEST_P(FileStoreTest, AStoreWaitsForWhatIsUnderWay) {
  if (!can_run) GTEST_SKIP() << "no io_uring here";
  std::vector<std::byte> memory(1 << 16, std::byte{'y'});
  const Slice slice{memory.data(), 1 << 16};
  auto store = FileStore::open(*buffers, path, {});
  ASSERT_TRUE(store);
  (*store)->put({.tag = Tag{1}, .from = {&slice, 1}}, answered);
  store->reset();
  EXPECT_EQ(content(0, 1 << 16), std::string(1 << 16, 'y'));
  EXPECT_EQ(answered.count, 0) << "nobody is there to be told";
}

TEST_P(FileStoreTest, RefusesWhatLiesBehindTheEnd) {
  const auto store = FileStore::open(*buffers, path, {.bytes = 65536});
  ASSERT_TRUE(store);
  EXPECT_EQ(put(**store, 65536 - 512, 'a', 1024), StoreStatus::out_of_range);
  (*store)->borrow({.tag = Tag{1}, .offset = 65536, .bytes = 512}, answered);
  EXPECT_EQ(answered.last, StoreStatus::out_of_range);
  EXPECT_EQ(clear(**store, 0, 65537, false), StoreStatus::out_of_range);
}

TEST_P(FileStoreTest, AFullDiskIsNoSpace) {
  if (!can_run) GTEST_SKIP() << "no io_uring here";
  const UniqueFd full(open("/dev/full", O_RDWR | O_CLOEXEC));
  if (!full) GTEST_SKIP() << "no /dev/full";
  FileStore store(*buffers, UniqueFd(dup(full.get())), {.bytes = 1 << 20}, false);
  EXPECT_EQ(put(store, 0, 'a', 512), StoreStatus::no_space);
}

TEST_P(FileStoreTest, FilesThatCannotBeOpened) {
  const auto code_of = [&](const std::string& file, const FileStore::Options& options) {
    const auto store = FileStore::open(*buffers, file, options);
    return store ? 0 : store.error().code;
  };
  EXPECT_EQ(code_of("/nowhere/disk", {.bytes = 4096}), ENOENT);
  EXPECT_EQ(code_of(path + ".other", {.bytes = 4096, .may_create = false}), ENOENT);
  EXPECT_EQ(code_of("/tmp", {.bytes = 4096}), EISDIR);
  EXPECT_EQ(code_of("/dev/null", {.bytes = 4096}), EINVAL);
  EXPECT_EQ(code_of(path, {.bytes = 100}), EINVAL) << "not one block";
  EXPECT_EQ(code_of(path + ".new", {.bytes = 4096}), 0);
  EXPECT_EQ(unlink((path + ".new").c_str()), 0) << "was created";
}

INSTANTIATE_TEST_SUITE_P(Queues, FileStoreTest,
                         testing::Values(&DiskQueue::create_ring, &DiskQueue::create_threads),
                         [](const auto& one) { return one.index == 0 ? "Ring" : "Threads"; });

/// A disk whose answers the test gives.
class ScriptedQueue final : public DiskQueue {
 public:
  void start(const DiskOperation& operation) override { asked.push_back(operation); }
  bool has_unsubmitted() const override { return false; }
  void submit() override {}
  int descriptor() const override { return -1; }
  std::size_t reap(const OnEnd& on_end) override {
    const auto now = std::exchange(ended, {});
    for (const auto& [user, result] : now) on_end(user, result);
    return now.size();
  }
  void wait() override {
    while (!asked.empty()) end(0, -EIO);
  }
  void end(std::size_t index, std::int64_t result) {
    ended.emplace_back(asked.at(index).user, result);
    asked.erase(asked.begin() + static_cast<long>(index));
  }
  std::vector<DiskOperation> asked;
  std::vector<std::pair<void*, std::int64_t>> ended;
};

class FailingDisk : public testing::Test {
 protected:
  FailingDisk() {
    auto made = std::make_unique<ScriptedQueue>();
    queue = made.get();
    buffers =
        std::make_unique<FileBuffers>(rdma::BufferPool{}, rdma::BufferPool{}, std::move(made));
    store = std::make_unique<FileStore>(*buffers, UniqueFd(),
                                        Geometry{.bytes = 1 << 20, .has_write_cache = true}, false);
  }
  void put(Answered& to, bool to_stable = false) {
    store->put({.tag = Tag{1}, .from = {&slice, 1}, .to_stable = to_stable}, to);
  }
  void end(std::int64_t result, std::size_t index = 0) {
    queue->end(index, result);
    FileStore::reap_all(*buffers);
  }
  std::vector<std::byte> memory = std::vector<std::byte>(4096);
  Slice slice{memory.data(), 4096};
  ScriptedQueue* queue = nullptr;
  std::unique_ptr<FileBuffers> buffers;
  std::unique_ptr<FileStore> store;
  Answered first, second;
};

TEST_F(FailingDisk, PartsOfAWriteGoOnAndTheirErrorIsTheWrites) {
  put(first);
  end(1000);
  ASSERT_EQ(queue->asked.size(), 1u);
  EXPECT_EQ(queue->asked[0].offset, 1000u);
  EXPECT_EQ(queue->asked[0].pieces[0].iov_len, 3096u);
  end(-EINTR);
  end(-EIO);
  EXPECT_EQ(first.last, StoreStatus::medium_error);
  EXPECT_EQ(first.count, 1);
  put(first);
  end(0);
  EXPECT_EQ(first.last, StoreStatus::medium_error) << "no byte was written";
}

TEST_F(FailingDisk, AStablePutIsAnsweredAfterItsSync) {
  put(first, true);
  end(4096);
  EXPECT_EQ(first.count, 0);
  ASSERT_EQ(queue->asked.size(), 1u);
  EXPECT_EQ(queue->asked[0].kind, DiskOperation::Kind::sync);
  end(-ENOSPC);
  EXPECT_EQ(first.last, StoreStatus::no_space);
}

/// The kernel tells an error of writing back once.
TEST_F(FailingDisk, AFailedSyncIsToldToAllThatWereUnderWay) {
  store->flush({.tag = Tag{1}}, first);
  store->flush({.tag = Tag{2}}, second);
  end(-EIO);
  end(0);
  EXPECT_EQ(first.last, StoreStatus::medium_error);
  EXPECT_EQ(second.last, StoreStatus::medium_error);
  store->flush({.tag = Tag{1}}, first);
  end(0);
  EXPECT_EQ(first.last, StoreStatus::done) << "told once";
}

TEST_F(FailingDisk, WhereHolesAreUnknownZeroesAreWritten) {
  store->clear({.tag = Tag{1}, .offset = 4096, .bytes = 300000, .may_deallocate = true}, first);
  end(-EOPNOTSUPP);
  ASSERT_EQ(queue->asked.size(), 1u);
  EXPECT_EQ(queue->asked[0].pieces[0].iov_len, 262144u);
  end(262144);
  EXPECT_EQ(queue->asked[0].offset, 4096u + 262144);
  EXPECT_EQ(queue->asked[0].pieces[0].iov_len, 300000u - 262144);
  end(300000 - 262144);
  EXPECT_EQ(first.last, StoreStatus::done);
}

}  // namespace
}  // namespace verbatim::ulp::backstore
