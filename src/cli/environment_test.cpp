#include "cli/environment.h"

#include <filesystem>
#include <fstream>

#include <gtest/gtest.h>

#include "cli/text/preload_word.h"

namespace verbatim::cli {
namespace {

/// A folder that is removed after the test.
class Environment : public ::testing::Test {
 protected:
  Environment() {
    std::string pattern = ::testing::TempDir() + "/verbatim-cli-XXXXXX";
    root_ = mkdtemp(pattern.data());
  }
  ~Environment() override { std::filesystem::remove_all(root_); }

  void touch(const std::filesystem::path& path) {
    std::filesystem::create_directories((root_ / path).parent_path());
    std::ofstream(root_ / path) << "x";
  }

  std::filesystem::path root_;
};

TEST_F(Environment, BuildTreeHasDropinsInLib) {
  touch("lib/libibverbs.so.1");
  EXPECT_EQ(find_dropin_folder((root_ / "bin").string()).value(), root_ / "lib");
}

TEST_F(Environment, InstalledDropinsWinOverTheSystemsLibrary) {
  touch("lib/libibverbs.so.1");
  touch("lib/verbatim/libibverbs.so.1");
  EXPECT_EQ(find_dropin_folder((root_ / "bin").string()).value(), root_ / "lib/verbatim");
}

TEST_F(Environment, MissingDropinsAreNamed) {
  const auto folder = find_dropin_folder((root_ / "bin").string());
  ASSERT_FALSE(folder);
  EXPECT_EQ(folder.error().code, ENOENT);
  EXPECT_NE(folder.error().text.find("setup.sh"), std::string::npos);
}

TEST_F(Environment, AFolderThatNoLibraryPathCanHaveIsRefused) {
  touch("a:b/lib/libibverbs.so.1");
  const auto folder = find_dropin_folder((root_ / "a:b/bin").string());
  EXPECT_EQ(folder.error().code, EINVAL);
  EXPECT_NE(folder.error().text.find("another folder"), std::string::npos);
}

TEST(Preload, ALibraryWithABlankInItsPathIsFoundByLibraryPath) {
  EXPECT_EQ(preload_word("/v/libverbatim-view.so"), "/v/libverbatim-view.so");
  EXPECT_EQ(preload_word("/my tree/libverbatim-view.so"), "libverbatim-view.so");
}

TEST(LibraryPath, FolderComesFirstAndOnce) {
  EXPECT_EQ(prepend_folder("/v", ""), "/v");
  EXPECT_EQ(prepend_folder("/v", "/a:/b"), "/v:/a:/b");
  EXPECT_EQ(prepend_folder("/v", "/a:/v:/b"), "/v:/a:/b");
  EXPECT_EQ(prepend_folder("/v", ":/a:"), "/v:/a");
}

TEST(Variables, WhatIsNotGivenIsNotSet) {
  const auto variables =
      variables_for({}, "/v", "/view", {.library_path = "/a", .preload = ""}).value();
  EXPECT_EQ(variables, (Variables{{"LD_LIBRARY_PATH", "/v:/a"},
                                  {"LD_PRELOAD", "/v/libverbatim-view.so"},
                                  {"VERBATIM_VIEW", "/view"}}));
}

TEST(Variables, NodeAndAddresses) {
  const NodeChoice choice{.node = "a", .addresses = {"127.0.0.2", "::1"}};
  EXPECT_EQ(variables_for(choice, "/v", "/view", {.library_path = "", .preload = "/x.so"}).value(),
            (Variables{{"LD_LIBRARY_PATH", "/v"},
                       {"LD_PRELOAD", "/x.so:/v/libverbatim-view.so"},
                       {"VERBATIM_VIEW", "/view"},
                       {"VERBATIM_NODE", "a"},
                       {"VERBATIM_ADDRESS", "127.0.0.2,::1"}}));
}

TEST(Variables, RoceVersions) {
  const auto variables = variables_for({.roce = "v1,v2"}, "/v", "/view", {}).value();
  EXPECT_EQ(variables.back(), (std::pair<std::string, std::string>{"VERBATIM_ROCE", "v1,v2"}));
  EXPECT_FALSE(variables_for({.roce = "v4"}, "/v", "/view", {}));
}

TEST(Variables, RefusesWhatCannotBeANodeOrAnAddress) {
  for (const char* name : {"", "a/b", ".a", "-a", "a b"}) {
    EXPECT_FALSE(variables_for({.node = name, .addresses = {}}, "/v", "/view", {})) << name;
  }
  EXPECT_FALSE(variables_for({.node = std::string(64, 'a'), .addresses = {}}, "/v", "/view", {}));
  for (const char* address : {"", "localhost", "127.0.0", "127.0.0.2:4791", "127.0.0.256"}) {
    EXPECT_FALSE(variables_for({.node = {}, .addresses = {address}}, "/v", "/view", {})) << address;
  }
}

TEST(Variables, TheViewsLibraryIsPreloadedOnce) {
  const OldEnvironment old{.library_path = "", .preload = "/v/libverbatim-view.so:/x.so"};
  EXPECT_EQ(variables_for({}, "/v", "/view", old).value()[1].second, old.preload);
}

TEST(ShellQuoted, IsOneWord) {
  EXPECT_EQ(shell_quoted("/a b"), "'/a b'");
  EXPECT_EQ(shell_quoted("it's"), "'it'\\''s'");
}

}  // namespace
}  // namespace verbatim::cli
