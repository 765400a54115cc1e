#include "fabric/daemon/hosts/host_view.h"

#include <array>
#include <filesystem>
#include <fstream>
#include <iterator>

#include <gtest/gtest.h>
#include <sys/stat.h>

#include "fabric/protocol/decode.h"

namespace verbatim::fabric {
namespace {

class HostViewTest : public testing::Test {
 protected:
  HostViewTest() {
    protocol::put_text(host_.device, kDeviceName);
    host_.port_count = 1;
    host_.ports[0].lid = 5;
  }
  ~HostViewTest() override { std::filesystem::remove_all(root_); }

  Result<void> show(std::vector<HostFile> counters = {}) {
    return view_.show(host_, std::move(counters));
  }
  std::string path(const std::string& name) const {
    return folder_ + "/sys/class/infiniband/verbatim0/ports/1/" + name;
  }
  std::string read(const std::string& name) const {
    std::ifstream file(path(name));
    return {std::istreambuf_iterator<char>(file), {}};
  }
  ino_t number(const std::string& name) const {
    struct stat file{};
    EXPECT_EQ(stat(path(name).c_str(), &file), 0) << name;
    return file.st_ino;
  }

  std::array<char, 32> name_{"/tmp/verbatim-view.XXXXXX"};
  const std::string root_ = mkdtemp(name_.data());
  const std::string folder_ = root_ + "/view";
  HostView view_{folder_};
  protocol::HostDescription host_;
};

TEST_F(HostViewTest, OnlyFilesThatHaveChangedAreWritten) {
  ASSERT_TRUE(show({{"ports/1/counters/symbol_error", "0"}}));
  const ino_t state = number("state");
  EXPECT_EQ(read("lid"), "0x5\n");
  host_.ports[0].lid = 6;
  ASSERT_TRUE(show({{"ports/1/counters/symbol_error", "3"}}));
  EXPECT_EQ(read("lid"), "0x6\n");
  EXPECT_EQ(read("counters/symbol_error"), "3\n");
  EXPECT_EQ(number("state"), state);
}

TEST_F(HostViewTest, FilesThatAreNoMoreDisappear) {
  host_.ports[0].pkey_count = 2;
  ASSERT_TRUE(show());
  EXPECT_TRUE(std::filesystem::exists(path("pkeys/1")));
  host_.ports[0].pkey_count = 1;
  ASSERT_TRUE(show());
  EXPECT_FALSE(std::filesystem::exists(path("pkeys/1")));
  EXPECT_TRUE(std::filesystem::exists(path("pkeys/0")));
}

TEST_F(HostViewTest, AViewThatWasRemovedIsWrittenAgain) {
  ASSERT_TRUE(show());
  std::filesystem::remove_all(folder_);
  host_.ports[0].lid = 7;
  ASSERT_TRUE(show());
  EXPECT_EQ(read("lid"), "0x7\n");
  EXPECT_EQ(read("sm_lid"), "0x0\n");
}

TEST_F(HostViewTest, SaysWhyItCannotBeWritten) {
  EXPECT_FALSE(HostView("/proc/no-such-folder/view").show(host_, {}));
}

}  // namespace
}  // namespace verbatim::fabric
