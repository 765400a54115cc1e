// SPDX-License-Identifier: GPL-2.0
/* The device by which a card attaches, and the module's beginning and end. */
#include <linux/miscdevice.h>
#include <linux/module.h>
#include <linux/poll.h>
#include <linux/rtnetlink.h>
#include <linux/uaccess.h>
#include <linux/vmalloc.h>
#include <net/fib_notifier.h>
#include <net/netevent.h>

#include "nic.h"

#define RULES_MAX (1u << 22)

/* As in C++ (ring.h). */
static_assert(sizeof(struct vnic_match) == 64 && sizeof(struct vnic_descriptor) == 16);

static struct nic_card* the_card; /* One for each machine. */

static u64 region_bytes(u32 rules) { return PAGE_ALIGN(vnic_region_bytes(rules)); }

static int device_open(struct inode* inode, struct file* file) {
  int error = 0;

  mutex_lock(&the_card->lock);
  if (the_card->is_open) error = -EBUSY;
  the_card->is_open = true;
  mutex_unlock(&the_card->lock);
  file->private_data = the_card;
  return error;
}

/* The card has ended: its rules and what it would have forwarded end with it, until the next one.
 */
static int device_release(struct inode* inode, struct file* file) {
  struct nic_card* card = file->private_data;

  WRITE_ONCE(card->is_attached, false);
  wake_up_all(&card->answers);
  nic_ports_link(card, false);
  mutex_lock(&card->lock);
  if (card->region) nic_rules_lose(card);
  card->is_open = false;
  mutex_unlock(&card->lock);
  return 0;
}

static int allocate(struct nic_card* card, struct vnic_attach* attach) {
  struct vnic_welcome* welcome = &attach->welcome;

  welcome->region_bytes = region_bytes(welcome->rules_max);
  attach->memory.offset = welcome->region_bytes;
  attach->memory.address = attach->memory.offset;
  attach->memory.length = PAGE_ALIGN(welcome->ports * 2ull * NIC_DEPTH * NIC_BUFFER_BYTES);
  card->region = vmalloc_user(welcome->region_bytes);
  card->buffers = vmalloc_user(attach->memory.length);
  if (!card->region || !card->buffers) {
    vfree(card->region);
    vfree(card->buffers);
    card->region = card->buffers = NULL;
    return -ENOMEM;
  }
  return 0;
}

/* The first card decides how many ports and rules there are; a later one has the same. */
static int first_attach(struct nic_card* card, struct vnic_attach* attach) {
  int error = allocate(card, attach);

  if (error) return error;
  card->attach = *attach;
  error = nic_ports_create(card);
  if (!error) {
    error = nic_tunnels_begin(card);
    if (error) nic_ports_destroy(card);
  }
  if (error) {
    vfree(card->region);
    vfree(card->buffers);
    card->region = card->buffers = NULL;
  }
  return error;
}

static int attach_again(struct nic_card* card, struct vnic_attach* attach) {
  const struct vnic_welcome* was = &card->attach.welcome;

  if (attach->welcome.ports != was->ports || attach->welcome.mode != was->mode ||
      attach->welcome.rules_max != was->rules_max) {
    return -EINVAL;
  }
  memcpy(card->attach.welcome.macs, attach->welcome.macs, sizeof was->macs);
  *attach = card->attach;
  memset(card->region, 0, was->region_bytes);
  return 0;
}

/* One card attaches at a time. */
static DEFINE_MUTEX(attach_lock);

static long attach_card(struct nic_card* card, struct vnic_attach __user* from) {
  struct vnic_attach attach;
  int error;

  if (copy_from_user(&attach, from, sizeof attach)) return -EFAULT;
  if (attach.header.magic != VNIC_MAGIC || attach.header.version != VNIC_VERSION) {
    return -EPROTONOSUPPORT;
  }
  if (attach.welcome.ports == 0 || attach.welcome.ports > VNIC_PORTS_MAX ||
      attach.welcome.rules_max == 0 || attach.welcome.rules_max > RULES_MAX) {
    return -EINVAL;
  }
  if (READ_ONCE(card->is_attached)) return -EALREADY;
  error = card->region ? attach_again(card, &attach) : first_attach(card, &attach);
  if (error) return error;
  if (copy_to_user(from, &attach, sizeof attach)) return -EFAULT;
  rtnl_lock(); /* No port is opened or stopped meanwhile; who waits for a card does not: none is. */
  card->commands = 0;
  nic_ports_reset(card);
  WRITE_ONCE(card->is_attached, true);
  rtnl_unlock();
  nic_ports_link(card, true);
  mod_delayed_work(system_wq, &card->catch_up, 0);
  return 0;
}

static long device_ioctl(struct file* file, unsigned int command, unsigned long argument) {
  long error;

  if (command != VNIC_ATTACH) return -ENOTTY;
  mutex_lock(&attach_lock);
  error = attach_card(file->private_data, (struct vnic_attach __user*)argument);
  mutex_unlock(&attach_lock);
  return error;
}

static int device_mmap(struct file* file, struct vm_area_struct* area) {
  struct nic_card* card = file->private_data;
  const unsigned long buffers_at = card->attach.memory.offset >> PAGE_SHIFT;

  if (!card->region) return -ENODEV;
  if (area->vm_pgoff < buffers_at) {
    return remap_vmalloc_range(area, card->region, area->vm_pgoff);
  }
  return remap_vmalloc_range(area, card->buffers, area->vm_pgoff - buffers_at);
}

static __poll_t device_poll(struct file* file, poll_table* table) {
  struct nic_card* card = file->private_data;

  poll_wait(file, &card->doorbell, table);
  return READ_ONCE(card->is_rung) ? EPOLLIN | EPOLLRDNORM : 0;
}

static ssize_t device_read(struct file* file, char __user* to, size_t size, loff_t* at) {
  struct nic_card* card = file->private_data;

  return xchg(&card->is_rung, false) ? 0 : -EAGAIN;
}

static ssize_t device_write(struct file* file, const char __user* from, size_t size, loff_t* at) {
  struct nic_card* card = file->private_data;

  if (!READ_ONCE(card->is_attached)) return -ENODEV;
  if (wq_has_sleeper(&card->answers)) wake_up_all(&card->answers);
  nic_ports_interrupt(card);
  return size;
}

static const struct file_operations device_operations = {
    .owner = THIS_MODULE,
    .open = device_open,
    .release = device_release,
    .unlocked_ioctl = device_ioctl,
    .mmap = device_mmap,
    .poll = device_poll,
    .read = device_read,
    .write = device_write,
};

static struct miscdevice device = {
    .minor = MISC_DYNAMIC_MINOR,
    .name = VNIC_DEVICE,
    .fops = &device_operations,
    .mode = 0600,
};

/* What could not be done at once: ports and rules of a card that has attached, rules that are to be
 * erased while it did not answer. */
static void catch_up(struct work_struct* work) {
  struct nic_card* card = container_of(to_delayed_work(work), struct nic_card, catch_up);
  bool is_done;

  rtnl_lock();
  is_done = nic_ports_start(card);
  rtnl_unlock();
  mutex_lock(&card->lock);
  is_done = nic_rules_replay(card) && is_done;
  mutex_unlock(&card->lock);
  if (!is_done) mod_delayed_work(system_wq, &card->catch_up, HZ / 10);
}

static void look_for_ways(struct work_struct* work) {
  struct nic_card* card = container_of(work, struct nic_card, look_for_ways);

  rtnl_lock(); /* Some changes are told while they are being made. */
  rtnl_unlock();
  mutex_lock(&card->lock);
  if (!nic_rules_replay(card)) mod_delayed_work(system_wq, &card->catch_up, HZ / 10);
  mutex_unlock(&card->lock);
}

/* Of any interface, in any context: which rules are concerned is seen later. */
static int on_change(struct nic_card* card) {
  if (READ_ONCE(card->encaps) != 0) schedule_work(&card->look_for_ways);
  return NOTIFY_DONE;
}

static int on_neighbour(struct notifier_block* block, unsigned long event, void* what) {
  return on_change(container_of(block, struct nic_card, neighbours));
}

static int on_route(struct notifier_block* block, unsigned long event, void* what) {
  return on_change(container_of(block, struct nic_card, routes));
}

static struct nic_card* card_create(void) {
  struct platform_device* parent = platform_device_register_simple("verbatim-nic", 0, NULL, 0);
  struct devlink* devlink;
  struct nic_card* card;

  if (IS_ERR(parent)) return ERR_CAST(parent);
  devlink = devlink_alloc(&nic_devlink_ops, sizeof *card, &parent->dev);
  if (!devlink) {
    platform_device_unregister(parent);
    return ERR_PTR(-ENOMEM);
  }
  card = devlink_priv(devlink);
  card->meters = vzalloc(VNIC_METERS_MAX * sizeof *card->meters);
  if (!card->meters) {
    devlink_free(devlink);
    platform_device_unregister(parent);
    return ERR_PTR(-ENOMEM);
  }
  card->device = parent;
  card->devlink = devlink;
  init_waitqueue_head(&card->doorbell);
  init_waitqueue_head(&card->answers);
  mutex_init(&card->lock);
  hash_init(card->rules);
  INIT_LIST_HEAD(&card->dying);
  ida_init(&card->ids);
  INIT_DELAYED_WORK(&card->catch_up, catch_up);
  INIT_WORK(&card->look_for_ways, look_for_ways);
  card->neighbours.notifier_call = on_neighbour;
  register_netevent_notifier(&card->neighbours);
  card->routes.notifier_call = on_route;
  devlink_register(devlink);
  return card;
}

static void card_destroy(struct nic_card* card) {
  struct platform_device* parent = card->device;

  devlink_unregister(card->devlink);
  unregister_fib_notifier(&init_net, &card->routes);
  unregister_netevent_notifier(&card->neighbours);
  cancel_work_sync(&card->look_for_ways);
  cancel_delayed_work_sync(
      &card->catch_up); /* It looks at the ports. Without a card, it stays so. */
  if (card->region) nic_tunnels_end(card);
  nic_ports_destroy(card);
  nic_rules_replay(card); /* Without a card: frees what is dying. */
  vfree(card->region);
  vfree(card->buffers);
  vfree(card->meters);
  ida_destroy(&card->ids);
  devlink_free(card->devlink);
  platform_device_unregister(parent);
}

static int __init nic_init(void) {
  int error;

  the_card = card_create();
  if (IS_ERR(the_card)) return PTR_ERR(the_card);
  error = register_fib_notifier(&init_net, &the_card->routes, NULL, NULL); /* Takes rtnl. */
  if (!error) error = misc_register(&device);
  if (error) card_destroy(the_card);
  return error;
}

static void __exit nic_exit(void) {
  misc_deregister(&device);
  card_destroy(the_card);
}

module_init(nic_init);
module_exit(nic_exit);
MODULE_LICENSE("GPL");
MODULE_DESCRIPTION("Driver of a SmartNIC that is a process: representors and tc flower");
