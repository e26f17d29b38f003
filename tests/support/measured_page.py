"""How long a page takes, by its own performance.measure and by the processor time of its thread."""

from typing import Any

from playwright.sync_api import CDPSession, Page

SCRUB = """(frames) => {
  performance.clearMeasures();
  const slider = document.getElementById("moment");
  for (let n = 0; n < frames; n += 1) {
    slider.value = 30000 + n * 400;
    slider.dispatchEvent(new Event("input"));
  }
  return performance.getEntriesByName("wain-draw").map((each) => each.duration);
}"""
OPENED = "performance.getEntriesByName('wain-open').map((each) => each.duration)"


def measured_opening(page: Page) -> tuple[float, float]:
    """Milliseconds from the navigation until everything is drawn, and those of the processor."""
    client = _measuring(page)
    page.reload()
    page.wait_for_selector("#details-body *")
    [duration] = page.evaluate(OPENED)
    return duration, _milliseconds(client, "TaskDuration")


def measured_scrubbing(page: Page, frames: int) -> tuple[list[float], float]:
    """Milliseconds of our own drawing in each frame, and those of the processor in all."""
    client = _measuring(page)
    before = _milliseconds(client, "ScriptDuration")
    drawn: list[float] = page.evaluate(SCRUB, frames)
    return drawn, _milliseconds(client, "ScriptDuration") - before


def _measuring(page: Page) -> CDPSession:
    client = page.context.new_cdp_session(page)
    client.send("Performance.enable", {"timeDomain": "threadTicks"})
    return client


def _milliseconds(client: CDPSession, name: str) -> float:
    metrics: dict[str, Any] = client.send("Performance.getMetrics")
    found = {each["name"]: float(each["value"]) for each in metrics["metrics"]}
    return found[name] * 1000
