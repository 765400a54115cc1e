#include "dropin/view/redirect.h"

#include <cstdlib>
#include <filesystem>
#include <string>

#include <gtest/gtest.h>
#include <unistd.h>

namespace verbatim::view {
namespace {

constexpr const char* kRoot = "/run/view";

std::string redirect(const char* path) { return Redirected(path, kRoot).path(); }

TEST(Redirect, FoldersOfTheDeviceLeadIntoTheView) {
  EXPECT_EQ(redirect("/sys/class/infiniband"), "/run/view/sys/class/infiniband");
  EXPECT_EQ(redirect("/sys/class/infiniband/x/ports"), "/run/view/sys/class/infiniband/x/ports");
  EXPECT_EQ(redirect("/dev/infiniband/uverbs0"), "/run/view/dev/infiniband/uverbs0");
  EXPECT_EQ(redirect("/sys/class/scsi_host/"), "/run/view/sys/class/scsi_host/");
  EXPECT_EQ(redirect("/sys//class///infiniband/"), "/run/view/sys//class///infiniband/");
}

TEST(Redirect, OtherPathsStay) {
  for (const char* path :
       {"", "/", "/sys", "/sys/class", "/sys/class/infiniband_other", "/dev/null",
        "sys/class/infiniband", "/sys/class/infinibandage", "/dev/infinibands"}) {
    EXPECT_EQ(redirect(path), path);
    EXPECT_FALSE(Redirected(path, kRoot).is_ours());
  }
  EXPECT_EQ(Redirected(nullptr, kRoot).path(), nullptr);
}

TEST(Redirect, WithoutAViewNothingChanges) {
  EXPECT_STREQ(Redirected("/dev/infiniband", nullptr).path(), "/dev/infiniband");
}

TEST(Redirect, APathThatWouldBeTooLongStays) {
  const std::string path = "/dev/infiniband/" + std::string(PATH_MAX - 20, 'x');
  EXPECT_EQ(redirect(path.c_str()), path);
}

TEST(Redirect, AStorageTargetsFilesAreInItsFolder) {
  EXPECT_EQ(redirect("/sys/kernel/config/target"), "/sys/kernel/config/target");
  setenv("VERBATIM_TARGET", "/run/t", 1);
  const struct {
    const char *path, *redirected;
  } rows[] = {{"/sys/kernel/config", "/run/t/config"},
              {"/sys/kernel//config/target/core", "/run/t/config/target/core"},
              {"/etc/rtslib-fb-target/saveconfig.json", "/run/t/rtslib/saveconfig.json"},
              {"/etc/nvmet/config.json", "/run/t/nvmet/config.json"},
              {"/var/run/targetcli.lock", "/run/t/run/targetcli.lock"},
              {"/sys/kernel/configs", "/sys/kernel/configs"},
              {"/etc/nvmetother", "/etc/nvmetother"}};
  for (const auto& row : rows) EXPECT_EQ(redirect(row.path), row.redirected);
  EXPECT_FALSE(Redirected("/etc/nvmet/new", kRoot).is_of_view()) << "programs may make files there";
  EXPECT_TRUE(Redirected("/dev/infiniband/new", kRoot).is_of_view());
  unsetenv("VERBATIM_TARGET");
}

TEST(Redirect, LoginsFilesAreInTheirDaemonsFolderWhileItRuns) {
  const auto folder =
      std::filesystem::temp_directory_path() / ("verbatim-view." + std::to_string(getpid()));
  setenv("VERBATIM_INITIATOR", folder.c_str(), 1);
  EXPECT_EQ(redirect("/sys/class/nvme"), "/run/view/sys/class/nvme") << "it does not run";
  EXPECT_EQ(redirect("/dev/nvme0"), "/dev/nvme0");
  std::filesystem::create_directories(folder / "dev/nvme0");
  EXPECT_EQ(redirect("/sys/class/nvme/nvme0/state"),
            folder.string() + "/sys/class/nvme/nvme0/state");
  EXPECT_EQ(redirect("/sys/class/scsi_host/"), folder.string() + "/sys/class/scsi_host/");
  EXPECT_EQ(redirect("/dev/nvme0"), folder.string() + "/dev/nvme0");
  EXPECT_EQ(redirect("/dev/nvme1"), "/dev/nvme1") << "the machine's own stays";
  EXPECT_EQ(redirect("/dev/nvme-fabrics"), "/run/view/dev/nvme-fabrics");
  EXPECT_EQ(redirect("/sys/class/infiniband_srp/x"), "/run/view/sys/class/infiniband_srp/x");
  EXPECT_TRUE(Redirected("/sys/class/nvme/new", kRoot).is_of_view());
  std::filesystem::remove_all(folder);
  unsetenv("VERBATIM_INITIATOR");
}

TEST(Redirect, ResolvedPathsLoseTheRoot) {
  std::string inside = "/run/view/sys/class";
  strip_root(inside.data(), kRoot);
  EXPECT_STREQ(inside.c_str(), "/sys/class");
  std::string beside = "/run/viewer/sys";
  strip_root(beside.data(), kRoot);
  EXPECT_STREQ(beside.c_str(), "/run/viewer/sys");
}

}  // namespace
}  // namespace verbatim::view
