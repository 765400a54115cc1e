// SPDX-License-Identifier: GPL-2.0
/* ethtool -i and -S: what the card has counted of a port. */
#include <linux/ethtool.h>

#include "nic.h"

static const struct {
  char name[ETH_GSTRING_LEN];
  size_t offset;
} statistics[] = {
#define ROW(name) {#name, offsetof(struct vnic_port_counters, name)}
    ROW(missed_packets),    ROW(missed_bytes),    ROW(sent_packets),      ROW(sent_bytes),
    ROW(offloaded_packets), ROW(offloaded_bytes), ROW(no_buffer_dropped), ROW(egress_dropped),
#undef ROW
};

static void get_drvinfo(struct net_device* netdev, struct ethtool_drvinfo* info) {
  const struct nic_port* port = netdev_priv(netdev);

  strscpy(info->driver, KBUILD_MODNAME, sizeof info->driver);
  strscpy(info->bus_info, dev_name(&port->card->device->dev), sizeof info->bus_info);
}

static int get_sset_count(struct net_device* netdev, int set) {
  return set == ETH_SS_STATS ? ARRAY_SIZE(statistics) : -EOPNOTSUPP;
}

static void get_strings(struct net_device* netdev, u32 set, u8* to) {
  size_t i;

  if (set != ETH_SS_STATS) return;
  for (i = 0; i < ARRAY_SIZE(statistics); ++i, to += ETH_GSTRING_LEN) {
    memcpy(to, statistics[i].name, ETH_GSTRING_LEN);
  }
}

static void get_statistics(struct net_device* netdev, struct ethtool_stats* stats, u64* to) {
  const struct nic_port* port = netdev_priv(netdev);
  const void* counters = &port->card->region->ports[port->index].counters;
  size_t i;

  for (i = 0; i < ARRAY_SIZE(statistics); ++i) {
    to[i] = READ_ONCE(*(const u64*)(counters + statistics[i].offset));
  }
}

const struct ethtool_ops nic_ethtool_ops = {
    .get_drvinfo = get_drvinfo,
    .get_link = ethtool_op_get_link,
    .get_sset_count = get_sset_count,
    .get_strings = get_strings,
    .get_ethtool_stats = get_statistics,
};
