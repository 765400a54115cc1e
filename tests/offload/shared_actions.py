"""Actions that rules share, by dpdk-testpmd's `flow indirect_action`."""

import re
import time

from pmd import udp_frame
from pmd_case import RULES, UDP, WithTestPmd


class SharedActions(WithTestPmd):
    """rte_flow's indirect actions: rules name them, and they live on when a rule ends."""

    def setUp(self):
        super().setUp()
        for action in range(1, 6):
            self.pmd.ask(f"flow indirect_action 1 destroy action_id {action}")

    def share(self, action, what):
        self.assertIn(f"Indirect action #{action} created",
                      self.pmd.ask(f"flow indirect_action 1 create action_id {action} transfer action {what} / end"))

    def hits(self, action):
        return int(re.search(r"(?i)hits: (\d+)", self.pmd.ask(f"flow indirect_action 1 query {action}"))[1])

    def rule(self, to, *actions):
        return self.create(f"1 transfer pattern {UDP} dst is {to} / end actions {' / '.join(actions)} / port_id id 2 / end")

    def test_counter(self):
        """Counts what all of its rules meet, also those that have ended; each rule ages by its own packets."""
        self.share(1, "count")
        first, second = self.rule(1, "indirect 1", "age timeout 1"), self.rule(2, "indirect 1")
        self.rule(3, "count")
        self.out(*[udp_frame(to=port) for port in (1, 2, 2, 3, 3, 3)])
        self.assertEqual(self.hits(1), 3)
        self.assertEqual(self.count(first), 3)
        self.assertIn("rules name the action", self.pmd.ask("flow indirect_action 1 destroy action_id 1"))

        def has_aged():
            self.out(udp_frame(to=2))
            return "aged: 1" in self.pmd.ask(f"flow query 1 {first} age")

        self.until(has_aged, "the packets of another rule keep it young")
        before = self.hits(1)
        self.pmd.ask(f"flow destroy 1 rule {first}")
        self.out(udp_frame(to=2))
        self.assertEqual(self.hits(1), before + 1)
        self.pmd.ask(f"flow destroy 1 rule {second}")
        self.assertIn("destroyed", self.pmd.ask("flow indirect_action 1 destroy action_id 1"))
        self.assertIn("Failed to find", self.pmd.ask(f"flow create 1 transfer pattern {UDP} / end "
                                                       "actions indirect 1 / port_id id 2 / end"))

    def test_counters_are_bounded_and_come_back(self):
        """They take the places of rules."""
        made = 0
        while "created" in (said := self.pmd.ask(f"flow indirect_action 1 create action_id {1000 + made} transfer "
                                                 "action count / end")):
            made += 1
        self.assertIn("table is full", said)
        self.assertEqual(made, RULES - 2)
        for action in range(1000, 1000 + made):
            self.assertIn("destroyed", self.pmd.ask(f"flow indirect_action 1 destroy action_id {action}"))
        self.share(1, "count")
        self.rule(1, "indirect 1")
        self.out(udp_frame(to=1))
        self.assertEqual(self.hits(1), 1)

    def test_age(self):
        """The packets of one rule keep the age of both."""
        self.share(2, "age timeout 1")
        self.rule(1, "indirect 2")
        second = self.rule(2, "indirect 2")

        def aged():
            return "aged: 1" in self.pmd.ask("flow indirect_action 1 query 2").lower()

        end = time.monotonic() + 2.5
        while time.monotonic() < end:
            self.out(udp_frame(to=1))
            self.assertFalse(aged())
        self.until(aged, "the rules do not age")
        self.assertIn("Indirect action", self.pmd.ask("flow aged 1"))
        self.assertIn("aged: 1", self.pmd.ask(f"flow query 1 {second} age"))
        self.assertIn("updated", self.pmd.ask("flow indirect_action 1 update 2 action age_update timeout 3600 touch 1 / end"))
        self.assertFalse(aged())

    def test_meter(self):
        for command in ("add port meter profile srtcm_rfc2697 1 7 1 3 0 1",
                        "add port meter policy 1 3 g_actions end y_actions end r_actions drop / end",
                        "create port meter 1 5 7 3 yes 0xffff 0 g 0"):
            self.assertNotRegex(self.pmd.ask(command), "rror|Bad", command)
        self.share(3, "meter mtr_id 5")
        rules = [self.rule(to, "indirect 3") for to in (1, 2)]
        passed = len(self.out(*[udp_frame(to=port) for port in (1, 2)] * 10))
        self.assertTrue(3 <= passed <= 6, passed)
        for rule in rules:
            self.pmd.ask(f"flow destroy 1 rule {rule}")
        self.assertIn("rules name the meter", self.pmd.ask("del port meter 1 5"))
        self.pmd.ask("flow indirect_action 1 destroy action_id 3")
        for command in ("del port meter 1 5", "del port meter policy 1 3", "del port meter profile 1 7"):
            self.assertNotIn("rror", self.pmd.ask(command), command)

    def test_refusals(self):
        self.share(1, "count")
        self.share(2, "age timeout 9")
        self.share(4, "count")
        for actions in ("indirect 1 / indirect 4", "indirect 2 / age timeout 3", "age timeout 3 / indirect 2", "indirect 77"):
            self.assertNotIn("created", self.pmd.ask(f"flow create 1 transfer pattern {UDP} / end actions {actions} / "
                                                     "port_id id 2 / end"), actions)
        self.assertIn("no meter", self.pmd.ask("flow indirect_action 1 create action_id 5 transfer action meter mtr_id 77 / end"))
        self.assertIn("only ages change", self.pmd.ask("flow indirect_action 1 update 1 action count / end"))
