// libibumad through its C interface, on host H1 of the triangle (fabricbed.py), where no subnet
// manager runs.
#include <array>
#include <cerrno>
#include <cstring>
#include <string>
#include <thread>

#include <dlfcn.h>
#include <fcntl.h>
#include <gtest/gtest.h>
#include <infiniband/umad.h>
#include <infiniband/umad_str.h>
#include <infiniband/umad_types.h>
#include <poll.h>
#include <pthread.h>
#include <sys/wait.h>
#include <unistd.h>

namespace {

constexpr int kMadBytes = 256;
constexpr int kSecondMs = 1000;
constexpr uint16_t kNodeInfo = 0x11;
constexpr uint32_t kIsSm = 1u << 1;
constexpr int kSwitchType = 2;

/// A program's buffer with a Get of subnet management by directed route.
struct Buffer {
  alignas(8) std::array<uint8_t, 64 + kMadBytes> bytes{};

  void* umad() { return bytes.data(); }
  uint8_t* mad() { return static_cast<uint8_t*>(umad_get_mad(umad())); }

  /// `hops` are the ports by which it leaves each node.
  void make_get(uint16_t attribute, uint32_t transaction, std::initializer_list<uint8_t> hops) {
    bytes.fill(0);
    umad_set_addr(umad(), 0xffff, 0, 0, 0);
    uint8_t* const at = mad();
    at[0] = UMAD_BASE_VERSION;
    at[1] = UMAD_CLASS_SUBN_DIRECTED_ROUTE;
    at[2] = 1;
    at[3] = UMAD_METHOD_GET;
    at[7] = static_cast<uint8_t>(hops.size());
    const uint32_t transaction_be = htobe32(transaction);
    std::memcpy(at + 12, &transaction_be, sizeof transaction_be);
    const uint16_t attribute_be = htobe16(attribute);
    std::memcpy(at + 16, &attribute_be, sizeof attribute_be);
    std::memset(at + 32, 0xff, 4);  // Both LIDs permissive.
    std::copy(hops.begin(), hops.end(), at + 129);
  }
  uint32_t transaction() {
    uint32_t value = 0;
    std::memcpy(&value, mad() + 12, sizeof value);
    return be32toh(value);
  }
};

class UmadTest : public testing::Test {
 protected:
  void SetUp() override {
    port = umad_open_port(nullptr, 0);
    ASSERT_GE(port, 0) << std::strerror(-port);
    agent = umad_register(port, UMAD_CLASS_SUBN_DIRECTED_ROUTE, 1, 0, nullptr);
    ASSERT_GE(agent, 0);
  }
  void TearDown() override { umad_close_port(port); }

  int receive(Buffer& buffer, int timeout_ms = kSecondMs) {
    length = kMadBytes;
    return umad_recv(port, buffer.umad(), &length, timeout_ms);
  }

  int port = -1;
  int agent = -1;
  int length = 0;
};

TEST(UmadDevices, HostHasOneDeviceOfTwoPorts) {
  char names[UMAD_MAX_DEVICES][UMAD_CA_NAME_LEN];
  ASSERT_EQ(umad_get_cas_names(names, UMAD_MAX_DEVICES), 1);
  umad_ca_t ca;
  ASSERT_EQ(umad_get_ca(names[0], &ca), 0);
  EXPECT_EQ(ca.numports, 2);
  EXPECT_EQ(ca.ports[0], nullptr);
  ASSERT_NE(ca.ports[1], nullptr);
  EXPECT_STREQ(ca.ports[1]->link_layer, "InfiniBand");
  EXPECT_GE(ca.ports[1]->pkeys_size, 1u);
  std::array<__be64, 3> guids;
  EXPECT_EQ(umad_get_ca_portguids(nullptr, guids.data(), 2), -ENOMEM);
  ASSERT_EQ(umad_get_ca_portguids(nullptr, guids.data(), 3), 3);
  EXPECT_EQ(guids[0], 0u);
  EXPECT_EQ(guids[1], ca.ports[1]->port_guid);
  EXPECT_EQ(umad_release_ca(&ca), 0);
  EXPECT_LT(umad_get_ca("another0", &ca), 0);
  EXPECT_LT(umad_open_port(nullptr, 3), 0);
}

/// As rdma-core 56 declares it; Debian 12's header has none of this.
struct Pair {
  char smi_name[UMAD_CA_NAME_LEN];
  uint32_t smi_preferred_port;
  char gsi_name[UMAD_CA_NAME_LEN];
  uint32_t gsi_preferred_port;
};

/// Our library has it, the one that this program is linked with may not.
template <typename Function>
Function* newer_call(const char* name) {
  return reinterpret_cast<Function*>(dlsym(RTLD_DEFAULT, name));
}

TEST(UmadPairs, DeviceIsBothHalvesOfThePair) {
  auto* const pairs = newer_call<int(Pair*, size_t)>("umad_get_smi_gsi_pairs");
  ASSERT_NE(pairs, nullptr);
  char names[1][UMAD_CA_NAME_LEN];
  ASSERT_EQ(umad_get_cas_names(names, 1), 1);
  std::array<Pair, 2> cas;
  std::memset(cas.data(), 0xff, sizeof cas);
  ASSERT_EQ(pairs(cas.data(), cas.size()), 1);
  EXPECT_STREQ(cas[0].smi_name, names[0]);
  EXPECT_STREQ(cas[0].gsi_name, names[0]);
  EXPECT_STREQ(cas[1].gsi_name, "");
  EXPECT_EQ(pairs(cas.data(), 0), 0);
}

/// Port 1 has a cable, port 2 none.
TEST(UmadPairs, PortIsOneThatIsUpUnlessItIsNamedWithItsDevice) {
  auto* const pair_of =
      newer_call<int(const char*, uint8_t, Pair*, unsigned)>("umad_get_smi_gsi_pair_by_ca_name");
  ASSERT_NE(pair_of, nullptr);
  char names[1][UMAD_CA_NAME_LEN];
  ASSERT_EQ(umad_get_cas_names(names, 1), 1);
  struct Row {
    const char* device;
    uint8_t asked;
    int result;
    uint32_t port;
  };
  const Row rows[] = {
      {nullptr, 0, 0, 1},          {names[0], 0, 0, 1},        {nullptr, 1, 0, 1},
      {names[0], 1, 0, 1},         {names[0], 2, 0, 2},        {nullptr, 2, -ENODEV, 0},
      {names[0], 3, -ENODEV, 0},   {nullptr, 255, -ENODEV, 0}, {"another0", 0, -ENODEV, 0},
      {"another0", 1, -ENODEV, 0},
  };
  for (const Row& row : rows) {
    SCOPED_TRACE(testing::Message() << (row.device ? row.device : "any") << ":" << +row.asked);
    for (const unsigned enforce_smi : {0u, 1u}) {
      Pair pair;
      std::memset(&pair, 0xff, sizeof pair);
      EXPECT_EQ(pair_of(row.device, row.asked, &pair, enforce_smi), row.result);
      if (row.result != 0) {
        EXPECT_EQ(errno, -row.result);
      }
      EXPECT_EQ(pair.smi_preferred_port, row.port);
      EXPECT_EQ(pair.gsi_preferred_port, row.port);
      EXPECT_STREQ(pair.smi_name, row.result == 0 ? names[0] : "");
      EXPECT_STREQ(pair.gsi_name, row.result == 0 ? names[0] : "");
    }
  }
  EXPECT_EQ(pair_of(nullptr, 0, nullptr, 0), -1);
}

TEST_F(UmadTest, DescriptorCanBePolled) {
  EXPECT_EQ(umad_get_fd(port), port);
  pollfd waiting{port, POLLIN, 0};
  EXPECT_EQ(poll(&waiting, 1, 0), 0);
  Buffer buffer;
  EXPECT_EQ(receive(buffer, 0), -EAGAIN);
  EXPECT_EQ(errno, EAGAIN);
  EXPECT_EQ(umad_poll(port, 1), -ETIMEDOUT);
  EXPECT_EQ(receive(buffer, 1), -ETIMEDOUT);
}

TEST_F(UmadTest, RequestIsAnsweredToTheAgentThatAsked) {
  Buffer buffer;
  buffer.make_get(kNodeInfo, 7, {1});
  ASSERT_EQ(umad_send(port, agent, buffer.umad(), kMadBytes, kSecondMs, 0), 0);
  ASSERT_EQ(umad_poll(port, kSecondMs), 0);
  ASSERT_EQ(receive(buffer), agent);
  EXPECT_EQ(length, kMadBytes);
  EXPECT_EQ(umad_status(buffer.umad()), 0);
  EXPECT_EQ(buffer.transaction(), 7u);
  EXPECT_EQ(buffer.mad()[3], UMAD_METHOD_GET_RESP);
  EXPECT_EQ(buffer.mad()[64 + 2], kSwitchType);
}

TEST_F(UmadTest, UnansweredRequestComesBack) {
  Buffer buffer;
  buffer.make_get(kNodeInfo, 8, {1, 30});  // No cable is there.
  ASSERT_EQ(umad_send(port, agent, buffer.umad(), kMadBytes, 20, 2), 0);
  ASSERT_EQ(receive(buffer), agent);
  EXPECT_EQ(umad_status(buffer.umad()), ETIMEDOUT);
  EXPECT_EQ(length, 24);
  EXPECT_EQ(buffer.transaction(), 8u);
}

TEST_F(UmadTest, TransactionInFlightIsRefused) {
  Buffer buffer;
  buffer.make_get(kNodeInfo, 9, {1, 30});
  ASSERT_EQ(umad_send(port, agent, buffer.umad(), kMadBytes, 200, 0), 0);
  ASSERT_EQ(umad_send(port, agent, buffer.umad(), kMadBytes, 200, 0), 0);
  ASSERT_EQ(receive(buffer), agent);
  EXPECT_EQ(umad_status(buffer.umad()), EINVAL);
  ASSERT_EQ(receive(buffer), agent);
  EXPECT_EQ(umad_status(buffer.umad()), ETIMEDOUT);
  buffer.make_get(kNodeInfo, 9, {1});  // Now it is free.
  ASSERT_EQ(umad_send(port, agent, buffer.umad(), kMadBytes, kSecondMs, 0), 0);
  ASSERT_EQ(receive(buffer), agent);
  EXPECT_EQ(umad_status(buffer.umad()), 0);
}

TEST_F(UmadTest, DatagramStaysIfTheBufferIsTooSmall) {
  Buffer buffer;
  buffer.make_get(kNodeInfo, 10, {1});
  ASSERT_EQ(umad_send(port, agent, buffer.umad(), kMadBytes, kSecondMs, 0), 0);
  length = 100;
  EXPECT_EQ(umad_recv(port, buffer.umad(), &length, kSecondMs), -ENOSPC);
  EXPECT_EQ(errno, ENOSPC);
  EXPECT_EQ(length, kMadBytes);
  EXPECT_EQ(receive(buffer), agent);
}

TEST_F(UmadTest, WrongSendsAreRefusedAtOnce) {
  Buffer buffer;
  buffer.make_get(kNodeInfo, 11, {1});
  EXPECT_EQ(umad_send(port, agent, buffer.umad(), 35, kSecondMs, 0), -EIO);
  EXPECT_EQ(errno, EINVAL);
  EXPECT_EQ(umad_send(port, -1, buffer.umad(), kMadBytes, kSecondMs, 0), -EIO);
  EXPECT_EQ(umad_register_oui(port, UMAD_CLASS_PERF_MGMT, 0, buffer.mad(), nullptr), -EINVAL);
  umad_reg_attr attributes{};
  attributes.flags = 1u << 7;
  uint32_t number = 0;
  EXPECT_EQ(umad_register2(port, &attributes, &number), EINVAL);
  EXPECT_EQ(attributes.flags, static_cast<uint32_t>(UMAD_USER_RMPP));
}

/// The methods of a subnet manager.
int register_as_manager(int port) {
  std::array<long, 16 / sizeof(long)> methods{};
  methods[0] = 1l << UMAD_METHOD_GET | 1l << UMAD_METHOD_SET | 1l << UMAD_METHOD_TRAP;
  return umad_register(port, UMAD_CLASS_SUBN_DIRECTED_ROUTE, 1, 0, methods.data());
}

TEST_F(UmadTest, MethodHasOneAgentOfAPort) {
  const int other = umad_open_port(nullptr, 1);
  EXPECT_GE(register_as_manager(other), 0);
  EXPECT_EQ(register_as_manager(port), -EPERM);
  close(other);  // As a program that dies.
  int again = -EPERM;
  for (int i = 0; again < 0 && i < kSecondMs; ++i) {
    again = register_as_manager(port);
    if (again < 0) usleep(1000);
  }
  ASSERT_GE(again, 0);
  EXPECT_EQ(umad_unregister(port, again), 0);
  EXPECT_LT(umad_unregister(port, again), 0);
}

TEST_F(UmadTest, KilledProgramLeavesNoAgent) {
  const pid_t child = fork();
  if (child == 0) {
    const int own = umad_open_port(nullptr, 1);
    if (own < 0 || register_as_manager(own) < 0) _exit(1);
    raise(SIGKILL);
  }
  int status = 0;
  waitpid(child, &status, 0);
  ASSERT_TRUE(WIFSIGNALED(status));
  int registered = -EPERM;
  for (int i = 0; registered < 0 && i < kSecondMs; ++i) {
    registered = register_as_manager(port);
    if (registered < 0) usleep(1000);
  }
  EXPECT_GE(registered, 0);
}

TEST_F(UmadTest, ThreadThatWaitsCanBeCancelled) {
  std::thread waiter([this] {
    Buffer buffer;
    int room = kMadBytes;
    umad_recv(port, buffer.umad(), &room, -1);
    ADD_FAILURE() << "the thread was not cancelled";
  });
  pthread_t thread = waiter.native_handle();
  waiter.detach();
  usleep(10'000);  // It may not wait yet: then it is cancelled when it begins to.
  pthread_cancel(thread);
  Buffer buffer;
  buffer.make_get(kNodeInfo, 12, {1});
  ASSERT_EQ(umad_send(port, agent, buffer.umad(), kMadBytes, kSecondMs, 0), 0);
  EXPECT_EQ(receive(buffer), agent);
}

bool is_sm(int number) {
  umad_port_t port;
  if (umad_get_port(nullptr, number, &port) != 0) return false;
  const bool is = (be32toh(port.capmask) & kIsSm) != 0;
  umad_release_port(&port);
  return is;
}

bool becomes_sm(bool wanted) {
  for (int i = 0; is_sm(1) != wanted && i < kSecondMs; ++i) usleep(1000);
  return is_sm(1) == wanted;
}

TEST(UmadIssm, OpenFileSetsTheBit) {
  std::array<char, 256> path;
  ASSERT_EQ(umad_get_issm_path(nullptr, 1, path.data(), path.size()), 0);
  EXPECT_FALSE(is_sm(1));
  const int fd = open(path.data(), O_NONBLOCK);
  ASSERT_GE(fd, 0) << path.data();
  EXPECT_TRUE(becomes_sm(true));
  close(fd);
  EXPECT_TRUE(becomes_sm(false));
}

/// The distribution's own library, beside ours.
template <typename Function>
Function* original(Function* /*ours*/, const char* name) {
  static void* const library = dlopen(SYSTEM_IBUMAD, RTLD_NOW | RTLD_LOCAL);
  return library == nullptr ? nullptr : reinterpret_cast<Function*>(dlsym(library, name));
}

TEST(UmadStrings, AreThoseOfTheOriginal) {
  constexpr std::array<uint8_t, 6> kClasses{0x01, 0x81, 0x03, 0x04, 0x07, 0x32};
  auto* const class_name = original(umad_class_str, "umad_class_str");
  auto* const method_name = original(umad_method_str, "umad_method_str");
  auto* const attribute_name = original(umad_attribute_str, "umad_attribute_str");
  auto* const status_name = original(umad_common_mad_status_str, "umad_common_mad_status_str");
  auto* const sa_name = original(umad_sa_mad_status_str, "umad_sa_mad_status_str");
  ASSERT_TRUE(class_name && method_name && attribute_name && status_name && sa_name);
  ASSERT_NE(class_name, umad_class_str);
  for (unsigned number = 0; number < 0x10000; ++number) {
    const auto be = htobe16(static_cast<uint16_t>(number));
    EXPECT_STREQ(umad_common_mad_status_str(be), status_name(be));
    EXPECT_STREQ(umad_sa_mad_status_str(be), sa_name(be));
    for (const uint8_t of : kClasses) {
      EXPECT_STREQ(umad_attribute_str(of, be), attribute_name(of, be));
    }
  }
  for (unsigned number = 0; number < 256; ++number) {
    const auto byte = static_cast<uint8_t>(number);
    EXPECT_STREQ(umad_class_str(byte), class_name(byte));
    EXPECT_STREQ(umad_method_str(0x03, byte), method_name(0x03, byte));
    EXPECT_STREQ(umad_method_str(0x04, byte), method_name(0x04, byte));
  }
}

}  // namespace

int main(int argc, char** argv) {
  testing::InitGoogleTest(&argc, argv);
  return RUN_ALL_TESTS();
}
