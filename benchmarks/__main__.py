"""`make bench`: every benchmark, or those named: `make bench ARGS=manifests`."""

import sys

from benchmarks import (
    api_server,
    catalogue,
    cluster,
    cluster_size,
    components,
    constrained_pods,
    disruption,
    disruption_delay,
    emulator,
    growth,
    loop_lag,
    manifests,
    packing,
    page,
    planner,
    simulate,
    snapshots,
)

ALL = {
    "manifests": manifests.run,
    "snapshots": snapshots.run,
    "catalogue": catalogue.run,
    "planner": planner.run,
    "constrained_pods": constrained_pods.run,
    "disruption": disruption.run,
    "simulate": simulate.run,
    "packing": packing.run,
    "page": page.run,
    "emulator": emulator.run,
    "growth": growth.run,
    "api_server": api_server.run,
    "components": components.run,
    "loop_lag": loop_lag.run,
    "cluster": cluster.run,
    "cluster_size": cluster_size.run,
    "disruption_delay": disruption_delay.run,
}


def main() -> None:
    wanted = sys.argv[1:] or list(ALL)
    unknown = [name for name in wanted if name not in ALL]
    if unknown:
        sys.exit(f"no benchmark {', '.join(unknown)}; there are {', '.join(ALL)}")
    for name in wanted:
        ALL[name]()


if __name__ == "__main__":
    main()
