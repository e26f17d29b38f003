"""`make bench`: every benchmark, or those named: `make bench ARGS=reading`."""

import sys

from benchmarks import catalogue, emulator, packing, planner, reading, tied

ALL = {
    "reading": reading.run,
    "catalogue": catalogue.run,
    "planner": planner.run,
    "tied": tied.run,
    "packing": packing.run,
    "emulator": emulator.run,
}


def main() -> None:
    wanted = sys.argv[1:] or list(ALL)
    unknown = [name for name in wanted if name not in ALL]
    if unknown:
        sys.exit(f"no benchmark {', '.join(unknown)}; there are {', '.join(ALL)}")
    for name in wanted:
        ALL[name]()


main()
