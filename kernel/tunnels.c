// SPDX-License-Identifier: GPL-2.0
/* Rules on interfaces of tunnels (vxlan0, say). Their packets come from the wire, so the rules are
 * the uplink's: each matches the tunnel's headers and what is in it, and takes the tunnel away. */
#include <linux/slab.h>
#include <net/geneve.h>
#include <net/gre.h>
#include <net/vxlan.h>

#include "nic.h"

#define VXLAN_PORT 4789
#define GENEVE_PORT 6081
#define NO_PORT 0          /* GRE's. */
#define GENEVE_LENGTH 0x1f /* Bits of an option's fourth byte. */

#define REFUSE(flow, what)                                               \
  ({                                                                     \
    NL_SET_ERR_MSG_MOD((flow)->common.extack, "The card matches " what); \
    -EOPNOTSUPP;                                                         \
  })

/* An interface of a tunnel that has rules. */
struct tunnel {
  struct nic_source source;
  struct list_head list;
};

static LIST_HEAD(tunnels);
static LIST_HEAD(block_callbacks);

static bool has(const struct flow_cls_offload* flow, enum flow_dissector_key_id key) {
  return flow_rule_match_key(flow->rule, key);
}

/* The tunnel's own addresses. Packets for others only pass by: the rule must say for whom. */
static int translate_addresses(const struct flow_cls_offload* flow, struct vnic_rule* rule) {
  struct flow_match_control control = {};
  u16 type = 0;

  if (has(flow, FLOW_DISSECTOR_KEY_ENC_CONTROL)) {
    flow_rule_match_enc_control(flow->rule, &control);
    type = control.key->addr_type;
  }
  if (type == FLOW_DISSECTOR_KEY_IPV4_ADDRS) {
    struct flow_match_ipv4_addrs match;

    flow_rule_match_enc_ipv4_addrs(flow->rule, &match);
    memcpy(rule->key.source_ip, &match.key->src, 4);
    memcpy(rule->mask.source_ip, &match.mask->src, 4);
    memcpy(rule->key.destination_ip, &match.key->dst, 4);
    memcpy(rule->mask.destination_ip, &match.mask->dst, 4);
    if (match.mask->dst != cpu_to_be32(~0u)) return REFUSE(flow, "a tunnel by its enc_dst_ip");
    return ETH_P_IP;
  }
  if (type == FLOW_DISSECTOR_KEY_IPV6_ADDRS) {
    struct flow_match_ipv6_addrs match;

    flow_rule_match_enc_ipv6_addrs(flow->rule, &match);
    memcpy(rule->key.source_ip, &match.key->src, 16);
    memcpy(rule->mask.source_ip, &match.mask->src, 16);
    memcpy(rule->key.destination_ip, &match.key->dst, 16);
    memcpy(rule->mask.destination_ip, &match.mask->dst, 16);
    if (memchr_inv(&match.mask->dst, 0xff, 16)) return REFUSE(flow, "a tunnel by its enc_dst_ip");
    return ETH_P_IPV6;
  }
  return REFUSE(flow, "a tunnel by its enc_dst_ip");
}

static int translate_port(const struct flow_cls_offload* flow, u16 port, struct vnic_rule* rule) {
  struct flow_match_ports match;

  if (port == NO_PORT)
    return has(flow, FLOW_DISSECTOR_KEY_ENC_PORTS) ? REFUSE(flow, "no ports of GRE") : 0;
  if (!has(flow, FLOW_DISSECTOR_KEY_ENC_PORTS)) return REFUSE(flow, "a tunnel by its enc_dst_port");
  flow_rule_match_enc_ports(flow->rule, &match);
  if (match.mask->dst != cpu_to_be16(0xffff) || match.key->dst != cpu_to_be16(port)) {
    return REFUSE(flow, "VXLAN with enc_dst_port 4789, Geneve with 6081");
  }
  memcpy(rule->key.source_port, &match.key->src, 2);
  memcpy(rule->mask.source_port, &match.mask->src, 2);
  memcpy(rule->key.destination_port, &match.key->dst, 2);
  memcpy(rule->mask.destination_port, &match.mask->dst, 2);
  return 0;
}

/* tc has options and their masks one after the other. */
static int translate_options(const struct flow_cls_offload* flow, struct vnic_more* more) {
  struct flow_match_enc_opts match;
  u32 at = 0, size;

  if (!has(flow, FLOW_DISSECTOR_KEY_ENC_OPTS)) return 0;
  flow_rule_match_enc_opts(flow->rule, &match);
  if (match.mask->len == 0) return 0;
  if (match.key->dst_opt_type != TUNNEL_GENEVE_OPT) return REFUSE(flow, "options of Geneve alone");
  for (; at + 4 <= match.key->len; at += size) {
    struct vnic_option* option = &more->options[more->option_count];

    size = 4 + 4 * (match.key->data[at + 3] & GENEVE_LENGTH);
    if (more->option_count == VNIC_OPTIONS_MAX || size > VNIC_OPTION_BYTES) {
      return REFUSE(flow, "two options of Geneve, with 32 bytes each");
    }
    option->size = size;
    memcpy(option->value, match.key->data + at, size);
    memcpy(option->mask, match.mask->data + at, size);
    option->mask[3] = GENEVE_LENGTH;
    ++more->option_count;
  }
  return 0;
}

int nic_translate_tunnel(const struct nic_source* source, const struct flow_cls_offload* flow,
                         struct vnic_rule* rule) {
  const u16 port = source->tunnel == VNIC_TUNNEL_GENEVE  ? GENEVE_PORT
                   : source->tunnel == VNIC_TUNNEL_VXLAN ? VXLAN_PORT
                                                         : NO_PORT;
  const __be16 frame = cpu_to_be16(ETH_P_TEB);
  struct vnic_more* more = &rule->more;
  int type = translate_addresses(flow, rule);

  if (type < 0) return type;
  rule->has_more = 1;
  rule->key.ether_type[0] = type >> 8;
  rule->key.ether_type[1] = type;
  memset(rule->mask.ether_type, 0xff, 2);
  rule->key.protocol = port == NO_PORT ? IPPROTO_GRE : IPPROTO_UDP;
  rule->mask.protocol = 0xff;
  more->tunnel.kind = source->tunnel;
  more->tunnel_mask.kind = 0xff;
  memcpy(more->tunnel.protocol, &frame, sizeof frame);
  memset(more->tunnel_mask.protocol, 0xff, sizeof frame);
  if (has(flow, FLOW_DISSECTOR_KEY_ENC_KEYID)) {
    struct flow_match_enc_keyid match;

    flow_rule_match_enc_keyid(flow->rule, &match);
    memcpy(more->tunnel.id, &match.key->keyid, sizeof more->tunnel.id);
    memcpy(more->tunnel_mask.id, &match.mask->keyid, sizeof more->tunnel.id);
  }
  if (has(flow, FLOW_DISSECTOR_KEY_ENC_IP)) {
    struct flow_match_ip match;

    flow_rule_match_enc_ip(flow->rule, &match);
    rule->key.traffic_class = match.key->tos;
    rule->mask.traffic_class = match.mask->tos;
    rule->key.hop_limit = match.key->ttl;
    rule->mask.hop_limit = match.mask->ttl;
  }
  return translate_port(flow, port, rule) ?: translate_options(flow, more);
}

static int on_block(enum tc_setup_type type, void* data, void* of) {
  const struct tunnel* tunnel = of;

  if (type != TC_SETUP_CLSFLOWER) return -EOPNOTSUPP;
  return nic_on_flower(&tunnel->source, data);
}

static void release(void* of) {
  struct tunnel* tunnel = of;

  list_del(&tunnel->list);
  kfree(tunnel);
}

static struct tunnel* find(const struct net_device* netdev) {
  struct tunnel* tunnel;

  list_for_each_entry(tunnel, &tunnels, list) {
    if (tunnel->source.netdev == netdev) return tunnel;
  }
  return NULL;
}

static int bind(struct net_device* netdev, struct Qdisc* qdisc, struct nic_card* card, u8 kind,
                struct flow_block_offload* block, void* data,
                void (*cleanup)(struct flow_block_cb*)) {
  struct tunnel* tunnel;
  struct flow_block_cb* callback;

  if (find(netdev)) return -EBUSY;
  tunnel = kzalloc(sizeof *tunnel, GFP_KERNEL);
  if (!tunnel) return -ENOMEM;
  tunnel->source = (struct nic_source){card->ports[0], netdev, kind};
  list_add(&tunnel->list, &tunnels);
  callback = flow_indr_block_cb_alloc(on_block, tunnel, tunnel, release, block, netdev, qdisc, data,
                                      card, cleanup);
  if (IS_ERR(callback)) {
    release(tunnel);
    return PTR_ERR(callback);
  }
  flow_block_cb_add(callback, block);
  list_add_tail(&callback->driver_list, &block_callbacks);
  return 0;
}

static int unbind(const struct net_device* netdev, struct flow_block_offload* block) {
  struct tunnel* tunnel = find(netdev);
  struct flow_block_cb* callback =
      tunnel ? flow_block_cb_lookup(block->block, on_block, tunnel) : NULL;

  if (!callback) return -ENOENT;
  flow_indr_block_cb_remove(callback, block);
  list_del(&callback->driver_list);
  return 0;
}

/* Of any interface that has no driver for rules. */
static int on_interface(struct net_device* netdev, struct Qdisc* qdisc, void* of,
                        enum tc_setup_type type, void* of_type, void* data,
                        void (*cleanup)(struct flow_block_cb*)) {
  struct flow_block_offload* block = of_type;
  u8 kind;

  if (!netdev || type != TC_SETUP_BLOCK) return -EOPNOTSUPP;
  kind = netif_is_vxlan(netdev)                                  ? VNIC_TUNNEL_VXLAN
         : netif_is_geneve(netdev)                               ? VNIC_TUNNEL_GENEVE
         : netif_is_gretap(netdev) || netif_is_ip6gretap(netdev) ? VNIC_TUNNEL_GRE
                                                                 : 0;
  if (!kind || block->binder_type != FLOW_BLOCK_BINDER_TYPE_CLSACT_INGRESS) return -EOPNOTSUPP;
  if (block->command == FLOW_BLOCK_BIND) {
    return bind(netdev, qdisc, of, kind, block, data, cleanup);
  }
  return unbind(netdev, block);
}

int nic_tunnels_begin(struct nic_card* card) { return flow_indr_dev_register(on_interface, card); }

void nic_tunnels_end(struct nic_card* card) {
  flow_indr_dev_unregister(on_interface, card, release);
}
