"""The pages of `destage compare`, `sim`, `advise` and `reproduce` in a real headless browser."""

import subprocess
import tempfile
import time
import unittest
from pathlib import Path

import browser
from traces import OTHER

LOAD = ("--workload", "spc1", "--warmup", "2", "--measure", "4")
PAGES = {
    "compare": (
        "compare", *LOAD, "--policies", "lrw,stow", "--sweep", "iops=300,600", "--nvs", "512",
    ),
    "sim": ("sim", *LOAD, "--iops", "300", "--nvs", "512"),
    "advise": (
        "advise", *LOAD, "--iops", "300", "--goal", "p99<60ms", "--sizes", "4096..16384",
        "--policies", "stow", "--try-thresholds", "70/40", "--seeds", "1",
    ),
    "reproduce": ("reproduce", "stow:fig3", "--quick"),
}


# Charts in which nothing is drawn, by their headings.
EMPTY = """
const has = (figure, css, fits) => [...figure.querySelectorAll(css)].some(fits);
const drawn = (figure) => !figure.querySelector('.js-plotly-plot, .plot-container')
  ? has(figure, 'svg, img', () => true)
  : has(figure, '.scatterlayer path', () => true)
    || has(figure, '.barlayer path', (bar) => bar.getBoundingClientRect().height > 0);
return [...document.querySelectorAll('figure')]
  .filter((figure) => figure.offsetParent && !drawn(figure))
  .map((figure) => figure.id || figure.innerText.slice(0, 80));
"""


class ReportPage(unittest.TestCase):
    """Each page from a short run."""

    destage = None
    # Pictures go there, if it is given.
    pictures = None

    @classmethod
    def setUpClass(cls):
        folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(folder.cleanup)
        cls.pages = {}
        for name, words in PAGES.items():
            out = Path(folder.name) / (name if name == "reproduce" else f"{name}.html")
            ran = [cls.destage, *words, "--out", str(out)]
            subprocess.run(ran, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
            cls.pages[name] = out / "index.html" if name == "reproduce" else out
        profile = tempfile.TemporaryDirectory()
        cls.addClassCleanup(profile.cleanup)
        cls.driver = browser.chromium(profile.name)
        cls.addClassCleanup(cls.driver.quit)

    def test_accessible_in_light_and_dark_wide_and_narrow(self):
        for name, page in self.pages.items():
            for width in (1280, 390):
                for dark in (False, True):
                    browser.look(self.driver, width, 900, dark)
                    self.driver.get(f"file://{page}")
                    time.sleep(1)
                    shade = "dark" if dark else "light"
                    if self.pictures:
                        browser.whole(self.driver, self.pictures / f"{name}-{width}-{shade}.png")
                    with self.subTest(page=name, width=width, dark=dark):
                        self.assertEqual(self.driver.execute_script(EMPTY), [])
                        faults = [f for f in browser.faults(self.driver) if f not in OTHER]
                        self.assertEqual(faults, [])

    def test_no_error_is_logged(self):
        errors = [e["message"] for e in self.driver.get_log("browser") if e["level"] == "SEVERE"]
        self.assertEqual(errors, [])
