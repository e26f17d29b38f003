"""The node as it appears in the cluster: the labels that nobody had to write."""

from typing import Final

from wainwright.catalogue.ami import TRAITS, AmiFamily
from wainwright.emulator.boot.booted import Booted
from wainwright.emulator.boot.facts import Facts, Family
from wainwright.model import labels

BUILDS: Final = {
    f"Windows_Server-{year}-": TRAITS[AmiFamily(f"Windows{year}")].windows_build
    for year in (2019, 2022, 2025)
}


def node_labels(booted: Booted, facts: Facts) -> dict[str, str]:
    """Those of the user data, and over them what kubelet and cloud controller say themselves."""
    return dict(booted.labels) | _of_machine(booted, facts) | _of_place(facts)


def _of_machine(booted: Booted, facts: Facts) -> dict[str, str]:
    windows = booted.family is Family.WINDOWS
    system, machine = "windows" if windows else "linux", facts.machine
    build = next((BUILDS[each] for each in BUILDS if facts.image_name.startswith(each)), None)
    return {
        "beta.kubernetes.io/arch": machine.architecture,
        "beta.kubernetes.io/instance-type": machine.name,
        "beta.kubernetes.io/os": system,
        labels.ARCH: machine.architecture,
        labels.HOSTNAME: facts.private_dns,
        labels.INSTANCE_TYPE: machine.name,
        labels.OS: system,
        **({} if build is None else {labels.WINDOWS_BUILD: build}),
    }


def _of_place(facts: Facts) -> dict[str, str]:
    return {
        "failure-domain.beta.kubernetes.io/region": facts.region,
        "failure-domain.beta.kubernetes.io/zone": facts.zone,
        labels.REGION: facts.region,
        labels.ZONE: facts.zone,
        labels.ZONE_ID: facts.zone_id,
    }
