"""The page of `destage trace analyze` in a real headless browser."""

import subprocess
import tempfile
import time
import unittest
from pathlib import Path

import browser
from selenium.webdriver.common.by import By
from selenium.webdriver.support.ui import Select

CHARTS = ("rate", "working", "misses", "reuse", "sizes", "hours", "hottest", "places")
# The page of a served array announces what changes; this one does not change by itself.
OTHER = ("nothing is announced",)


class TracePage(unittest.TestCase):
    """Two generated traces, one of which has no times."""

    destage = None
    # Pictures go there, if it is given.
    pictures = None

    @classmethod
    def setUpClass(cls):
        folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(folder.cleanup)
        timed, still, page = (str(Path(folder.name) / n) for n in ("a.csv", "b.lis", "p.html"))
        for words in (
            ("generate", timed, "--workload", "spc1:iops=60", "--requests", "4000"),
            ("analyze", timed, still, "--out", page),
        ):
            Path(still).write_text("1 4 0 0\n3 8 0 1\n1 4 0 2\n")
            subprocess.run([cls.destage, "trace", *words], check=True, stdout=subprocess.DEVNULL)
        profile = tempfile.TemporaryDirectory()
        cls.addClassCleanup(profile.cleanup)
        cls.driver = browser.chromium(profile.name)
        cls.addClassCleanup(cls.driver.quit)
        cls.page = "file://" + page

    def drawn(self):
        """The charts that are shown, each with something drawn."""
        time.sleep(1)
        script = (
            "return [...document.querySelectorAll('figure')].filter((f) => !f.hidden)"
            ".filter((f) => f.querySelector('.plot .trace path, .plot .traces path, .scatterlayer path, .barlayer path')).map((f) => f.id.slice(4))"
        )
        return set(self.driver.execute_script(script))

    def test_1_every_chart_is_drawn_light_and_dark_wide_and_narrow(self):
        for width in (1280, 390):
            for dark in (False, True):
                browser.look(self.driver, width, 900, dark)
                self.driver.get(self.page)
                self.assertEqual(self.drawn(), set(CHARTS), (width, dark))
                shade = "dark" if dark else "light"
                if self.pictures:
                    browser.whole(self.driver, self.pictures / f"analyze-{width}-{shade}.png")
                most = self.driver.execute_script("return document.documentElement.scrollWidth")
                self.assertLessEqual(most, width)
                faults = [f for f in browser.faults(self.driver) if f not in OTHER]
                self.assertEqual(faults, [], (width, dark))

    def test_2_another_trace_shows_what_it_has(self):
        Select(self.driver.find_element(By.ID, "trace")).select_by_index(1)
        self.assertEqual(self.drawn(), set(CHARTS) - {"rate", "working", "hours"})
        Select(self.driver.find_element(By.ID, "trace")).select_by_index(0)
        Select(self.driver.find_element(By.ID, "rate-of")).select_by_index(1)
        self.assertEqual(self.drawn(), set(CHARTS))
        self.assertIn("MiB/s", self.driver.find_element(By.ID, "rate").text)

    def test_3_no_error_is_logged(self):
        errors = [e["message"] for e in self.driver.get_log("browser") if e["level"] == "SEVERE"]
        self.assertEqual(errors, [])
