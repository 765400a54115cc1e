// Registers regions of KIB KiB until errno is ENOMEM, and prints how many succeeded; then
// deregisters one, and registers it again. Overlapping regions count separately. Usage:
// locked_memory KIB MOST

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <vector>

#include <infiniband/verbs.h>

int main(int argc, char** argv) {
  if (argc < 3) return 2;
  const auto bytes = static_cast<std::size_t>(std::atoi(argv[1])) * 1024;
  const int most = std::atoi(argv[2]);
  ibv_device** const list = ibv_get_device_list(nullptr);
  if (list == nullptr || list[0] == nullptr) return 1;
  ibv_context* const context = ibv_open_device(list[0]);
  ibv_pd* const pd = context != nullptr ? ibv_alloc_pd(context) : nullptr;
  void* const memory = std::aligned_alloc(1 << 16, bytes);
  if (pd == nullptr || memory == nullptr) return 1;
  std::vector<ibv_mr*> regions;
  while (static_cast<int>(regions.size()) < most) {
    ibv_mr* const region = ibv_reg_mr(pd, memory, bytes, IBV_ACCESS_LOCAL_WRITE);
    if (region == nullptr) break;
    regions.push_back(region);
  }
  const bool is_full = static_cast<int>(regions.size()) < most;
  std::printf("%zu regions, %s\n", regions.size(), is_full && errno == ENOMEM ? "full" : "all");
  if (!is_full) return 0;
  if (regions.empty()) return 0;
  if (ibv_dereg_mr(regions.back()) != 0) return 1;
  regions.back() = ibv_reg_mr(pd, memory, bytes, 0);
  std::printf("%s\n", regions.back() != nullptr ? "and again" : "not again");
  return regions.back() != nullptr ? 0 : 1;
}
