"""A command line for an input: a command, its files, and options with usual and odd values.

The options are read off click, so that one is tried from the day that it is added.
"""

import json
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from random import Random
from typing import Any, Final

import click
from tests.fuzz.emulator_calls import PATCH_FIELDS, odd_patch
from tests.fuzz.inputs import HOSTILE_NUMBERS, HOSTILE_TEXTS, FuzzInput
from tests.fuzz.readers import odd_kubeconfig
from tests.support.manifest_tables import TESTS

from wainwright.cli.main import wain
from wainwright.sim.scenario_format.field_reader import duration_seconds

NOW: Final = ("--now", "2026-01-31T12:00:00Z")
OTHER: Final = str(TESTS.parent / "examples" / "reserved-then-spot")
COMMANDS: Final = (
    *("plan", "plan", "plan", "plan", "consolidate", "consolidate", "consolidate", "top", "top"),
    *("explain pod", "explain pod", "explain node", "explain node", "explain type"),
    *("explain price", "validate", "validate", "convert", "reservations", "catalog", "crds"),
    *("simulate", "serve", "snapshot", "emulator", "emulator set", "emulator set", "completion"),
)
SCENARIO_COMMANDS: Final = (*("simulate",) * 12, "top", "serve")
LEFT_OUT: Final = {
    "render": "runs other programs",
    "diff": "takes two inputs, and is tried beside the files",
    "demo": "reads no input, and simulates a whole day",
    "host": "would listen to others, or ask a name server",
    "endpoint": "would call whatever listens there",
}
SCHEDULER_CONFIG: Final = {
    "apiVersion": "kubescheduler.config.k8s.io/v1",
    "kind": "KubeSchedulerConfiguration",
    "profiles": [
        {
            "pluginConfig": [
                {
                    "name": "PodTopologySpread",
                    "args": {
                        "defaultingType": "List",
                        "defaultConstraints": [
                            {
                                "maxSkew": 1,
                                "topologyKey": "topology.kubernetes.io/zone",
                                "whenUnsatisfiable": "ScheduleAnyway",
                            }
                        ],
                    },
                }
            ]
        }
    ],
}
NODE_KINDS: Final = ("Node", "NodeClaim")
POD_KINDS: Final = ("Pod", "Deployment", "StatefulSet", "DaemonSet", "ReplicaSet", "Job")
WRITTEN: Final = ("save_input", "report", "shell_state", "csv_folder", "state", "folder")
"""Options with a file or folder that the command writes."""
BOUNDS: Final = ("check", "until", "pod_limit", "scenario", "once", "port")
"""Options that are set in any case, as a run would last too long without them."""
OF_A_CLUSTER: Final = ("from_cluster", "context", "kubeconfig")
LONGEST: Final = 2 * 3600.0
LONGEST_OF_MANY: Final = 1800.0
"""Virtual seconds of one simulation, and of each of a sweep."""
PODS_OF_A_SIMULATION: Final = "300"
TEXTS: Final = (*(text for text in HOSTILE_TEXTS if "\0" not in text), "\udcff", "a,b", "a=b", "=")
"""An argument has no NUL; what is no UTF-8 comes as lone surrogates."""
NUMBERS: Final = (
    *("nan", "inf", "-inf", "1e400", "-1e400", "1e-400", "٣", "1_000", "0x10", "+1", " 1", "1 "),
    *("9" * 5000, "", "-", "--", "1.5", "7,5", "100", "1000", "1001", "0.5", "true"),
    *map(str, HOSTILE_NUMBERS),
)
USUAL: Final[dict[str, tuple[str, ...]]] = {
    "TIME": ("2026-01-31T08:00:00Z", "2026-01-31T08:00:00+01:00", "2027-06-30T00:00:00Z"),
    "AMOUNT": ("0.05", "5%", "0", "100%"),
    "NAME=true|false": (
        *("StaticCapacity=true", "ReservedCapacity=false", "SpotToSpotConsolidation=true"),
        "NodeRepair=true",
    ),
    "NAME=AMOUNT": ("cpu=10", "nodes=2", "memory=100Gi", "pricePerHour=1.5", "cpu=0"),
    "K=V,…": (
        "instanceType=m5.large,capacityType=spot,price=0.05",
        "instanceType=c5.*,free=3",
        "id=cr-1,instanceType=m5.large,availabilityZone=us-west-2a,total=3,tags.team=web",
        "operation=CreateFleet,code=InternalError,times=1",
    ),
    "CPU": ("4", "100m"),
    "SIZE": ("16Gi", "1"),
    "GLOB": ("m5.*", "*", "p5.48xlarge", "c?.large"),
    "TEXT": ("a", "web"),
    "REGION": ("us-west-2",),
}
"""Values of options by what their help calls them."""
ODD: Final[dict[str, tuple[str, ...]]] = {
    "TIME": (
        *("2026-01-31", "2026-02-30T00:00:00Z", "9999-12-31T23:59:59Z", "0001-01-01T00:00:00Z"),
        *("0001-01-01T00:00:00+14:00", "9999-12-31T23:59:59-14:00", "2026-01-31T08:00:60Z"),
        *("2026-01-31T08:00:00", "٢٠٢٦-01-31T08:00:00Z", "1769846400", "2026-W05", "now", "1h"),
        *("2026-01-31T08:00:00.123456789Z", "20260131T080000Z", "-2026-01-31T08:00:00Z"),
    ),
    "AMOUNT": (
        *("0%", "101%", "nan", "nan%", "inf", "inf%", "1e400", "1e400%", "-0", "-1%", "%", "5 %"),
        *("5%%", "$5", "٣%", "1e-400", "5e", "0,05", "9" * 400),
    ),
    "NAME=true|false": ("StaticCapacity", "StaticCapacity=maybe", "=true", "a=true,b=false"),
    "NAME=AMOUNT": (
        *("cpu=-1", "cpu=nan", "cpu=1e400", "nodes=1.5", "nodes=100m", "memory=99999999Ei", "x=1"),
        *("pricePerHour=nan", "pricePerHour=inf", "pricePerHour=1e400", "pricePerHour=-1", "cpu"),
        *("=", "cpu=", "cpu=1=2", "cpu=1n", "pods=1", "nodes=1e30"),
    ),
    "K=V,…": (
        *("instanceType=*,price=nan", "instanceType=[,free=1", "free=1e400", "id=cr-1"),
        *("id=cr-1,tags=a,tags.b=c", "total=99999999999999999999", "operation=*,probability=nan"),
        *("instanceType=m5.large,price=1e400", "operation=CreateFleet,status=-1,code=A", "a", "a="),
        *("instance=i-1,kind=spot", "instance=*,seconds=inf", "=a", ",", ".=", "a.=1", ".a=1"),
        *("a.b.c=1", "free=٣", "free=" + "9" * 5000, "price=-0.0,instanceType=m5.large"),
    ),
    "CPU": NUMBERS,
    "SIZE": (*NUMBERS, "99999999Ei", "1n"),
    "GLOB": ("**", "[", "[!", "?" * 200, "*a" * 40),
}
CHANGED_VALUES: Final = (
    *("5%", "true", "null", "[]", "{}", "[1,", "{a: b", "'", '"', "&a [*a]", "*a", "!!binary x"),
    *("1e400", ".nan", "2147483648", "9" * 5000, "1h", "-1h", "99999999h", "0", "1", "Always"),
    *("- a", "a: b", "\n", "---", "? ", "2026-01-31", "0o17", "[" * 400, "\x1b[31m"),
)


def command_line(
    given: FuzzInput, file: str, folder: Path, random: Random, *, odd_values: int
) -> tuple[str, tuple[str, ...]]:
    """The name under which exit codes are documented, and the arguments of `wain`."""
    of_scenario = given.source.is_scenario and random.random() < 0.85
    name = random.choice(SCENARIO_COMMANDS if of_scenario else COMMANDS)
    words = _CommandWords(name, given, file, folder, random, odd_values).all()
    kind = "explain" if name.startswith("explain") else name
    return "diff" if "--diff" in words else kind, (*name.split(), *words)


@cache
def commands() -> dict[str, click.Command]:
    """By name, such as `explain pod`."""
    return {" ".join(words): command for words, command in _leaves(wain, ())}


def _leaves(
    command: click.Command, words: tuple[str, ...]
) -> Iterator[tuple[tuple[str, ...], click.Command]]:
    if words:
        yield words, command
    if isinstance(command, click.Group):
        context = click.Context(command)
        for name in command.list_commands(context):
            inner = command.get_command(context, name)
            assert inner is not None
            yield from _leaves(inner, (*words, name))


class _CommandWords:
    """The words after the name of one command. Of its values so many are odd: with several, only
    the first is looked at.
    """

    def __init__(
        self, name: str, given: FuzzInput, file: str, folder: Path, random: Random, odd_values: int
    ) -> None:
        self._name, self._given, self._file, self._folder = name, given, file, folder
        self._random, self._odd_values = random, odd_values
        self._parameters = commands()[name].params
        self._names = {each.name for each in self._parameters}

    def all(self) -> list[str]:
        words = [*NOW] if "now" in self._names else []
        return [*words, *self._some_options(), *self._bounds(), *self._positional()]

    def _is_odd(self) -> bool:
        """Whether this value is one of the odd ones."""
        if self._odd_values and self._random.random() < 0.6:
            self._odd_values -= 1
            return True
        return False

    def _some_options(self) -> list[str]:
        random = self._random
        options = [
            each
            for each in self._parameters
            if each.param_type_name == "option"
            and each.name not in (*LEFT_OUT, *BOUNDS, *OF_A_CLUSTER)
        ]
        number = min(len(options), random.choice((0, 1, 1, 2, 3, 4)))
        chosen = random.sample(options, number)
        if random.random() < 0.5:
            chosen += [each for each in options if each.name == "output" and each not in chosen]
        return [word for each in chosen for word in self._option(each)]

    def _option(self, option: click.Parameter) -> list[str]:
        flag = self._random.choice((*option.opts, *option.secondary_opts))
        if isinstance(option, click.Option) and option.is_flag:
            return [flag]
        return [flag, self._value(option)]

    def _value(self, option: click.Parameter) -> str:
        kind, name, metavar = option.type, option.name or "", option.metavar or ""
        if isinstance(kind, click.Choice):
            # A word that is none of the choices is the same refusal everywhere, so it is rare.
            is_odd = self._random.random() < 0.1 and self._is_odd()
            return self._random.choice(TEXTS if is_odd else [str(each) for each in kind.choices])
        if isinstance(kind, click.types.IntParamType | click.types.FloatParamType):
            return self._number(kind)
        if name in WRITTEN:
            return self._written(name)
        if name in ("filename", "cloud", "catalog", "scheduler_config", "faults", "more"):
            return self._read_file(name)
        if "PATH=VALUE" in metavar or name == "compare":
            return self._change(",…" in metavar)
        return self._text("REGION" if name == "region" else metavar)

    def _text(self, metavar: str) -> str:
        if not self._is_odd():
            return self._random.choice(USUAL.get(metavar, self._given.names))
        of_its_kind = ODD.get(metavar, ())
        chosen = of_its_kind if of_its_kind and self._random.random() < 0.7 else TEXTS
        return self._random.choice(chosen)

    def _number(self, kind: object) -> str:
        if self._is_odd():
            return self._random.choice(NUMBERS)
        return str((getattr(kind, "min", None) or 0) + self._random.choice((1, 2, 5, 10)))

    def _written(self, name: str) -> str:
        """A place to write to; or one that cannot be written, or has another content."""
        if not self._is_odd():
            return str(self._folder / f"written-{name}")
        bad = (str(self._folder), f"{self._file}/below", self._file, "", "x" * 300, "/dev/full")
        return self._random.choice(bad)

    def _read_file(self, name: str) -> str:
        if name == "faults":
            return (self._patch_file() or [self._file])[0]
        if not self._is_odd():
            return self._good_file(name)
        missing = str(self._folder / "missing\n::error::x")
        odd = (OTHER, missing, str(self._folder), "", "x" * 5000, "/dev/null", "\udcff")
        return self._random.choice(odd)

    def _good_file(self, name: str) -> str:
        if name == "scheduler_config":
            target = self._folder / "scheduler.json"
            target.write_text(json.dumps(SCHEDULER_CONFIG), "utf-8")
            return str(target)
        if name == "more":
            return OTHER  # the input once more would have all names twice
        return self._file if self._random.random() < 0.3 else f"{OTHER}/cloud.yaml"

    def _change(self, has_several: bool) -> str:
        random = self._random
        if self._is_odd():
            return random.choice(TEXTS)
        values = [random.choice(CHANGED_VALUES) for _ in range(random.choice((1, 2)))]
        return f"{self._changed_path()}={','.join(values if has_several else values[:1])}"

    def _changed_path(self) -> str:
        """Of something that there is, mostly, or of what could be."""
        random = self._random
        document = random.choice(self._given.documents)
        kind = document.get("kind") if isinstance(document, dict) else None
        target = ""
        if kind != "Scenario":
            target = f"{kind}/{random.choice(self._given.names)}:"
        path, value = "", document
        for _ in range(random.choice((1, 2, 3, 4, 6))):
            if isinstance(value, dict) and value:
                key = random.choice(list(value))
                path, value = f"{path}.{key}", value[key]
            elif isinstance(value, list) and value:
                index = random.randrange(len(value) + 1)
                path, value = f"{path}[{index}]", value[min(index, len(value) - 1)]
        return target + path.removeprefix(".")

    def _positional(self) -> list[str]:
        names = [each.name for each in self._parameters if each.param_type_name == "argument"]
        return [word for name in names for word in self._argument(name or "")]

    def _argument(self, name: str) -> list[str]:
        random = self._random
        match name:
            case "files":
                return self._files()
            case "scenario":
                return [self._file]
            case "file":
                return self._patch_file()
            case "shell":
                return [random.choice(TEXTS if self._is_odd() else ("bash", "zsh", "fish"))]
            case _:
                return [self._object_name()]

    def _object_name(self) -> str:
        random = self._random
        if self._is_odd():
            return random.choice(TEXTS)
        if self._name in ("explain type", "explain price"):
            return random.choice(self._given.instance_types())
        kinds = NODE_KINDS if self._name == "explain node" else POD_KINDS
        return random.choice(self._given.names_of(kinds))

    def _files(self) -> list[str]:
        """The input, mostly."""
        random = self._random
        if self._name == "plan" and random.random() < 0.15:
            return ["--diff", *random.sample((OTHER, self._file), 2)]
        match random.randrange(20):
            case 0:
                return ["-"]
            case 1:
                return [self._file, "-"]
            case 2:
                return [str(self._folder)]
            case 3:
                return [self._file, random.choice((OTHER, self._file, "-", "missing"))]
            case 4 if "from_cluster" in self._names:
                return self._cluster()
            case _:
                return [self._file]

    def _cluster(self) -> list[str]:
        return ["--from-cluster", *self._kubeconfig()]

    def _kubeconfig(self) -> list[str]:
        context = self._random.choice(([], [], ["--context", "b"], ["--context", "a\x1b[31m"]))
        return ["--kubeconfig", odd_kubeconfig(self._random, self._folder), *context]

    def _patch_file(self) -> list[str]:
        """A patch of an emulator, or the input, or none."""
        random = self._random
        if random.random() < 0.3:
            return random.choice(([], [self._file], ["-"]))
        patch: Any = odd_patch(random, TEXTS)
        if random.random() < 0.2:
            patch = patch.get(random.choice(PATCH_FIELDS))
        target = self._folder / "patch.json"
        target.write_text(json.dumps(patch), "utf-8")
        return [str(target)]

    def _bounds(self) -> list[str]:
        random = self._random
        match self._name:
            case "simulate" if random.random() < 0.4:
                return ["--check"]
            case "simulate":
                return [*self._until(), "--pod-limit", PODS_OF_A_SIMULATION]
            case "top":
                return ["--once", *self._played()]
            case "serve" | "emulator":
                odd = ("-1", "65536", "x", "1e3", "")
                return ["--port", random.choice(odd) if self._is_odd() else "0"]
            case "snapshot":
                return self._kubeconfig()
            case _:
                return []

    def _until(self) -> list[str]:
        """The whole scenario, where it says how long it is and that is not too long."""
        random = self._random
        if self._is_odd():
            odd = (
                "4m",
                "0s",
                "-1h",
                "1ns",
                "90",
                "٣h",
                "1h1h",
                "",
                "inf",
                "nan",
                "1e400s",
                "x" * 300,
            )
            return ["--until", random.choice(odd)]
        length = min(_length(self._given) or LONGEST, random.choice((600.0, 1800.0, LONGEST)))
        return ["--until", f"{int(length)}s"]

    def _played(self) -> list[str]:
        """A scenario that `top` plays runs to its end."""
        length = _length(self._given)
        is_short = length is not None and length <= LONGEST
        return ["--scenario", self._file] if is_short and self._random.random() < 0.5 else []


def _length(given: FuzzInput) -> float | None:
    """What the scenario says of its duration, if that can be read."""
    for document in given.documents:
        spec = document.get("spec") if isinstance(document, dict) else None
        text = spec.get("duration") if isinstance(spec, dict) else None
        if document.get("kind") == "Scenario" if isinstance(document, dict) else False:
            return duration_seconds(text) if isinstance(text, str) else None
    return None
