#!/usr/bin/python3
"""The pages of a served array and of reports in a real headless browser.

    python3 tests/browser/run.py --destage target/release/destage
    python3 tests/browser/run.py --destage target/release/destage --screenshots docs/images
"""

import argparse
import json
import sys
import tempfile
import time
import unittest
import urllib.request
from pathlib import Path

import browser
import reports
import served as array_module
import traces
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys

wait = array_module.wait
OPTIONS = argparse.Namespace(destage=None, screenshots=None, pictures=None)


class Page(unittest.TestCase):
    """One array and one browser for all tests, which run in the order of their names."""

    @classmethod
    def setUpClass(cls):
        cls.array = array_module.Array(OPTIONS.destage)
        cls.addClassCleanup(cls.array.close)
        profile = tempfile.TemporaryDirectory()
        cls.addClassCleanup(profile.cleanup)
        cls.driver = browser.chromium(profile.name)
        cls.addClassCleanup(cls.driver.quit)
        browser.look(cls.driver, 1280, 900)
        cls.driver.get(cls.array.url)
        wait(lambda: browser.text(cls.driver, "link") == "live", what="the stream")

    def text(self, name):
        return browser.text(self.driver, name)

    def click(self, css):
        element = self.driver.find_element(By.CSS_SELECTOR, css)
        self.driver.execute_script("arguments[0].scrollIntoView({block: 'center'})", element)
        element.click()

    def unlock(self, token):
        field = self.driver.find_element(By.ID, "token")
        field.send_keys(token)
        field.send_keys(Keys.ENTER)

    def confirm(self, button, device=None):
        """Confirms what is asked; what was asked."""
        dialog = self.driver.find_element(By.ID, "confirm")
        wait(lambda: dialog.get_attribute("open") is not None, what="a question")
        asked = self.text("confirm-text")
        if device:
            dialog.find_element(By.ID, "new-device").send_keys(str(device))
        dialog.find_element(By.XPATH, f".//button[normalize-space()='{button}']").click()
        wait(lambda: dialog.get_attribute("open") is None, what="its end")
        return asked

    def test_1_shows_the_state(self):
        self.assertEqual((self.text("name"), self.text("state")), ("tank", "clean"))
        self.assertIn("nothing is destaged", self.text("says"))
        rows = self.driver.find_elements(By.CSS_SELECTOR, "#devices tbody tr")
        self.assertEqual(len(rows), 6)
        self.assertTrue(all("in use" in row.text for row in rows))

    def test_2_numbers_move_under_load(self):
        self.assertEqual(self.text("writes"), "0/s")
        load = self.array.load("--rw", "randrw", "--depth", "4", "--iops", "3000")
        rate = lambda: int(self.text("writes").rstrip("/s").replace(",", ""))  # noqa: E731
        wait(lambda: rate() > 500, what="writes that move")
        first = self.text("occupancy")
        wait(lambda: self.text("occupancy") != first, what="an occupancy that moves")
        # The curves have points, and say so to those who do not see them.
        chart = self.driver.find_element(By.ID, "c-iops")
        self.driver.execute_script("arguments[0].scrollIntoView({block: 'center'})", chart)
        wait(lambda: chart.find_elements(By.CSS_SELECTOR, ".scatterlayer path.js-line"))
        wait(lambda: "Writes 0," not in chart.get_attribute("aria-label"), what="a label")
        wait(lambda: "with the read cache" in self.text("hits-note"), what="the read cache's hits")
        wait(lambda: self.text("destages") != "0/s", 60, "destages")
        ring = self.driver.find_element(By.ID, "c-ring")
        self.driver.execute_script("arguments[0].scrollIntoView({block: 'center'})", ring)
        wait(lambda: len(ring.find_elements(By.CSS_SELECTOR, ".points path")) > 10, what="a ring")
        wait(lambda: self.driver.find_elements(By.CSS_SELECTOR, "#whatif tbody tr"), 30)
        load.terminate()

    def test_3_changes_need_token_and_confirmation(self):
        fail = self.driver.find_element(By.XPATH, "//button[.='Fail Disk 1']")
        self.assertFalse(fail.is_enabled())
        self.unlock("not-the-token-at-all")
        wait(lambda: "the token is wrong" in self.text("answer"), what="a refusal")
        self.assertFalse(fail.is_enabled())
        self.unlock(self.array.token)
        wait(lambda: "unlocked" in self.text("answer"), what="the page unlocked")
        field = self.driver.find_element(By.ID, "policy")
        # Typed over, as users do: an empty field that is left shows the array's policy again.
        over = Keys.CONTROL + "a" + Keys.NULL
        field.send_keys(over + "wow")
        self.click("#set button")
        self.assertIn("policy wow", self.confirm("Cancel"))
        self.assertEqual(self.status()["policy"], "stow")
        self.click("#set button")
        self.confirm("Set")
        wait(lambda: self.text("answer") == "Done.", what="an answer")
        self.assertEqual(self.status()["policy"], "wow")
        wait(lambda: "policy wow" in self.text("about"), what="the page")
        field.send_keys(over + "nonsense")
        self.click("#set button")
        self.confirm("Set")
        wait(lambda: self.text("answer").startswith("Not done"), what="a refusal")
        self.assertIn("nonsense", self.text("answer"))

    def test_4_a_scrub_shows_how_far_it_is(self):
        self.click("#scrub")
        self.confirm("Start")
        wait(lambda: "Scrub: " in self.text("works") and "to go" in self.text("works"))
        self.assertTrue(self.driver.find_elements(By.CSS_SELECTOR, "#works progress"))
        self.click("#scrub-stop")
        self.confirm("Stop")
        wait(lambda: not self.text("works"), what="its end")

    def test_5_accessible_in_light_and_dark_wide_and_narrow(self):
        axe_ran = False
        for size in ((1280, 900), (390, 844)):
            for dark in (False, True):
                browser.look(self.driver, *size, dark=dark)
                time.sleep(0.5)
                with self.subTest(size=size, dark=dark):
                    self.assertEqual(browser.faults(self.driver), [])
                    found = browser.axe(self.driver)
                    axe_ran = axe_ran or found is not None
                    self.assertEqual(found or [], [])
        browser.look(self.driver, 1280, 900)
        if not axe_ran:
            print("SKIPPED: axe-core is not installed (npm); our own checks ran")

    def test_6_keyboard_alone_reaches_a_change(self):
        self.driver.refresh()
        wait(lambda: self.text("link") == "live", what="the stream")
        names = []
        for _ in range(60):
            self.driver.switch_to.active_element.send_keys(Keys.TAB)
            active = self.driver.switch_to.active_element
            names.append(active.get_attribute("id") or active.text or active.tag_name)
            if names[-1] == "token":
                active.send_keys(self.array.token, Keys.ENTER)
                wait(lambda: "unlocked" in self.text("answer"), what="the page unlocked")
            if names[-1] == "flush":
                break
        self.assertEqual((names[0], names[-1]), ("Skip to the figures", "flush"))
        self.assertLess(names.index("token"), names.index("policy"))
        self.driver.switch_to.active_element.send_keys(Keys.ENTER)
        dialog = self.driver.find_element(By.ID, "confirm")
        wait(lambda: dialog.get_attribute("open") is not None, what="a question")
        self.driver.switch_to.active_element.send_keys(Keys.ESCAPE)
        wait(lambda: dialog.get_attribute("open") is None, what="its end")
        # The focus is where it was.
        self.assertEqual(self.driver.switch_to.active_element.get_attribute("id"), "flush")

    def test_7_a_failed_disk_turns_red(self):
        row = self.driver.find_elements(By.CSS_SELECTOR, "#devices tbody tr")[1]
        cell = row.find_element(By.TAG_NAME, "td")
        before = cell.value_of_css_property("background-color")
        self.click("#devices tbody tr:nth-child(2) button")
        self.assertIn("Give up Disk 1", self.confirm("Give it up"))
        wait(lambda: "failed" in row.text, what="the disk")
        red, green, blue = (
            int(part) for part in cell.value_of_css_property("background-color")
            .split("(")[1].rstrip(")").split(",")[:3]
        )
        self.assertNotEqual(before, cell.value_of_css_property("background-color"))
        self.assertTrue(red > green + 15 and red > blue + 15, (red, green, blue))
        self.assertEqual(self.text("state"), "degraded")
        self.assertIn("One device has failed", self.text("says"))
        alarm = "failed: an operator marked it as failed"
        wait(lambda: alarm in self.text("events"), what="the alarm")
        self.assertRegex(self.text("events"), r"Alarm: Member 1 \(.*\) failed")
        self.assertEqual(self.status()["state"], "degraded")

    def test_8_the_failed_disk_is_replaced_and_rebuilt(self):
        row = self.driver.find_elements(By.CSS_SELECTOR, "#devices tbody tr")[1]
        # Slow enough to be seen, on a quick machine too: a rest of 99 times its work after each
        # of 1,024 rows. The whole rebuild takes more than 10 s then.
        self.array.run("set", "tank", "--rebuild", "window=1,share=1")
        new = self.array.folder / "new"
        with open(new, "wb") as file:
            file.truncate(64 << 20)
        self.click("#devices tbody tr:nth-child(2) button")
        self.confirm("Cancel")
        self.click("#devices tbody tr:nth-child(2) button")
        self.assertIn("Rebuild Disk 1 on a new device", self.confirm("Replace", new))
        wait(lambda: "Rebuilding disk 1: " in self.text("works"), what="the rebuild")
        wait(lambda: "to go" in self.text("works"), what="the time to go")
        self.assertEqual(self.text("state"), "rebuilding")
        self.assertIn("rebuilding", row.text)
        bar = self.driver.find_element(By.CSS_SELECTOR, "#works progress")
        first = float(bar.get_attribute("value"))
        wait(lambda: float(bar.get_attribute("value")) > first, what="a bar that moves")
        self.array.run("set", "tank", "--rebuild", "window=256,share=100")
        wait(lambda: self.text("state") == "clean" and "in use" in row.text, 60, "a whole array")
        self.assertEqual(self.text("works"), "")
        self.assertIn(str(new), row.text)

    def test_9_asks_nothing_of_others_and_logs_no_error(self):
        urls = set()
        for entry in self.driver.get_log("performance"):
            message = json.loads(entry["message"])["message"]
            if message["method"] == "Network.requestWillBeSent":
                urls.add(message["params"]["request"]["url"])
        own = (self.array.url, "data:", "blob:", "chrome:")
        self.assertEqual([url for url in urls if not url.startswith(own)], [])
        self.assertTrue(any(url.endswith("/plotly.js") for url in urls))
        # Requests that were to be refused are no errors of the page.
        errors = [
            entry["message"] for entry in self.driver.get_log("browser")
            if entry["level"] == "SEVERE" and "/api/" not in entry["message"]
        ]
        self.assertEqual(errors, [])

    def status(self):
        return json.loads(self.array.run("status", "tank", "--format", "json"))


def screenshots(folder):
    """Pictures of an array on emulated disks under mixed load, and with a failed disk."""
    folder.mkdir(parents=True, exist_ok=True)
    served = array_module.Array(OPTIONS.destage, emulated=True, speed=4)
    with tempfile.TemporaryDirectory() as profile:
        driver = browser.chromium(profile)
        try:
            driver.get(served.url)
            wait(lambda: browser.text(driver, "link") == "live", what="the stream")
            served.load("--rw", "randrw", "--depth", "8", "--iops", "1400", "--size", "1G")
            served.load("--rw", "write", "--depth", "2", "--iops", "250")
            time.sleep(120)
            for name, size, dark in (
                ("page-light", (1280, 1500), False), ("page-dark", (1280, 1500), True),
            ):
                picture(driver, folder / f"{name}.png", size, dark)
            fail(served)
            time.sleep(12)
            picture(driver, folder / "page-phone.png", (390, 1300), False)
        finally:
            driver.quit()
            served.close()


def fail(served):
    """Gives up disk 2 over HTTP."""
    request = urllib.request.Request(
        served.url + "api/fail", json.dumps({"disk": "2"}).encode(),
        {"content-type": "application/json", "authorization": f"Bearer {served.token}"},
    )
    urllib.request.urlopen(request, timeout=20).read()


def picture(driver, path, size, dark):
    browser.look(driver, *size, dark=dark)
    time.sleep(3)
    driver.save_screenshot(str(path))
    small(path)
    print(f"{path}: {path.stat().st_size} bytes")


def small(path):
    """Fewer colours, where Pillow is installed: a third of the bytes."""
    try:
        from PIL import Image
    except ImportError:
        return
    with Image.open(path) as image:
        few = image.convert("RGB").quantize(128, dither=Image.Dither.NONE)
    few.save(path, optimize=True)


def main():
    parser = argparse.ArgumentParser(description="The page of a served array in a real browser.")
    parser.add_argument("--destage", type=Path, required=True, metavar="PATH")
    parser.add_argument("--screenshots", type=Path, metavar="FOLDER", help="take pictures only")
    parser.add_argument(
        "--pictures", type=Path, metavar="FOLDER", help="also take pictures of the report pages"
    )
    parser.parse_args(namespace=OPTIONS)
    if OPTIONS.screenshots:
        screenshots(OPTIONS.screenshots)
        return 0
    if OPTIONS.pictures:
        OPTIONS.pictures.mkdir(parents=True, exist_ok=True)
    traces.TracePage.destage = reports.ReportPage.destage = OPTIONS.destage
    traces.TracePage.pictures = reports.ReportPage.pictures = OPTIONS.pictures
    of = unittest.defaultTestLoader.loadTestsFromTestCase
    suite = unittest.TestSuite([of(traces.TracePage), of(reports.ReportPage), of(Page)])
    result = unittest.TextTestRunner(verbosity=2, failfast=False).run(suite)
    bad = len(result.failures) + len(result.errors)
    print(f"{result.testsRun - bad} passed, {bad} failed, {len(result.skipped)} skipped")
    return 0 if result.wasSuccessful() else 1


if __name__ == "__main__":
    sys.exit(main())
