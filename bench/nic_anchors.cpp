// bench_nic_anchors [FLOWS]: DPDK's own classifiers on the traffic of bench_nic_switch, in
// processor time of one thread: eight rte_hash tables, one a mask, tried in turn, and rte_acl with
// all rules. Prints NAME VALUE on a line each.
#include <algorithm>
#include <array>
#include <cstdio>
#include <cstdlib>
#include <random>
#include <string>
#include <vector>

#include <rte_acl.h>
#include <rte_eal.h>
#include <rte_hash.h>
#include <rte_hash_crc.h>
#include <time.h>

#include "bench/nic_traffic.h"

namespace {

using verbatim::offload::Key;
constexpr unsigned kBurst = 32;
constexpr int kRounds = 7;
constexpr std::size_t kLookups = 1 << 18;

struct FiveFields {
  std::uint8_t protocol;
  std::uint8_t unused[3];
  std::uint32_t source;
  std::uint32_t destination;
  std::uint16_t source_port;
  std::uint16_t destination_port;
};
RTE_ACL_RULE_DEF(AclRule, 5);

std::uint16_t in_machine_order(const std::array<std::uint8_t, 2>& bytes) {
  return static_cast<std::uint16_t>(bytes[0] << 8 | bytes[1]);
}

struct Tables {
  std::array<rte_hash*, bench::kMasks> hashes{};
  std::array<Key, bench::kMasks> masks;
  rte_acl_ctx* acl = nullptr;
  std::vector<Key> keys;
  std::vector<FiveFields> fields;
};

void add_to_acl(Tables& tables, std::uint32_t flow, const Key& mask) {
  const Key& key = tables.keys[flow];
  const FiveFields& fields = tables.fields[flow];
  const auto port = [](rte_acl_field& field, const auto& value, const auto& port_mask) {
    const std::uint16_t exact = in_machine_order(value);
    field.value.u16 = port_mask[0] != 0 ? exact : std::uint16_t{0};
    field.mask_range.u16 = port_mask[0] != 0 ? exact : std::uint16_t{0xffff};
  };
  AclRule rule{};
  rule.data.category_mask = 1;
  rule.data.priority = 1;
  rule.data.userdata = flow + 1;
  rule.field[0].value.u8 = 17;
  rule.field[0].mask_range.u8 = mask.protocol;
  rule.field[1].value.u32 = rte_be_to_cpu_32(fields.source);
  rule.field[1].mask_range.u32 = mask.source_ip[0] != 0 ? 32 : 0;
  rule.field[2].value.u32 = rte_be_to_cpu_32(fields.destination);
  rule.field[2].mask_range.u32 = 32;
  port(rule.field[3], key.source_port, mask.source_port);
  port(rule.field[4], key.destination_port, mask.destination_port);
  if (rte_acl_add_rules(tables.acl, reinterpret_cast<rte_acl_rule*>(&rule), 1) < 0) std::exit(1);
}

void fill(Tables& tables, std::uint32_t flows) {
  for (std::uint32_t m = 0; m < bench::kMasks; ++m) {
    const std::string name = "mask" + std::to_string(m);
    rte_hash_parameters wanted{};
    wanted.name = name.c_str();
    wanted.entries = flows * 2;
    wanted.key_len = sizeof(Key);
    wanted.hash_func = rte_hash_crc;
    tables.hashes[m] = rte_hash_create(&wanted);
    tables.masks[m] = bench::mask_of(m);
  }
  rte_acl_param wanted{};
  wanted.name = "all";
  wanted.rule_size = RTE_ACL_RULE_SZ(5);
  wanted.max_rule_num = flows;
  tables.acl = rte_acl_create(&wanted);
  for (std::uint32_t i = 0; i < flows; ++i) {
    const Key key = *verbatim::offload::key_of(bench::frame_of(i), 1);
    const Key& mask = tables.masks[i % bench::kMasks];
    const Key masked = verbatim::offload::masked(key, mask);
    rte_hash_add_key_data(tables.hashes[i % bench::kMasks], &masked,
                          reinterpret_cast<void*>(std::uintptr_t{i}));
    tables.keys.push_back(key);
    FiveFields fields{.protocol = key.protocol};
    std::memcpy(&fields.source, key.source_ip.data(), 4);
    std::memcpy(&fields.destination, key.destination_ip.data(), 4);
    std::memcpy(&fields.source_port, key.source_port.data(), 2);
    std::memcpy(&fields.destination_port, key.destination_port.data(), 2);
    tables.fields.push_back(fields);
    add_to_acl(tables, i, mask);
  }
}

void build_acl(Tables& tables) {
  rte_acl_config config{};
  config.num_categories = 1;
  config.num_fields = 5;
  const auto field = [&](std::uint8_t i, std::uint8_t type, std::uint8_t size, std::uint8_t input,
                         std::size_t at) {
    config.defs[i] = {type, size, i, input, static_cast<std::uint32_t>(at)};
  };
  field(0, RTE_ACL_FIELD_TYPE_BITMASK, 1, 0, offsetof(FiveFields, protocol));
  field(1, RTE_ACL_FIELD_TYPE_MASK, 4, 1, offsetof(FiveFields, source));
  field(2, RTE_ACL_FIELD_TYPE_MASK, 4, 2, offsetof(FiveFields, destination));
  field(3, RTE_ACL_FIELD_TYPE_RANGE, 2, 3, offsetof(FiveFields, source_port));
  field(4, RTE_ACL_FIELD_TYPE_RANGE, 2, 3, offsetof(FiveFields, destination_port));
  if (rte_acl_build(tables.acl, &config) < 0) std::exit(1);
}

template <typename Step>
void measure(const char* what, const std::vector<std::uint32_t>& order, Step step) {
  double best = 1e9;
  for (int round = 0; round < kRounds; ++round) {
    std::size_t right = 0;
    const double begin = bench::now();
    for (std::size_t i = 0; i < kLookups; i += kBurst) right += step(&order[i]);
    if (right != kLookups) std::exit(1);
    best = std::min(best, (bench::now() - begin) / kLookups * 1e9);
  }
  std::printf("%s %.1f\n", what, best);
}

std::size_t look_in_hashes(const Tables& tables, const std::uint32_t* flows) {
  std::size_t right = 0;
  for (unsigned i = 0; i < kBurst; ++i) {
    for (std::uint32_t m = 0; m < bench::kMasks; ++m) {
      const Key key = verbatim::offload::masked(tables.keys[flows[i]], tables.masks[m]);
      void* found = nullptr;
      if (rte_hash_lookup_data(tables.hashes[m], &key, &found) < 0) continue;
      right += reinterpret_cast<std::uintptr_t>(found) == flows[i];
      break;
    }
  }
  return right;
}

std::size_t look_in_acl(const Tables& tables, const std::uint32_t* flows) {
  const std::uint8_t* data[kBurst];
  std::uint32_t results[kBurst];
  for (unsigned i = 0; i < kBurst; ++i) {
    data[i] = reinterpret_cast<const std::uint8_t*>(&tables.fields[flows[i]]);
  }
  rte_acl_classify(tables.acl, data, results, kBurst, 1);
  std::size_t right = 0;
  for (unsigned i = 0; i < kBurst; ++i) right += results[i] == flows[i] + 1;
  return right;
}

}  // namespace

int main(int argc, char** argv) {
  const char* words[] = {argv[0], "--no-huge", "--no-pci", "--no-shconf", "--no-telemetry",
                         "-m",    "512",       "-l",       "0",           "--log-level=error"};
  if (rte_eal_init(static_cast<int>(std::size(words)), const_cast<char**>(words)) < 0) return 1;
  const std::uint32_t flows = argc > 1 ? static_cast<std::uint32_t>(std::atoi(argv[1])) : 10000;
  Tables tables;
  fill(tables, flows);
  build_acl(tables);
  std::mt19937 random(7);
  std::vector<std::uint32_t> order(kLookups);
  for (auto& each : order) each = static_cast<std::uint32_t>(random() % flows);
  measure("rte_hash_ns", order, [&](const auto* at) { return look_in_hashes(tables, at); });
  measure("rte_acl_ns", order, [&](const auto* at) { return look_in_acl(tables, at); });
}
