#include "fabric/daemon/hosts/host_counters.h"

#include <algorithm>
#include <string>

#include <gtest/gtest.h>

namespace verbatim::fabric {
namespace {

TEST(HostCounters, HaveTheNamesOfLinux) {
  const auto files = counter_files(2, {.transmit_data = 1'000,
                                       .receive_packets = 9,
                                       .multicast_receive_packets = 4,
                                       .inactive_discards = 3});
  const auto content_of = [&](const std::string& name) {
    const auto found = std::ranges::find(files, "ports/2/counters/" + name, &HostFile::path);
    return found == files.end() ? std::string("none") : found->content;
  };
  EXPECT_EQ(content_of("port_xmit_data"), "1000");
  EXPECT_EQ(content_of("unicast_rcv_packets"), "5");
  EXPECT_EQ(content_of("port_xmit_discards"), "3");
  EXPECT_EQ(content_of("VL15_dropped"), "0");
}

}  // namespace
}  // namespace verbatim::fabric
