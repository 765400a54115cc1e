// SPDX-License-Identifier: GPL-2.0
/* tc flower rules. tc names a rule by a cookie; a block that interfaces share has it once for each.
 */
#include <linux/slab.h>

#include "nic.h"

#define NO_ID U32_MAX

static LIST_HEAD(block_callbacks);

static unsigned long place_of(unsigned long cookie, const struct net_device* netdev) {
  return cookie ^ netdev->ifindex;
}

static struct nic_rule* find(const struct nic_source* source, unsigned long cookie) {
  struct nic_rule* rule;

  hash_for_each_possible(source->port->card->rules, rule, node, place_of(cookie, source->netdev)) {
    if (rule->cookie == cookie && rule->netdev == source->netdev) return rule;
  }
  return NULL;
}

/* tc's chains have any number, the card's groups are few. Returns the group, or -ENOSPC. */
static int group_get(struct nic_card* card, u32 chain) {
  u16 group, free = 0;

  if (chain == 0) return 0;
  for (group = NIC_GROUPS - 1; group != 0; --group) {
    const struct nic_chain* known = &card->chains[group];

    if (known->users != 0 && known->index == chain) break;
    if (known->users == 0) free = group;
  }
  if (group == 0) group = free;
  if (group == 0) return -ENOSPC;
  card->chains[group].index = chain;
  ++card->chains[group].users;
  return group;
}

static void free_rule(struct nic_card* card, struct nic_rule* rule) {
  size_t i;

  for (i = 0; i < ARRAY_SIZE(rule->groups); ++i) {
    if (rule->groups[i] != 0) --card->chains[rule->groups[i]].users;
  }
  nic_meters_put(card, &rule->command.rule);
  if (rule->encap) WRITE_ONCE(card->encaps, card->encaps - 1);
  kfree(rule->encap);
  if (rule->command.rule.id != NO_ID) ida_free(&card->ids, rule->command.rule.id);
  kfree(rule);
}

static const struct vnic_counter* counter_of(struct nic_card* card, const struct nic_rule* rule) {
  return &vnic_counters(card->region)[rule->command.rule.id];
}

/* Frames for a tunnel whose other end is not known are software's. */
static int post(struct nic_card* card, struct nic_rule* rule) {
  struct vnic_rule* of_card = &rule->command.rule;
  const struct vnic_action first = of_card->actions[0];
  const u16 count = of_card->action_count;
  int error;

  if (!rule->encap || nic_encap_is_known(rule->encap)) return nic_command(card, &rule->command);
  of_card->actions[0] = (struct vnic_action){.kind = VNIC_ACTION_MARK};
  of_card->action_count = 1;
  error = nic_command(card, &rule->command);
  of_card->actions[0] = first;
  of_card->action_count = count;
  return error;
}

static int insert(struct nic_card* card, struct nic_rule* rule) {
  int error;

  /* It goes on from what the id's last rule has counted. */
  if (!rule->is_posted) rule->told = *counter_of(card, rule);
  rule->command.operation = VNIC_INSERT;
  error = post(card, rule);
  if (error == -EEXIST) error = 0; /* An earlier command that was not answered in time. */
  rule->is_inserted = !error;
  rule->is_posted |= error == -ETIMEDOUT;
  return error;
}

/* Returns whether the card does not have the rule any more. */
static bool erase(struct nic_card* card, struct nic_rule* rule) {
  int error;

  rule->command.operation = VNIC_ERASE;
  error = nic_command(card, &rule->command);
  return error == 0 || error == -ENOENT || error == -ENODEV;
}

/* A card that does not answer may have the rule all the same: its id is used again when it has said
 * that it has not. */
static void end_rule(struct nic_card* card, struct nic_rule* rule, bool may_be_there) {
  if (!may_be_there || erase(card, rule)) {
    free_rule(card, rule);
    return;
  }
  list_add_tail(&rule->dying, &card->dying);
  mod_delayed_work(system_wq, &card->catch_up, HZ / 10);
}

static u32 goto_chain(const struct flow_rule* rule) {
  const struct flow_action_entry* action;
  int i;

  flow_action_for_each(i, action, &rule->action) {
    if (action->id == FLOW_ACTION_GOTO) return action->chain_index;
  }
  return 0;
}

static int take_places(struct nic_card* card, const struct flow_cls_offload* flow,
                       struct nic_rule* rule) {
  const u32 chains[] = {flow->common.chain_index, goto_chain(flow->rule)};
  size_t i;
  int id = ida_alloc_max(&card->ids, card->attach.welcome.rules_max - 1, GFP_KERNEL);

  if (id < 0) return id;
  rule->command.rule.id = id;
  for (i = 0; i < ARRAY_SIZE(chains); ++i) {
    const int group = group_get(card, chains[i]);

    if (group < 0) {
      NL_SET_ERR_MSG_MOD(flow->common.extack, "The card has no room for another chain");
      return group;
    }
    rule->groups[i] = group;
  }
  rule->command.rule.group = rule->groups[0];
  return 0;
}

/* The lock is held. */
static int add(const struct nic_source* source, const struct flow_cls_offload* flow,
               struct nic_rule* rule) {
  struct nic_card* card = source->port->card;
  int error = take_places(card, flow, rule);

  if (!error) error = nic_translate_actions(source, flow, rule->groups[1], rule);
  if (!error && !rule->is_elsewhere) error = insert(card, rule);
  if (!error) {
    hash_add(card->rules, &rule->node, place_of(rule->cookie, rule->netdev));
    return 0;
  }
  if (error == -EINVAL) { /* It checks what stands together: a policer before a drop, say. */
    NL_SET_ERR_MSG_MOD(flow->common.extack, "The card does not do this");
    error = -EOPNOTSUPP;
  }
  if (error == -ETIMEDOUT) NL_SET_ERR_MSG_MOD(flow->common.extack, "The card does not answer");
  if (error == -ENODEV) NL_SET_ERR_MSG_MOD(flow->common.extack, "No card is attached");
  if (error == -ENOSPC) NL_SET_ERR_MSG_MOD(flow->common.extack, "The card's table is full");
  end_rule(card, rule, error == -ETIMEDOUT);
  return error;
}

static int replace(const struct nic_source* source, const struct flow_cls_offload* flow) {
  struct nic_rule* rule = kzalloc(sizeof *rule, GFP_KERNEL);
  int error;

  if (!rule) return -ENOMEM;
  rule->cookie = flow->cookie;
  rule->command.rule.id = NO_ID;
  rule->netdev = source->netdev;
  rule->command.rule.port = source->port->index;
  rule->command.rule.priority = flow->common.prio;
  error = nic_translate_match(source, flow, &rule->command.rule, &rule->is_elsewhere);
  if (error) {
    kfree(rule);
    return error;
  }
  mutex_lock(&source->port->card->lock);
  error = add(source, flow, rule);
  mutex_unlock(&source->port->card->lock);
  return error;
}

static int destroy(const struct nic_source* source, const struct flow_cls_offload* flow) {
  struct nic_card* card = source->port->card;
  struct nic_rule* rule;

  mutex_lock(&card->lock);
  rule = find(source, flow->cookie);
  if (rule) {
    hash_del(&rule->node);
    end_rule(card, rule, rule->is_inserted || rule->is_posted);
  }
  mutex_unlock(&card->lock);
  return rule ? 0 : -ENOENT;
}

static int statistics(const struct nic_source* source, struct flow_cls_offload* flow) {
  struct nic_card* card = source->port->card;
  struct vnic_counter now, new;
  struct nic_rule* rule;

  mutex_lock(&card->lock);
  rule = find(source, flow->cookie);
  if (rule) {
    new = rule->before;
    if (rule->is_inserted) {
      now = *counter_of(card, rule);
      new.packets += now.packets - rule->told.packets;
      new.bytes += now.bytes - rule->told.bytes;
      rule->told = now;
    }
    memset(&rule->before, 0, sizeof rule->before);
    if (new.packets != 0) {
      rule->last_used = get_jiffies_64();
      if (rule->encap) nic_encap_used(card, rule->encap);
    }
    flow_stats_update(&flow->stats, new.bytes, new.packets, 0, rule->last_used,
                      FLOW_ACTION_HW_STATS_DELAYED);
  }
  mutex_unlock(&card->lock);
  return rule ? 0 : -ENOENT;
}

int nic_on_flower(const struct nic_source* source, struct flow_cls_offload* flow) {
  switch (flow->command) {
    case FLOW_CLS_REPLACE:
      return replace(source, flow);
    case FLOW_CLS_DESTROY:
      return destroy(source, flow);
    case FLOW_CLS_STATS:
      return statistics(source, flow);
    default:
      return -EOPNOTSUPP;
  }
}

static int on_block(enum tc_setup_type type, void* data, void* of) {
  struct nic_port* port = of;

  if (type != TC_SETUP_CLSFLOWER || !tc_can_offload(port->netdev)) return -EOPNOTSUPP;
  return nic_on_flower(&(struct nic_source){.port = port, .netdev = port->netdev}, data);
}

int nic_setup_tc(struct net_device* netdev, enum tc_setup_type type, void* data) {
  struct nic_port* port = netdev_priv(netdev);

  if (type != TC_SETUP_BLOCK) return -EOPNOTSUPP;
  return flow_block_cb_setup_simple(data, &block_callbacks, on_block, port, port, true);
}

static void lose(struct nic_card* card, struct nic_rule* rule) {
  const struct vnic_counter* counter = counter_of(card, rule);

  if (!rule->is_inserted && !rule->is_posted) return;
  rule->before.packets += counter->packets - rule->told.packets;
  rule->before.bytes += counter->bytes - rule->told.bytes;
  rule->is_inserted = rule->is_posted = false;
}

void nic_rules_lose(struct nic_card* card) {
  struct nic_rule* rule;
  int bucket;

  hash_for_each(card->rules, bucket, rule, node) lose(card, rule);
}

/* A tunnel's way may be another one now: then the rule is told again. Returns false if the card
 * does not answer. */
static bool refresh(struct nic_card* card, struct nic_rule* rule) {
  if (!rule->encap) return true;
  rule->is_stale |= nic_encap_resolve(card, rule) == 1;
  if (!rule->is_stale) return true;
  if ((rule->is_inserted || rule->is_posted) && !erase(card, rule)) return false;
  lose(card, rule);
  rule->is_stale = false;
  return true;
}

bool nic_rules_replay(struct nic_card* card) {
  struct nic_rule *rule, *next;
  int bucket;

  list_for_each_entry_safe(rule, next, &card->dying, dying) {
    if (READ_ONCE(card->is_attached) && !erase(card, rule)) return false;
    list_del(&rule->dying);
    free_rule(card, rule);
  }
  if (READ_ONCE(card->is_attached) && nic_is_silent(nic_meters_replay(card))) return false;
  hash_for_each(card->rules, bucket, rule, node) {
    int error;

    if (!refresh(card, rule)) return false;
    if (rule->is_inserted || rule->is_elsewhere || !READ_ONCE(card->is_attached)) continue;
    error = insert(card, rule);
    if (nic_is_silent(error)) return false;
    if (error) dev_warn(&card->device->dev, "a rule is lost: %d\n", error);
  }
  return true;
}
