#pragma once

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <iterator>
#include <ostream>
#include <string>
#include <tuple>

#include <sys/mman.h>

#include "test_util.h"

/// What Linux promises of private memory stays true of registered memory, whether a peer uses it or
/// not, and afterwards: tables of promises.
namespace verbs_test {

inline constexpr std::size_t kPage = 4096;
inline constexpr std::size_t kPages = 48;  // Of which the middle third is registered.
inline constexpr std::size_t kFirst = 16;
inline constexpr std::size_t kRegistered = 16;

struct Use {
  std::uint64_t address = 0;
  std::uint32_t rkey = 0;
};
/// Writes a byte of each page until it is told to stop.
inline void use_memory(const Pipe& pipe) {
  const OpenDevice host;
  const Endpoint end(host);
  end.connect(pipe.exchange(end.address()));
  for (Use use = pipe.receive<Use>(); use.address != 0; use = pipe.receive<Use>()) {
    for (std::size_t i = 0; i < 600; ++i) {
      const auto change = [&](ibv_send_wr& request) {
        request.wr.rdma = {.remote_addr = use.address + i % kRegistered * kPage + 8,
                           .rkey = use.rkey};
      };
      ASSERT_EQ(end.post(IBV_WR_RDMA_WRITE, i, 0, 1, change), 0);
      ASSERT_OK(end.wait());
    }
    pipe.send(true);
  }
}

/// One line of /proc/self/smaps about the mapping of an address: "VmFlags", "ProtectionKey".
inline std::string property_of(const void* address, const std::string& name) {
  std::ifstream maps("/proc/self/smaps");
  bool is_it = false;
  for (std::string line; std::getline(maps, line);) {
    unsigned long begin = 0, end = 0;
    if (std::sscanf(line.c_str(), "%lx-%lx ", &begin, &end) == 2) {
      const auto at = reinterpret_cast<unsigned long>(address);
      is_it = begin <= at && at < end;
      if (is_it && name.empty()) return line;
    } else if (is_it && line.starts_with(name + ":")) {
      return line.substr(name.size() + 1) + " ";
    }
  }
  return "";
}
inline bool is_private(const void* address) {
  const std::string line = property_of(address, "");
  return line.size() > 31 && line[line.find(' ') + 4] == 'p';
}
inline std::size_t count_mappings() {
  std::ifstream maps("/proc/self/maps");
  return static_cast<std::size_t>(std::count(std::istreambuf_iterator(maps), {}, '\n'));
}
inline long shared_kib() {
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);) {
    if (line.starts_with("RssShmem:")) return std::atol(line.c_str() + 9);
  }
  return 0;
}

/// A piece of memory, registered in its middle, and a peer that uses it, or does not.
class Memory {
 public:
  explicit Memory(bool is_used) : is_used_(is_used), other_(use_memory), end_(host_) {
    end_.connect(other_.pipe().exchange(end_.address()));
    void* const place =
        mmap(nullptr, kPages * kPage, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    EXPECT_NE(place, MAP_FAILED);
    all_ = static_cast<std::byte*>(place);
    std::memset(all_, 'x', kPages * kPage);
  }
  ~Memory() {
    mr_.reset();
    other_.pipe().send(Use{});
    if (all_ != nullptr) munmap(all_, kPages * kPage);
  }
  Memory(const Memory&) = delete;
  Memory& operator=(const Memory&) = delete;

  std::byte* all() const { return all_; }
  std::byte* at(std::size_t page = 0) const { return all_ + (kFirst + page) * kPage; }
  /// The program has unmapped or moved it.
  void forget() { all_ = nullptr; }
  void enrol() {
    mr_.reset(ibv_reg_mr(host_.pd(), at(), kRegistered * kPage, kAllAccess));
    ASSERT_NE(mr_, nullptr);
    use();
  }
  /// The peer uses it, so much that it moves if it ever does.
  void use() {
    const Use use{reinterpret_cast<std::uint64_t>(at()), mr_->rkey};
    for (int i = 0; is_used_ && i < 3; ++i) {
      other_.pipe().send(use);
      other_.pipe().receive<bool>();
    }
  }
  void end() { mr_.reset(); }
  bool is_used() const { return is_used_; }

 private:
  const bool is_used_;
  const OtherNode other_;
  const OpenDevice host_;
  const Endpoint end_;
  std::byte* all_ = nullptr;
  Owned<ibv_mr> mr_;
};

struct Promise {
  const char* name;
  void (*check)(Memory&);
  friend std::ostream& operator<<(std::ostream& to, const Promise& one) { return to << one.name; }
};

class PrivateMemory : public testing::TestWithParam<std::tuple<Promise, bool>> {};

inline std::string name_of(const testing::TestParamInfo<std::tuple<Promise, bool>>& row) {
  const auto& [promise, is_used] = row.param;
  return std::string(promise.name) + (is_used ? "Used" : "Unused");
}

}  // namespace verbs_test
