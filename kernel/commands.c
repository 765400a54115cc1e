// SPDX-License-Identifier: GPL-2.0
/* Commands: one at a time. tc wants to know whether a rule is in the card, so each is waited for.
 */
#include <linux/poll.h>

#include "nic.h"

#define WAIT (2 * HZ)

void nic_ring(struct nic_card* card) {
  smp_mb(); /* The post is before the look, as the card's word is before its last look. */
  if (READ_ONCE(card->region->asleep) == 0) return;
  WRITE_ONCE(card->is_rung, true);
  wake_up_interruptible_poll(&card->doorbell, EPOLLIN);
}

static bool has_answered(const struct nic_card* card) {
  return smp_load_acquire(&card->region->command_done) == card->commands;
}

/* -ENODEV: no card; -EBUSY: it has not answered the last one (it is stopped, say); -ETIMEDOUT: it
 * does not answer this one. Then it may execute the command later. */
int nic_command(struct nic_card* card, const struct vnic_command* command) {
  struct vnic_command* slot;

  lockdep_assert_held(&card->lock);
  if (!READ_ONCE(card->is_attached)) return -ENODEV;
  if (!has_answered(card)) return -EBUSY;
  slot = &card->region->commands[card->commands % VNIC_COMMANDS];
  *slot = *command;
  smp_store_release(&card->region->command_posted, ++card->commands);
  nic_ring(card);
  if (wait_event_timeout(card->answers, has_answered(card) || !READ_ONCE(card->is_attached),
                         WAIT) == 0) {
    return -ETIMEDOUT;
  }
  if (!READ_ONCE(card->is_attached)) return -ENODEV;
  return READ_ONCE(slot->result);
}

int nic_port_command(struct nic_card* card, u32 operation, u16 port) {
  struct vnic_command command = {.operation = operation};

  command.rule.port = port;
  return nic_command(card, &command);
}
