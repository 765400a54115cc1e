#include "config/layers.h"

#include <cerrno>
#include <cstdlib>
#include <filesystem>
#include <fstream>

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

namespace verbatim::config {
namespace {

/// The test's two folders: the user's and the system's.
class Layers : public testing::Test {
 protected:
  Layers() {
    std::string pattern = testing::TempDir() + "verbatim-config-XXXXXX";
    root_ = mkdtemp(pattern.data());
    for (const auto& folder : folders()) std::filesystem::create_directories(folder);
  }
  ~Layers() override { std::filesystem::remove_all(root_); }

  Folders folders() const { return {root_ + "/user", root_ + "/system"}; }
  std::string user() const { return file_of(folders()[0], "a"); }
  std::string system() const { return file_of(folders()[1], "a"); }
  static void write(const std::string& path, const std::string& content) {
    std::ofstream(path) << content;
  }
  Result<Effective> resolved(const std::vector<Setting>& given = {}) const {
    return resolve("a", folders(), given);
  }
  static std::string from(const Effective& effective, std::string_view key) {
    for (const auto& setting : effective.settings) {
      if (setting.key == key) return setting.from;
    }
    return "nowhere";
  }
  std::string fault() const {
    const auto refused = resolved();
    EXPECT_FALSE(refused);
    return refused ? "" : refused.error().text.substr(root_.size());
  }

  std::string root_;
};

TEST_F(Layers, NothingIsSaid) {
  const auto effective = resolved().value();
  EXPECT_EQ(effective.config.device, "verbatim0");
  EXPECT_EQ(from(effective, "device"), "default");
  EXPECT_EQ(effective.settings.size(), keys().size());
  EXPECT_TRUE(effective.files.empty());
}

TEST_F(Layers, KeyByKeyTheFirstCounts) {
  write(system(), "device = mlx5_0\nroce = v1\nprotocol = iwarp\nmemlock = yes\n");
  write(user(), "# mine\ndevice = mlx5_1\nroce = v1,v2\n");
  const auto effective = resolved({{"roce", "v2", "--roce"}}).value();
  EXPECT_EQ(effective.config.device, "mlx5_1");
  EXPECT_EQ(effective.config.versions, RoceVersions{RoceVersion::v2});
  EXPECT_EQ(effective.config.protocol, WireProtocol::iwarp);
  EXPECT_EQ(from(effective, "roce"), "--roce");
  EXPECT_EQ(from(effective, "device"), user() + ":2");
  EXPECT_EQ(from(effective, "memlock"), system() + ":4");
  EXPECT_EQ(effective.files, (std::vector<std::string>{user(), system()}));
}

TEST_F(Layers, ALimitCountsBeforeTheProfileWhereverItIsSaid) {
  write(system(), "max_qp = 3\n");
  write(user(), "max_cq = 5\nprofile = tiny\n");
  const auto effective = resolved().value();
  EXPECT_EQ(effective.config.limits.max_qp, 3u);
  EXPECT_EQ(effective.config.limits.max_cq, 5u);
  EXPECT_EQ(effective.config.limits.max_pd, find_profile("tiny")->limits.max_pd);
  EXPECT_EQ(from(effective, "max_pd"), "profile tiny");
  EXPECT_EQ(from(effective, "max_qp"), system() + ":1");
}

TEST_F(Layers, AFaultNamesFileAndLine) {
  write(user(), "\nadress = ::1\n");
  EXPECT_EQ(fault(), "/user/a.conf:2: there is no key 'adress': did you mean 'address'?");
  write(user(), "max_qp = 0\nroce = v7\nx\n");
  EXPECT_EQ(fault(),
            "/user/a.conf:1: max_qp: '0' is no number from 1 to 16383 (and 2 more: verbatim config "
            "--check " +
                user() + ")");
}

TEST_F(Layers, AValueThatAnotherOverridesIsCheckedToo) {
  write(user(), "device = mlx5_0\n");
  write(system(), "device = a/b\n");
  EXPECT_TRUE(fault().starts_with("/system/a.conf:1: device: 'a/b' cannot be"));
}

TEST_F(Layers, AWrongOptionNamesItself) {
  const auto refused = resolved({{"profile", "huge", "VERBATIM_PROFILE"}});
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().text,
            "VERBATIM_PROFILE: 'huge' is no profile: verbatim, connectx-7, rxe, tiny are");
}

TEST_F(Layers, WhatIsNoFileIsRefused) {
  ASSERT_EQ(mkfifo(user().c_str(), 0600), 0);
  EXPECT_EQ(fault(), "/user/a.conf is no regular file");
  std::filesystem::remove(user());
  std::filesystem::create_directory(user());
  EXPECT_NE(fault(), "");
}

TEST_F(Layers, OtherNodesFilesAreTheirs) {
  write(file_of(folders()[0], "b"), "device = mlx5_0\n");
  EXPECT_EQ(resolved()->config.device, "verbatim0");
}

/// Variables that name the folders.
class FoldersOf : public testing::Test {
 protected:
  void SetUp() override {
    for (const char* name : {"VERBATIM_CONFIG", "XDG_CONFIG_HOME", "HOME"}) unsetenv(name);
  }
};

TEST_F(FoldersOf, TheUserThenTheSystem) {
  EXPECT_EQ(config_folders().value(), Folders{"/etc/verbatim.d"});
  setenv("HOME", "/u", 1);
  EXPECT_EQ(config_folders().value(), (Folders{"/u/.config/verbatim.d", "/etc/verbatim.d"}));
  setenv("XDG_CONFIG_HOME", "/c", 1);
  EXPECT_EQ(config_folders().value(), (Folders{"/c/verbatim.d", "/etc/verbatim.d"}));
  setenv("XDG_CONFIG_HOME", "relative", 1);
  EXPECT_EQ(config_folders()->front(), "/u/.config/verbatim.d");
}

TEST_F(FoldersOf, AVariableNamesThemAll) {
  setenv("VERBATIM_CONFIG", "/a:/b", 1);
  EXPECT_EQ(config_folders().value(), (Folders{"/a", "/b"}));
  setenv("VERBATIM_CONFIG", "a", 1);
  EXPECT_EQ(config_folders().error().text, "VERBATIM_CONFIG: 'a' is no absolute path");
}

TEST(FromEnvironment, VariablesAreSettings) {
  setenv("VERBATIM_PROFILE", "rxe", 1);
  setenv("VERBATIM_DEVICE", "", 1);
  bool found = false;
  for (const auto& setting : from_environment()) {
    found |= setting.key == "profile" && setting.value == "rxe";
    EXPECT_NE(setting.key, "device");
  }
  EXPECT_TRUE(found);
  unsetenv("VERBATIM_PROFILE");
  unsetenv("VERBATIM_DEVICE");
}

}  // namespace
}  // namespace verbatim::config
