#include "ulp/rpcrdma/handles/handle_table.h"

#include <array>
#include <cerrno>
#include <filesystem>
#include <fstream>

#include <gtest/gtest.h>
#include <unistd.h>

namespace verbatim::ulp::rpcrdma {
namespace {

namespace fs = std::filesystem;

/// A folder whose files have handles; not every file system has them.
class Handles : public testing::Test {
 protected:
  void SetUp() override {
    std::string pattern = testing::TempDir() + "/handles-XXXXXX";
    folder_ = mkdtemp(pattern.data());
    fs::create_directory(folder_ / "below");
    write("below/file", "text");
    if (key("below/file").empty()) GTEST_SKIP() << "this file system has no handles";
  }
  void TearDown() override { fs::remove_all(folder_); }
  void write(const char* name, const char* text) { std::ofstream(folder_ / name) << text; }
  std::string key(const char* name) const { return key_of(AT_FDCWD, (folder_ / name).c_str()); }
  std::string read(HandleTable& table, const std::string& key) const {
    const int fd = table.open(key, O_RDONLY);
    if (fd < 0) return errno == ESTALE ? "stale" : "error";
    std::array<char, 16> text{};
    const ssize_t bytes = ::read(fd, text.data(), text.size());
    close(fd);
    return {text.data(), static_cast<std::size_t>(bytes)};
  }
  fs::path folder_;
};

TEST_F(Handles, AFileIsFoundWithoutHavingBeenSeen) {
  HandleTable table(folder_);
  EXPECT_EQ(read(table, key("below/file")), "text");
}

TEST_F(Handles, AFileThatWasRenamedOrWhoseFolderWasIsTheSame) {
  HandleTable table(folder_);
  const std::string handle = key("below/file");
  table.add(handle, AT_FDCWD, (folder_ / "below/file").c_str());
  fs::rename(folder_ / "below/file", folder_ / "below/other");
  write("below/file", "another");
  EXPECT_EQ(read(table, handle), "text");
  fs::rename(folder_ / "below", folder_ / "beside");
  EXPECT_EQ(read(table, handle), "text");
}

TEST_F(Handles, AFileThatIsNoMoreIsStaleAndItsSuccessorIsNot) {
  HandleTable table(folder_);
  const std::string handle = key("below/file");
  fs::remove(folder_ / "below/file");
  write("below/file", "next");
  EXPECT_EQ(read(table, handle), handle == key("below/file") ? "next" : "stale");
  EXPECT_EQ(read(table, key("below/file")), "next");
}

/// Each search reads the whole folder, and all wait for it.
TEST_F(Handles, MadeUpOnesAreRefusedWithoutASearch) {
  HandleTable table(folder_);
  const std::string handle = key("below/file");
  for (int i = 0; i < 1000; ++i) EXPECT_EQ(read(table, handle + std::to_string(i)), "stale");
  EXPECT_EQ(table.searches(), 1u);
  fs::rename(folder_ / "below", folder_ / "beside");  // One that was seen is still looked for.
  EXPECT_EQ(read(table, handle), "text");
  EXPECT_EQ(table.searches(), 2u);
  write("new", "new");  // One that a server gives after the search, by its call.
  const std::string later = key("new");
  table.add(later, AT_FDCWD, (folder_ / "new").c_str());
  fs::rename(folder_ / "new", folder_ / "newer");
  EXPECT_EQ(read(table, later), "new");
}

TEST_F(Handles, ALinkIsNotFollowed) {
  HandleTable table(folder_);
  fs::create_symlink("/etc/passwd", folder_ / "link");
  EXPECT_EQ(table.open(key("link"), O_RDONLY), -1);
  const int fd = table.open(key("link"), O_PATH);
  EXPECT_GE(fd, 0);
  close(fd);
}

}  // namespace
}  // namespace verbatim::ulp::rpcrdma
