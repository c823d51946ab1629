"""Headless Chromium, driven by Selenium."""

import base64
from pathlib import Path

from selenium import webdriver
from selenium.webdriver.chrome.options import Options
from selenium.webdriver.chrome.service import Service


def chromium(folder):
    """A browser with a profile of its own."""
    options = Options()
    options.binary_location = "/usr/bin/chromium"
    for word in (
        "--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage",
        "--hide-scrollbars", "--lang=en", f"--user-data-dir={folder}",
        # Whatever is not this machine does not exist.
        "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1",
        "--disable-background-networking", "--disable-component-update",
    ):
        options.add_argument(word)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
    driver = webdriver.Chrome(service=Service("/usr/bin/chromedriver"), options=options)
    driver.set_script_timeout(60)
    return driver


def look(driver, width, height, dark=False, scale=1):
    """A window of that size, light or dark."""
    metrics = {"width": width, "height": height, "deviceScaleFactor": scale, "mobile": width < 600}
    driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", metrics)
    feature = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
    driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": [feature]})


def whole(driver, path):
    """A picture of the whole page, as wide as the window."""
    options = {"captureBeyondViewport": True, "format": "png"}
    shot = driver.execute_cdp_cmd("Page.captureScreenshot", options)
    Path(path).write_bytes(base64.b64decode(shot["data"]))


def text(driver, name):
    """What an element shows."""
    return driver.find_element("id", name).text


# Run in the page: names, roles, contrast, landmarks, headings, identifiers.
CHECKS = (Path(__file__).parent / "checks.js").read_text()


def faults(driver):
    """What our own checks find wrong with the page as it is shown."""
    return driver.execute_script(CHECKS)


def axe(driver):
    """What axe-core finds wrong, or `None` where it is not installed."""
    path = Path(__file__).parents[2] / "target/axe/node_modules/axe-core/axe.min.js"
    if not path.exists():
        return None
    # The page's policy allows no foreign script: the browser adds it next to the page.
    driver.execute_script(path.read_text())
    found = driver.execute_async_script(
        "const done = arguments[arguments.length - 1];"
        "axe.run(document, {resultTypes: ['violations']}).then(done, e => done({error: String(e)}))"
    )
    if "error" in found:
        raise AssertionError(found["error"])
    return [
        f"{v['id']} ({v['impact']}): {v['help']}: {n['html'][:160]} {n['failureSummary'][:200]}"
        for v in found["violations"]
        for n in v["nodes"]
    ]
