#include "base/files/replace_file.h"

#include <filesystem>
#include <fstream>

#include <gtest/gtest.h>

namespace verbatim {
namespace {

namespace fs = std::filesystem;

struct ReplaceFile : testing::Test {
  void SetUp() override {
    std::string name = testing::TempDir() + "replace-file-XXXXXX";
    ASSERT_NE(mkdtemp(name.data()), nullptr);
    folder_ = name;
  }
  void TearDown() override { fs::remove_all(folder_); }
  void put(const char* text) {
    const std::string fresh = folder_ / "fresh";
    std::ofstream(fresh) << text;
    EXPECT_TRUE(replace_file(fresh, folder_ / "file"));
    EXPECT_FALSE(fs::exists(fresh));
    std::string found;
    std::ifstream(folder_ / "file") >> found;
    EXPECT_EQ(found, text);
  }
  fs::path folder_;
};

TEST_F(ReplaceFile, ReplacesOneOrMakesIt) {
  put("first");
  put("second");
}

TEST_F(ReplaceFile, FailsWithoutAFolder) {
  EXPECT_FALSE(replace_file(folder_ / "none", folder_ / "file"));
}

}  // namespace
}  // namespace verbatim
