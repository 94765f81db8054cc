#!/usr/bin/env -S python3 -B
"""What largebatch.py makes of runs: of the recorded lines of one, and of made-up results."""

import json
import unittest
import xml.dom.minidom

import largebatch
from contest import Skipped
from largebatch import Accuracy, Passes

# `paceline train --model softmax --data digits --epochs 2 --workers 1 --json`
RECORDED = """
{"epoch":1,"step":24,"seconds":0.16534925199999997,"loss":1.4368836052750618,"train_accuracy":0.6245824983299934,"test_loss":0.5402661752700806,"test_accuracy":0.9133333333333333,"samples_per_s":10044.258656096456,"wait_share":0.0,"bytes_sent":0,"learning_rate":0.02,"workers":[{"rank":0,"host":"vm","load":0.003334859,"compute":0.161190151,"communicate":0.0,"wait":0.0,"update":0.0004882219999999999}]}
{"epoch":2,"step":48,"seconds":0.17207069999999997,"loss":0.417536081516034,"train_accuracy":0.9138276553106213,"test_loss":0.2957380255063375,"test_accuracy":0.94,"samples_per_s":222719.8663145204,"wait_share":0.0,"bytes_sent":0,"learning_rate":0.02,"workers":[{"rank":0,"host":"vm","load":0.0007097630000000001,"compute":0.005836957999999999,"communicate":0.0,"wait":0.0,"update":0.00010653500000000001}]}
{"final":true,"stop_reason":"all epochs done","epoch":2,"step":48,"seconds":0.17207069999999997,"loss":0.417536081516034,"train_accuracy":0.9138276553106213,"test_loss":0.2957380255063375,"test_accuracy":0.94,"samples_per_s":21581.4298785244,"wait_share":0.0,"bytes_sent":0,"workers":1}
"""
LINES = [json.loads(line) for line in RECORDED.split("\n") if line]


def results(fashion, passes=None):
    """One round: {method: accuracies by seed}, {batch: (passes, steps, seconds)}."""
    found = {(method, 2): {Accuracy("fashion", seed + 1): {"accuracy": value} for seed, value in enumerate(values)} for method, values in fashion.items()}
    found[("passes", 2)] = {Passes(batch): dict(zip(("passes", "steps", "seconds"), point)) for batch, point in (passes or {}).items()}
    return [found]


GOOD = {"small": [91, 91.2, 90.8], "large": [88, 88.2, 87.8], "large + trace": [89, 89.1, 88.9], "large + diag": [89.9, 90, 90.1]}
PASSES = {64: (2, 1876, 20.0), 512: (3, 352, 24.0), 4096: (8, 120, 40.0)}


def row(table, name):
    return next(cells for cells in table if cells[0] == name)


class OfARun(unittest.TestCase):
    def test_accuracy_is_that_of_the_last_epoch(self):
        point = largebatch.accuracy_point(LINES)
        self.assertAlmostEqual(point["accuracy"], 94)
        self.assertEqual((point["passes"], point["steps"]), (2, 48))

    def test_passes_are_those_of_the_first_epoch_that_is_good_enough(self):
        self.assertEqual(largebatch.passes_point(LINES, 0.91)["passes"], 1)
        self.assertEqual(largebatch.passes_point(LINES, 0.93)["steps"], 48)
        self.assertIsNone(largebatch.passes_point(LINES, 0.95))

    def test_a_run_that_says_nothing_is_skipped(self):
        with self.assertRaises(Skipped):
            largebatch.accuracy_point([])


class Commands(unittest.TestCase):
    def test_batches_are_shared_out_among_the_workers(self):
        words = largebatch.command("bin", "fashion", 4096, 3)
        self.assertEqual(words[words.index("--batch") + 1], "2048")
        self.assertEqual(words[words.index("--seed") + 1], "3")

    def test_noise_imitates_the_small_batch_and_has_parts_to_learn_from(self):
        batch, more = largebatch.options_of("large + diag")
        self.assertEqual(batch, largebatch.LARGE)
        self.assertEqual(more, ["--micro-batch", "64", "--noise", "fisher-diag:128"])
        self.assertIn("fisher-trace:128", largebatch.options_of("large + trace")[1])
        self.assertEqual(largebatch.options_of("small"), (128, []))

    def test_the_rate_grows_with_the_root_of_the_batch(self):
        self.assertAlmostEqual(largebatch.scaled_lr(512) / largebatch.scaled_lr(128), 2)
        self.assertEqual(largebatch.scaled_lr(4096), largebatch.MOST_LR)


class Accuracies(unittest.TestCase):
    def test_the_table_has_mean_and_deviation_beside_what_was_published(self):
        table = largebatch.accuracy_table(results(GOOD))
        self.assertEqual(row(table, "fashion")[1:], ["91.00 ± 0.20", "88.00 ± 0.20", "89.00 ± 0.10", "90.00 ± 0.10", "3", "yes"])
        self.assertEqual(row(table, "fashion, published")[1:5], ["91.15", "88.89", "90.29", "90.79"])

    def test_what_was_not_measured_is_said(self):
        self.assertEqual(row(largebatch.accuracy_table(results(GOOD)), "mnist")[1:], ["not measured"] * 4 + ["0", "not measured"])

    def test_another_order_is_said(self):
        table = largebatch.accuracy_table(results({**GOOD, "large + diag": [87, 87.1, 87.2]}))
        self.assertEqual(row(table, "fashion")[-1], "NO")

    def test_an_order_within_the_scatter_is_said_to_be(self):
        table = largebatch.accuracy_table(results({**GOOD, "large": [89, 90.5, 90]}))
        self.assertEqual(row(table, "fashion")[-1], "yes, within the scatter")

    def test_one_seed_has_no_deviation(self):
        table = largebatch.accuracy_table(results({method: values[:1] for method, values in GOOD.items()}))
        self.assertEqual(row(table, "fashion")[1], "91.00")
        self.assertEqual(row(table, "fashion")[-1], "yes, of one seed")

    def test_mnists_published_order_is_another(self):
        self.assertTrue(largebatch.published_order("fashion"))
        self.assertFalse(largebatch.published_order("mnist"))  # diag is ahead of small, by 0.01


class PassesToAnAccuracy(unittest.TestCase):
    def test_speed_up_is_against_the_smallest_batch(self):
        in_steps, in_time = largebatch.speed_ups(results({}, PASSES))
        self.assertAlmostEqual(in_steps[512], 1876 / 352)
        self.assertAlmostEqual(in_time[4096], 0.5)
        self.assertEqual(in_steps[64], 1)

    def test_a_batch_that_never_gets_there_is_said_not_to(self):
        table = largebatch.passes_table(results({}, PASSES))
        self.assertEqual(row(table, "64")[2:], ["2", "1876", "20.0", "1.00", "1.00"])
        self.assertEqual(row(table, "8192")[2], "not reached")

    def test_the_picture_is_xml_with_a_line_for_each(self):
        for found in (results({}, PASSES), results({})):
            svg = xml.dom.minidom.parseString(largebatch.picture(found))
            self.assertEqual(len(svg.getElementsByTagName("polyline")), 4 if found[0][("passes", 2)] else 0)

    def test_json_has_every_point_and_a_summary(self):
        points = largebatch.json_points(results(GOOD, PASSES))
        self.assertEqual(len(points), 12 + 3 + 2)
        json.dumps(points)


if __name__ == "__main__":
    unittest.main()
