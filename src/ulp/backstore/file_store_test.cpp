#include "ulp/backstore/file_store.h"

#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

namespace verbatim::ulp::backstore {
namespace {

using storage::StoreStatus;

struct Answered final : Answers {
  void on_pages(Tag, StoreStatus status, std::span<const Slice> lent) override {
    last = status;
    pages = lent;
  }
  void on_stored(Tag, StoreStatus status) override { last = status; }
  StoreStatus last = StoreStatus::gone;
  std::span<const Slice> pages;
};

/// Pools without an adapter lend nothing, so these tests put from memory of their own, and look at
/// the file.
class FileStoreTest : public testing::Test {
 protected:
  FileStoreTest() {
    const int made = mkstemp(path.data());
    EXPECT_GE(made, 0);
    close(made);
    EXPECT_EQ(truncate(path.c_str(), 1 << 20), 0);
  }
  ~FileStoreTest() override { unlink(path.c_str()); }

  StoreStatus put(FileStore& store, std::uint64_t offset, char fill, std::uint32_t bytes) {
    std::vector<std::byte> memory(bytes, static_cast<std::byte>(fill));
    const Slice halves[] = {{memory.data(), bytes / 2},
                            {memory.data() + bytes / 2, bytes - bytes / 2}};
    store.put({.tag = Tag{1}, .offset = offset, .from = halves, .to_stable = true}, answered);
    return answered.last;
  }
  std::string content(std::uint64_t offset, std::size_t bytes) {
    std::string text(bytes, '?');
    const UniqueFd file(open(path.c_str(), O_RDONLY | O_CLOEXEC));
    text.resize(static_cast<std::size_t>(
        pread(file.get(), text.data(), bytes, static_cast<off_t>(offset))));
    return text;
  }

  std::string path = "/tmp/verbatim-file-store.XXXXXX";
  FileBuffers buffers{{}, {}};
  Answered answered;
};

TEST_F(FileStoreTest, WritesWhatIsPut) {
  const auto store = FileStore::open(buffers, path, {});
  ASSERT_TRUE(store);
  EXPECT_EQ((*store)->geometry().bytes, 1u << 20);
  EXPECT_EQ(put(**store, 4096, 'a', 1000), StoreStatus::done);
  EXPECT_EQ(content(4096, 1000), std::string(1000, 'a'));
  (*store)->flush({.tag = Tag{1}}, answered);
  EXPECT_EQ(answered.last, StoreStatus::done);
}

TEST_F(FileStoreTest, ClearsWithAndWithoutHoles) {
  const auto store = FileStore::open(buffers, path, {});
  ASSERT_TRUE(store);
  for (const bool may_deallocate : {false, true}) {
    put(**store, 0, 'a', 8192);
    (*store)->clear({.tag = Tag{1}, .offset = 512, .bytes = 4096, .may_deallocate = may_deallocate},
                    answered);
    EXPECT_EQ(answered.last, StoreStatus::done);
    EXPECT_EQ(content(0, 8192),
              std::string(512, 'a') + std::string(4096, '\0') + std::string(3584, 'a'));
  }
}

TEST_F(FileStoreTest, RefusesWhatLiesBehindTheEnd) {
  const auto store = FileStore::open(buffers, path, {.bytes = 65536});
  ASSERT_TRUE(store);
  EXPECT_EQ(put(**store, 65536 - 512, 'a', 1024), StoreStatus::out_of_range);
  (*store)->borrow({.tag = Tag{1}, .offset = 65536, .bytes = 512}, answered);
  EXPECT_EQ(answered.last, StoreStatus::out_of_range);
  (*store)->clear({.tag = Tag{1}, .offset = 0, .bytes = 65537}, answered);
  EXPECT_EQ(answered.last, StoreStatus::out_of_range);
}

TEST_F(FileStoreTest, FilesThatCannotBeOpened) {
  const auto code_of = [&](const std::string& file, const FileStore::Options& options) {
    const auto store = FileStore::open(buffers, file, options);
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

}  // namespace
}  // namespace verbatim::ulp::backstore
