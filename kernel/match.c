// SPDX-License-Identifier: GPL-2.0
/* What a rule of tc flower matches, in the card's words. What the card does not know is refused. */
#include <linux/if_vlan.h>

#include "nic.h"

#define TAG_PRESENT 0x10 /* In the first byte of vnic_match.vlan_tag. */

/* Where fields of tc go: those of the frame, or of the frame that is in a tunnel. */
struct layer {
  struct vnic_match *key, *mask;
};

/* A field of a match of tc goes to a field of a layer; it may be shorter. */
#define TAKE(layer, field, match, member)                                               \
  do {                                                                                  \
    BUILD_BUG_ON(sizeof((match).key->member) > sizeof((layer)->key->field));            \
    memcpy(&(layer)->key->field, &(match).key->member, sizeof((match).key->member));    \
    memcpy(&(layer)->mask->field, &(match).mask->member, sizeof((match).mask->member)); \
  } while (0)

#define KEY(name) BIT(FLOW_DISSECTOR_KEY_##name)

static const u32 tunnel_keys = KEY(ENC_KEYID) | KEY(ENC_CONTROL) | KEY(ENC_IPV4_ADDRS) |
                               KEY(ENC_IPV6_ADDRS) | KEY(ENC_PORTS) | KEY(ENC_IP) | KEY(ENC_OPTS);
static const u32 known_keys = KEY(CONTROL) | KEY(BASIC) | KEY(ETH_ADDRS) | KEY(VLAN) |
                              KEY(IPV4_ADDRS) | KEY(IPV6_ADDRS) | KEY(IP) | KEY(PORTS) | KEY(TCP) |
                              KEY(ICMP) | KEY(META) | KEY(PORTS_RANGE);

#define REFUSE(flow, what)                                                      \
  ({                                                                            \
    NL_SET_ERR_MSG_MOD((flow)->common.extack, "The card does not match " what); \
    -EOPNOTSUPP;                                                                \
  })

static bool has(const struct flow_cls_offload* flow, enum flow_dissector_key_id key) {
  return flow_rule_match_key(flow->rule, key);
}

/* Type of the frame and its first tag. A rule for IP, say, is for frames without a tag. */
static int translate_types(const struct flow_cls_offload* flow, struct layer* to) {
  const __be16 protocol = flow->common.protocol;

  if (has(flow, FLOW_DISSECTOR_KEY_BASIC)) {
    struct flow_match_basic match;

    flow_rule_match_basic(flow->rule, &match);
    TAKE(to, ether_type, match, n_proto);
    TAKE(to, protocol, match, ip_proto);
  }
  if (protocol == htons(ETH_P_ALL)) return 0;
  to->mask->vlan_tag[0] |= TAG_PRESENT;
  if (eth_type_vlan(protocol)) {
    to->key->vlan_tag[0] |= TAG_PRESENT;
    memcpy(to->key->vlan_protocol, &protocol, sizeof protocol);
    memset(to->mask->vlan_protocol, 0xff, sizeof protocol);
  } else {
    memcpy(to->key->ether_type, &protocol, sizeof protocol);
    memset(to->mask->ether_type, 0xff, sizeof protocol);
  }
  return 0;
}

static int translate_vlan(const struct flow_cls_offload* flow, struct layer* to) {
  struct flow_match_vlan match;
  u16 key, mask;

  if (!has(flow, FLOW_DISSECTOR_KEY_VLAN)) return 0;
  flow_rule_match_vlan(flow->rule, &match);
  if (match.mask->vlan_dei) return REFUSE(flow, "the drop-eligible bit");
  key = match.key->vlan_priority << VLAN_PRIO_SHIFT | match.key->vlan_id;
  mask = match.mask->vlan_priority << VLAN_PRIO_SHIFT | match.mask->vlan_id;
  to->key->vlan_tag[0] = key >> 8 | TAG_PRESENT;
  to->key->vlan_tag[1] = key;
  to->mask->vlan_tag[0] = mask >> 8 | TAG_PRESENT;
  to->mask->vlan_tag[1] = mask;
  if (match.mask->vlan_tpid) TAKE(to, vlan_protocol, match, vlan_tpid);
  return 0;
}

/* None: 0 of both bits; the first: 1; later ones: 3. */
static int translate_fragment(const struct flow_cls_offload* flow,
                              const struct flow_match_control* match, struct layer* to) {
  const u32 mask = match->mask->flags, key = match->key->flags & mask;

  if (mask & ~(FLOW_DIS_IS_FRAGMENT | FLOW_DIS_FIRST_FRAG)) return REFUSE(flow, "these flags");
  if (mask == 0) return 0;
  to->mask->fragment = VNIC_FRAGMENT_LATER;
  if (key & FLOW_DIS_FIRST_FRAG) {
    to->key->fragment = VNIC_FRAGMENT_FIRST;
  } else if (!(mask & FLOW_DIS_IS_FRAGMENT)) {
    return REFUSE(flow, "no first fragment");
  } else if (key & FLOW_DIS_IS_FRAGMENT) {
    to->key->fragment = mask & FLOW_DIS_FIRST_FRAG ? VNIC_FRAGMENT_LATER : VNIC_FRAGMENT_FIRST;
    if (!(mask & FLOW_DIS_FIRST_FRAG)) to->mask->fragment = VNIC_FRAGMENT_FIRST;
  }
  return 0;
}

static int translate_addresses(const struct flow_cls_offload* flow, struct layer* to) {
  struct flow_match_control control;
  u16 type = 0;

  if (has(flow, FLOW_DISSECTOR_KEY_CONTROL)) {
    const int error =
        (flow_rule_match_control(flow->rule, &control), translate_fragment(flow, &control, to));

    if (error) return error;
    type = control.key->addr_type;
  }
  if (type == FLOW_DISSECTOR_KEY_IPV4_ADDRS) {
    struct flow_match_ipv4_addrs match;

    flow_rule_match_ipv4_addrs(flow->rule, &match);
    TAKE(to, source_ip, match, src);
    TAKE(to, destination_ip, match, dst);
  } else if (type == FLOW_DISSECTOR_KEY_IPV6_ADDRS) {
    struct flow_match_ipv6_addrs match;

    flow_rule_match_ipv6_addrs(flow->rule, &match);
    TAKE(to, source_ip, match, src);
    TAKE(to, destination_ip, match, dst);
  }
  return 0;
}

static void add_port_range(struct vnic_rule* rule, size_t at, __be16 low, __be16 high) {
  struct vnic_range* range = &rule->more.ranges[rule->more.range_count++];

  range->is_inner = rule->more.tunnel_mask.kind != 0;
  range->at = at;
  range->size = sizeof low;
  memset(range->mask, 0xff, sizeof low);
  memcpy(range->low, &low, sizeof low);
  memcpy(range->high, &high, sizeof high);
}

static void translate_port_ranges(const struct flow_cls_offload* flow, struct vnic_rule* rule) {
  struct flow_match_ports_range match;

  if (!has(flow, FLOW_DISSECTOR_KEY_PORTS_RANGE)) return;
  flow_rule_match_ports_range(flow->rule, &match);
  if (match.mask->tp_min.src != 0) {
    add_port_range(rule, offsetof(struct vnic_match, source_port), match.key->tp_min.src,
                   match.key->tp_max.src);
  }
  if (match.mask->tp_min.dst != 0) {
    add_port_range(rule, offsetof(struct vnic_match, destination_port), match.key->tp_min.dst,
                   match.key->tp_max.dst);
  }
}

static int translate_transport(const struct flow_cls_offload* flow, struct layer* to,
                               struct vnic_rule* rule) {
  if (has(flow, FLOW_DISSECTOR_KEY_PORTS)) {
    struct flow_match_ports match;

    flow_rule_match_ports(flow->rule, &match);
    TAKE(to, source_port, match, src);
    TAKE(to, destination_port, match, dst);
  }
  translate_port_ranges(flow, rule);
  if (has(flow, FLOW_DISSECTOR_KEY_TCP)) {
    struct flow_match_tcp match;

    flow_rule_match_tcp(flow->rule, &match);
    TAKE(to, tcp_flags, match, flags);
  }
  if (has(flow, FLOW_DISSECTOR_KEY_ICMP)) {
    struct flow_match_icmp match;

    flow_rule_match_icmp(flow->rule, &match);
    if (to->key->protocol != IPPROTO_ICMP) return REFUSE(flow, "types of ICMPv6");
    to->key->source_port[1] = match.key->type;
    to->mask->source_port[1] = match.mask->type;
    to->key->destination_port[1] = match.key->code;
    to->mask->destination_port[1] = match.mask->code;
  }
  return 0;
}

static int translate_rest(const struct flow_cls_offload* flow, struct layer* to) {
  if (has(flow, FLOW_DISSECTOR_KEY_ETH_ADDRS)) {
    struct flow_match_eth_addrs match;

    flow_rule_match_eth_addrs(flow->rule, &match);
    TAKE(to, source_mac, match, src);
    TAKE(to, destination_mac, match, dst);
  }
  if (has(flow, FLOW_DISSECTOR_KEY_IP)) {
    struct flow_match_ip match;

    flow_rule_match_ip(flow->rule, &match);
    TAKE(to, traffic_class, match, tos);
    TAKE(to, hop_limit, match, ttl);
  }
  return 0;
}

static void keep_masked(void* key, const void* mask, size_t size) {
  size_t i;

  for (i = 0; i < size; ++i) ((u8*)key)[i] &= ((const u8*)mask)[i];
}

/* A block that interfaces share gives each of them the rules for one of them. */
static int translate_source(const struct nic_source* source, const struct flow_cls_offload* flow,
                            bool* is_elsewhere) {
  const struct nic_card* card = source->port->card;
  struct flow_match_meta match;
  int wanted;
  u32 i;

  if (!has(flow, FLOW_DISSECTOR_KEY_META)) return 0;
  flow_rule_match_meta(flow->rule, &match);
  if (match.mask->ingress_ifindex == 0) return 0;
  wanted = match.key->ingress_ifindex & match.mask->ingress_ifindex;
  *is_elsewhere = wanted != source->netdev->ifindex;
  if (!*is_elsewhere) return 0;
  for (i = 0; i < card->attach.welcome.ports; ++i) {
    if (card->ports[i]->netdev->ifindex == wanted) return 0;
  }
  return REFUSE(flow, "frames of an interface that is not its own");
}

int nic_translate_match(const struct nic_source* source, const struct flow_cls_offload* flow,
                        struct vnic_rule* rule, bool* is_elsewhere) {
  struct layer to = {&rule->key, &rule->mask};
  struct vnic_tunnel *inner = &rule->more.tunnel, *inner_mask = &rule->more.tunnel_mask;
  int error = 0;

  if (flow->rule->match.dissector->used_keys & ~(known_keys | (source->tunnel ? tunnel_keys : 0))) {
    return REFUSE(flow, "this field");
  }
  if (source->tunnel) {
    error = nic_translate_tunnel(source, flow, rule);
    to = (struct layer){&inner->inner, &inner_mask->inner};
  }
  if (!error) error = translate_types(flow, &to);
  if (!error) error = translate_vlan(flow, &to);
  if (!error) error = translate_addresses(flow, &to);
  if (!error) error = translate_transport(flow, &to, rule);
  if (!error) error = translate_rest(flow, &to);
  if (!error) error = translate_source(source, flow, is_elsewhere);
  keep_masked(&rule->key, &rule->mask, sizeof rule->key);
  keep_masked(inner, inner_mask, sizeof *inner);
  if (rule->more.range_count != 0) rule->has_more = 1;
  return error;
}
