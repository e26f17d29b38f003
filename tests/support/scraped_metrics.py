"""What a scrape of the metrics says, read as Prometheus does."""

import re

from wainwright.metrics import MetricsRegistry

SERIES = re.compile(r"(\w+)(?:\{(.*)\})? (\S+)")
LABEL = re.compile(r'(\w+)="((?:[^"\\]|\\.)*)"')


class ScrapedMetrics:
    """One scrape."""

    def __init__(self, metrics: MetricsRegistry) -> None:
        self._series: dict[str, dict[frozenset[tuple[str, str]], float]] = {}
        for line in metrics.exposition().splitlines():
            if not line.startswith("#"):
                self._read(line)

    def _read(self, line: str) -> None:
        match = SERIES.fullmatch(line)
        assert match is not None, line
        name, labels, value = match.groups()
        key, known = frozenset(LABEL.findall(labels or "")), self._series.setdefault(name, {})
        assert key not in known, f"twice: {line}"
        known[key] = float(value)

    def values(self, name: str, /, **labels: str) -> list[float]:
        """Of all series of the name with these labels, whatever others they have."""
        series = self._series.get(name, {})
        return [value for key, value in series.items() if labels.items() <= dict(key).items()]

    def value(self, name: str, /, **labels: str) -> float:
        """Of the only such series."""
        (value,) = self.values(name, **labels)
        return value

    def labels(self, name: str) -> list[dict[str, str]]:
        return [dict(key) for key in self._series.get(name, {})]
