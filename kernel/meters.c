// SPDX-License-Identifier: GPL-2.0
/* Policers of tc as meters of the card. */
#include "nic.h"

#define RED 4 /* Of the colors that are dropped. */

#define REFUSE(flow, what)                                                       \
  ({                                                                             \
    NL_SET_ERR_MSG_MOD((flow)->common.extack, "The card does not police " what); \
    -EOPNOTSUPP;                                                                 \
  })

/* What exceeds is dropped, the rest goes on: a bucket of RFC 2697 without excess. */
static int translate(const struct flow_cls_offload* flow, const struct flow_action_entry* entry,
                     struct vnic_meter* meter) {
  const bool is_last = flow_action_is_last_entry(&flow->rule->action, entry);

  if (entry->police.exceed.act_id != FLOW_ACTION_DROP) return REFUSE(flow, "without a drop");
  if (entry->police.notexceed.act_id != FLOW_ACTION_PIPE &&
      !(entry->police.notexceed.act_id == FLOW_ACTION_ACCEPT && is_last)) {
    return REFUSE(flow, "with another action than to go on");
  }
  if (entry->police.peakrate_bytes_ps || entry->police.avrate || entry->police.overhead) {
    return REFUSE(flow, "by a peak rate, an average or an overhead");
  }
  meter->algorithm = VNIC_METER_SINGLE_RATE;
  meter->drops = RED;
  meter->counts_packets = entry->police.rate_bytes_ps == 0;
  meter->committed_rate =
      meter->counts_packets ? entry->police.rate_pkt_ps : entry->police.rate_bytes_ps;
  meter->committed_burst = meter->counts_packets ? entry->police.burst_pkt : entry->police.burst;
  return 0;
}

static int tell(struct nic_card* card, const struct nic_meter* meter) {
  struct vnic_command command = {.operation = VNIC_SET_METER};

  command.meter = meter->wanted;
  return nic_command(card, &command);
}

/* Returns the card's number, or a negative errno value. */
int nic_meter_get(struct nic_card* card, const struct flow_cls_offload* flow,
                  const struct flow_action_entry* entry) {
  struct vnic_meter wanted = {};
  int error = translate(flow, entry, &wanted);
  struct nic_meter *meter, *free = NULL;
  u32 i;

  if (error) return error;
  for (i = 0; i < VNIC_METERS_MAX; ++i) {
    meter = &card->meters[i];
    if (meter->users == 0) {
      if (!free) free = meter;
    } else if (meter->index == entry->hw_index) {
      break;
    }
  }
  if (i == VNIC_METERS_MAX) meter = free;
  if (!meter) return -ENOSPC;
  wanted.id = meter - card->meters;
  if (meter->users == 0 || memcmp(&meter->wanted, &wanted, sizeof wanted) != 0) {
    meter->wanted = wanted;
    error = tell(card, meter);
    if (error) return error;
  }
  meter->index = entry->hw_index;
  ++meter->users;
  return wanted.id;
}

/* The rule ends, or was not made: it names a meter for each use that was counted. */
void nic_meters_put(struct nic_card* card, const struct vnic_rule* rule) {
  struct vnic_command command = {.operation = VNIC_CLEAR_METER};
  u32 i;

  for (i = 0; i < rule->action_count; ++i) {
    if (rule->actions[i].kind != VNIC_ACTION_METER) continue;
    if (--card->meters[rule->actions[i].value].users != 0) continue;
    command.meter.id = rule->actions[i].value;
    nic_command(card, &command); /* One that is left there is given other rates when it is used. */
  }
}

int nic_meters_replay(struct nic_card* card) {
  u32 i;

  for (i = 0; i < VNIC_METERS_MAX; ++i) {
    const int error = card->meters[i].users == 0 ? 0 : tell(card, &card->meters[i]);

    if (error) return error;
  }
  return 0;
}
