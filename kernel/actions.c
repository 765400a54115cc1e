// SPDX-License-Identifier: GPL-2.0
/* What a rule of tc flower does, in the card's words. */
#include <linux/if_vlan.h>

#include "nic.h"

/* tc gives what pedit changes of headers in words of 32 bits: they are gathered here, and become
 * actions when one comes that sees the frame. */
#define HEADER_BYTES 40
struct edits {
  const struct ip_tunnel_info* tunnel; /* What tunnel_key has set. */
  u8 value[FLOW_ACT_MANGLE_HDR_TYPE_UDP + 1][HEADER_BYTES];
  u8 changed[FLOW_ACT_MANGLE_HDR_TYPE_UDP + 1][HEADER_BYTES]; /* Bits. */
};

struct field {
  u8 header, offset, size;
  u16 kind;
};
static const struct field fields[] = {
    {FLOW_ACT_MANGLE_HDR_TYPE_ETH, 0, 6, VNIC_ACTION_SET_DESTINATION_MAC},
    {FLOW_ACT_MANGLE_HDR_TYPE_ETH, 6, 6, VNIC_ACTION_SET_SOURCE_MAC},
    {FLOW_ACT_MANGLE_HDR_TYPE_IP4, 8, 1, VNIC_ACTION_SET_HOP_LIMIT},
    {FLOW_ACT_MANGLE_HDR_TYPE_IP4, 12, 4, VNIC_ACTION_SET_SOURCE_IPV4},
    {FLOW_ACT_MANGLE_HDR_TYPE_IP4, 16, 4, VNIC_ACTION_SET_DESTINATION_IPV4},
    {FLOW_ACT_MANGLE_HDR_TYPE_IP6, 7, 1, VNIC_ACTION_SET_HOP_LIMIT},
    {FLOW_ACT_MANGLE_HDR_TYPE_IP6, 8, 16, VNIC_ACTION_SET_SOURCE_IPV6},
    {FLOW_ACT_MANGLE_HDR_TYPE_IP6, 24, 16, VNIC_ACTION_SET_DESTINATION_IPV6},
    {FLOW_ACT_MANGLE_HDR_TYPE_TCP, 0, 2, VNIC_ACTION_SET_SOURCE_PORT},
    {FLOW_ACT_MANGLE_HDR_TYPE_TCP, 2, 2, VNIC_ACTION_SET_DESTINATION_PORT},
    {FLOW_ACT_MANGLE_HDR_TYPE_UDP, 0, 2, VNIC_ACTION_SET_SOURCE_PORT},
    {FLOW_ACT_MANGLE_HDR_TYPE_UDP, 2, 2, VNIC_ACTION_SET_DESTINATION_PORT},
};

static int refuse(const struct flow_cls_offload* flow) {
  NL_SET_ERR_MSG_MOD(flow->common.extack, "The card does not do this");
  return -EOPNOTSUPP;
}

static struct vnic_action* add(struct vnic_rule* rule, u16 kind) {
  struct vnic_action* action;

  if (rule->action_count == VNIC_ACTIONS_MAX) return NULL;
  action = &rule->actions[rule->action_count++];
  action->kind = kind;
  return action;
}

static int add_value(const struct flow_cls_offload* flow, struct vnic_rule* rule, u16 kind,
                     u32 value) {
  struct vnic_action* action = add(rule, kind);

  if (!action) return refuse(flow);
  action->value = value;
  return 0;
}

static int gather(const struct flow_cls_offload* flow, const struct flow_action_entry* entry,
                  struct edits* edits) {
  const u32 header = entry->mangle.htype, at = entry->mangle.offset;
  const u8 *value = (const u8*)&entry->mangle.val, *kept = (const u8*)&entry->mangle.mask;
  u32 i;

  if (header > FLOW_ACT_MANGLE_HDR_TYPE_UDP || at > HEADER_BYTES - sizeof(u32)) {
    return refuse(flow);
  }
  for (i = 0; i < sizeof(u32); ++i) {
    const u8 changes = ~kept[i];

    edits->value[header][at + i] = (edits->value[header][at + i] & ~changes) | (value[i] & changes);
    edits->changed[header][at + i] |= changes;
  }
  return 0;
}

static int put_field(const struct flow_cls_offload* flow, const struct field* field,
                     struct edits* edits, struct vnic_rule* rule) {
  u8* changed = &edits->changed[field->header][field->offset];
  const u8* value = &edits->value[field->header][field->offset];
  struct vnic_action* action;
  u32 i;

  if (!memchr_inv(changed, 0, field->size)) return 0;
  if (memchr_inv(changed, 0xff, field->size)) return refuse(flow); /* A part of it. */
  action = add(rule, field->kind);
  if (!action) return refuse(flow);
  if (field->size > 2) {
    memcpy(action->bytes, value, field->size);
  } else {
    for (i = 0; i < field->size; ++i) action->value = action->value << 8 | value[i];
  }
  memset(changed, 0, field->size);
  return 0;
}

static int put_edits(const struct flow_cls_offload* flow, struct edits* edits,
                     struct vnic_rule* rule) {
  size_t i;

  for (i = 0; i < ARRAY_SIZE(fields); ++i) {
    const int error = put_field(flow, &fields[i], edits, rule);

    if (error) return error;
  }
  return memchr_inv(edits->changed, 0, sizeof edits->changed) ? refuse(flow) : 0;
}

static int output(const struct flow_cls_offload* flow, struct nic_card* card,
                  const struct net_device* to, struct vnic_rule* rule) {
  struct vnic_action* action;

  if (!nic_is_port(to, card)) {
    NL_SET_ERR_MSG_MOD(flow->common.extack, "The interface is not of the card");
    return -EOPNOTSUPP;
  }
  action = add(rule, VNIC_ACTION_OUTPUT);
  if (!action) return refuse(flow);
  action->port = ((const struct nic_port*)netdev_priv(to))->index;
  return 0;
}

/* A modified tag keeps its priority if none is said: tc says 0 then. */
static int set_tag(const struct flow_cls_offload* flow, const struct flow_action_entry* entry,
                   bool is_new, struct vnic_rule* rule) {
  int error = 0;

  if (is_new) {
    error = add_value(flow, rule, VNIC_ACTION_PUSH_VLAN, ntohs(entry->vlan.proto));
  }
  if (!error) error = add_value(flow, rule, VNIC_ACTION_SET_VLAN_ID, entry->vlan.vid);
  if (!error && entry->vlan.prio != 0) {
    error = add_value(flow, rule, VNIC_ACTION_SET_VLAN_PRIORITY, entry->vlan.prio);
  }
  return error;
}

static int police(const struct flow_cls_offload* flow, struct nic_card* card,
                  const struct flow_action_entry* entry, struct vnic_rule* rule) {
  int meter;

  if (rule->action_count == VNIC_ACTIONS_MAX) return refuse(flow);
  meter = nic_meter_get(card, flow, entry);
  return meter < 0 ? meter : add_value(flow, rule, VNIC_ACTION_METER, meter);
}

static int translate(const struct nic_source* source, const struct flow_cls_offload* flow,
                     u16 group, const struct flow_action_entry* entry, struct edits* edits,
                     struct nic_rule* of) {
  struct nic_card* card = source->port->card;
  struct vnic_rule* rule = &of->command.rule;

  switch (entry->id) {
    case FLOW_ACTION_CSUM: /* The card corrects checksums by itself. */
      return 0;
    case FLOW_ACTION_TUNNEL_ENCAP:
      edits->tunnel = entry->tunnel;
      return 0;
    case FLOW_ACTION_TUNNEL_DECAP: /* On a tunnel's interface, where the tunnel ends anyway. */
      edits->tunnel = NULL;
      return source->tunnel ? 0 : refuse(flow);
    case FLOW_ACTION_ACCEPT: /* The frame is software's, at its representor. */
    case FLOW_ACTION_TRAP:
      return add_value(flow, rule, VNIC_ACTION_MARK, 0);
    case FLOW_ACTION_DROP:
      return add_value(flow, rule, VNIC_ACTION_DROP, 0);
    case FLOW_ACTION_GOTO:
      return add_value(flow, rule, VNIC_ACTION_JUMP, group);
    case FLOW_ACTION_REDIRECT:
    case FLOW_ACTION_MIRRED:
      if (edits->tunnel && nic_encap_is_tunnel(entry->dev)) {
        return nic_encap_add(card, flow, entry, edits->tunnel, of);
      }
      return output(flow, card, entry->dev, rule);
    case FLOW_ACTION_VLAN_PUSH:
      return set_tag(flow, entry, true, rule);
    case FLOW_ACTION_VLAN_MANGLE:
      return set_tag(flow, entry, false, rule);
    case FLOW_ACTION_VLAN_POP:
      return add_value(flow, rule, VNIC_ACTION_POP_VLAN, 0);
    case FLOW_ACTION_POLICE:
      return police(flow, card, entry, rule);
    default:
      return refuse(flow);
  }
}

/* Whether the frame leaves the card, and its tunnel before that. */
static bool leaves_tunnel(const struct nic_source* source, const struct vnic_rule* rule) {
  const u16 last = rule->actions[rule->action_count - 1].kind;

  return source->tunnel && last != VNIC_ACTION_DROP && last != VNIC_ACTION_JUMP &&
         last != VNIC_ACTION_MARK;
}

static int take_tunnel_away(const struct flow_cls_offload* flow, struct vnic_rule* rule) {
  if (rule->action_count == VNIC_ACTIONS_MAX) return refuse(flow);
  memmove(rule->actions + 1, rule->actions, rule->action_count++ * sizeof *rule->actions);
  rule->actions[0] = (struct vnic_action){.kind = VNIC_ACTION_DECAPSULATE};
  return 0;
}

int nic_translate_actions(const struct nic_source* source, const struct flow_cls_offload* flow,
                          u16 group, struct nic_rule* of) {
  struct vnic_rule* rule = &of->command.rule;
  const struct flow_action* actions = &flow->rule->action;
  const struct flow_action_entry* entry;
  struct edits edits = {};
  int i, error = 0;

  if (!flow_action_has_entries(actions)) return refuse(flow);
  if (!flow_action_basic_hw_stats_check(actions, flow->common.extack)) return -EOPNOTSUPP;
  flow_action_for_each(i, entry, actions) {
    if (entry->id == FLOW_ACTION_MANGLE) {
      error = gather(flow, entry, &edits);
    } else {
      error = put_edits(flow, &edits, rule);
      if (!error) error = translate(source, flow, group, entry, &edits, of);
    }
    if (error) return error;
  }
  error = put_edits(flow, &edits, rule);
  if (error || rule->action_count == 0) return error;
  return leaves_tunnel(source, rule) ? take_tunnel_away(flow, rule) : 0;
}
